"""The side of a unit: arguments, lines on the standard output, and exit codes."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TextIO

from tools.cuda.runner import CODE_UNFINISHED

Result = Mapping[str, Any]


class TimeIsUpError(Exception):
    """The time of a unit is up before it has all of its results; the next run continues."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Arguments of a unit."""

    device: str
    out: Path
    """Folder for files that must survive to the next run."""
    data_dir: Path | None
    """Folder of the data sets; None if there is none."""
    deadline: float
    """Time of the monotonic clock at which it must have ended."""
    done: frozenset[str] = frozenset()
    """Parts that have a result from an earlier run."""

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.deadline - time.monotonic()

    def need(self, seconds: float) -> None:
        """Go on only with this much time.

        Raises:
            TimeIsUpError: less is left.
        """
        if self.left < seconds:
            raise TimeIsUpError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that :func:`task_of` reads."""
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--done", default="", help="parts that have a result, with commas")


def task_of(given: argparse.Namespace) -> Task:
    """Return the task that the arguments describe."""
    return Task(
        device=given.device,
        out=given.out,
        data_dir=given.data_dir,
        deadline=time.monotonic() + given.seconds,
        done=frozenset(part for part in given.done.split(",") if part),
    )


@contextmanager
def reserved_output() -> Iterator[TextIO]:
    """Yield a file for the standard output, and send all else that is printed to the error output."""
    sys.stdout.flush()
    ours = os.dup(1)
    try:
        os.dup2(2, 1)
        with os.fdopen(os.dup(ours), "w", encoding="utf-8") as file:
            yield file
    finally:
        sys.stdout.flush()
        os.dup2(ours, 1)
        os.close(ours)


def write_line(file: TextIO, line: Result) -> None:
    """Write one line at once."""
    file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    file.flush()


def run_unit(main: Callable[[Task], Iterable[Result]], task: Task) -> int:
    """Print the results of ``main`` one by one; return the exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    # A shell in the background lets its commands ignore it; commands of this unit are interrupted by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with reserved_output() as file:
        try:
            for result in main(task):
                write_line(file, result)
        except (TimeIsUpError, KeyboardInterrupt):
            return CODE_UNFINISHED
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
