"""The terminal that commands write to."""

import os

from rich.console import Console


class Terminal(Console):
    """A console whose reader may leave (``| head``): the work goes on, to the exit code of its own."""

    def on_broken_pipe(self) -> None:
        """Say no more."""
        self.quiet = True
        # Python flushes stdout when it ends, and complains if it cannot.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
