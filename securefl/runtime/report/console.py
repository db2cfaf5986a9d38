"""Terminal that commands write to."""

import os

from rich.console import Console


class Terminal(Console):
    """Console that ignores a closed pipe (``| head``), so that the work keeps its exit code."""

    def on_broken_pipe(self) -> None:
        """Suppress further output."""
        self.quiet = True
        # Python flushes stdout at exit, and complains if it cannot.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
