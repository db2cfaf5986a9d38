"""Run a program that the kernel ends together with the process that started it.

``python -m securefl.runtime.transport._die_with_parent <parent pid> <program> <arguments...>``. The request
survives ``execve``: a threaded parent runs no Python between fork and exec. Linux only (prctl(2),
PR_SET_PDEATHSIG).
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replace this process by the program."""
    parent, program = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The parent may have died already.
        if os.getppid() != parent:
            sys.exit(1)
    os.execv(program[0], program)  # noqa: S606 - to replace this process is the point; no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
