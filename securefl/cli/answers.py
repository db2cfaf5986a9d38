"""Standard output for programs: the answer alone, whatever else writes to it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO


@contextmanager
def answers(*, only: bool) -> Iterator[IO[str]]:
    """Yield standard output; with ``only``, all that others write to it goes to standard error meanwhile.

    Others are sites, rules and data sets of the user's own, libraries below Python, and child processes.
    """
    stdout = sys.stdout
    if not only:
        yield stdout
        return
    try:
        number, other = stdout.fileno(), sys.stderr.fileno()
    except (io.UnsupportedOperation, AttributeError):
        # A notebook's, a test's, or a closed one: no file of the operating system is behind it.
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    stdout.flush()
    with open(os.dup(number), "w", encoding=stdout.encoding, errors=stdout.errors) as own:  # noqa: PTH123
        os.dup2(other, number)
        try:
            with redirect_stdout(sys.stderr):
                yield own
        finally:
            stdout.flush()
            own.flush()
            os.dup2(own.fileno(), number)
