"""Run a program in a network namespace with a loopback interface alone. Standard library only."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1


def prefix(python: str) -> list[str]:
    """Return the words that, before a command, run it without a network; none if that is not permitted.

    Args:
        python: interpreter that brings the loopback interface up.
    """
    program = shutil.which("unshare")
    if program is None:
        return []
    # Only root makes a namespace of the network without one of users.
    options = "-n" if os.geteuid() == 0 else "-rn"
    words = [program, options, python, "-I", os.path.abspath(__file__)]  # noqa: PTH100 - given to a program
    probe = subprocess.run([*words, python, "-I", "-c", ""], capture_output=True, check=False)
    return words if probe.returncode == 0 else []


def main(command: list[str]) -> None:
    """Bring the loopback interface up and replace this process by the command."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    os.execv(command[0], command)  # noqa: S606 - replacing this process is the purpose; no shell is needed


if __name__ == "__main__":
    main(sys.argv[1:])
