"""Remove a folder once the process at the other end of standard input is gone.

``python -I -S _remove_with_parent.py <folder>``: only its owner can write to the pipe. It imports nothing of
securefl, to wait within milliseconds.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

_TRIES, _PAUSE = 100, 0.1
"""Retries: other processes that end with the owner may still be writing."""


def main(folder: str) -> None:
    """Remove the folder after the end of the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        continue
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            return
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main(sys.argv[1])
