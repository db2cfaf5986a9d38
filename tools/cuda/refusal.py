"""Errors of the tools in this package: one line, with a remedy. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Callable


class RefusedError(Exception):
    """An input is refused: a file, a folder, a version or a size. Exit code 2."""

    exit_code = 2

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")


class FailedError(RefusedError):
    """A step failed although its input was accepted, such as a download. Exit code 3."""

    exit_code = 3


def run(command: Callable[[], None]) -> int:
    """Run the command and return its exit code; print an error of this module as one line."""
    try:
        command()
    except RefusedError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def progress(line: str) -> None:
    """Print a line about the progress of long work to standard error."""
    print(line, file=sys.stderr, flush=True)


def last_line(output: str) -> str:
    """Return the last line of a program's output that names an error, or else its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.upper().startswith("ERROR")]
    return (errors or lines or ["no output"])[-1]
