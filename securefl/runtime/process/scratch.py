"""A folder for what a run on one machine needs on disk, which goes with the launcher, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_REMOVER = Path(__file__).with_name("_remove_with_parent.py")


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder that only this user can read.

    A process of its own waits for the end of this one and removes the folder even if nothing could be
    cleaned up any more: in it are the parties' data.
    """
    with tempfile.TemporaryDirectory(prefix="securefl-", ignore_cleanup_errors=True) as folder:
        # Neither end is inherited by others (PEP 446), so the pipe breaks when this process ends.
        theirs, ours = os.pipe()
        try:
            remover = subprocess.Popen(  # noqa: S603 - our interpreter, a file of ours, a list of arguments
                [sys.executable, "-I", "-S", str(_REMOVER), folder],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Signals to a whole group are for those that still have something to do.
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        try:
            yield Path(folder)
        finally:
            os.close(ours)
            remover.wait()
