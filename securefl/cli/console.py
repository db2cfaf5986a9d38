"""One-line failures with exit codes, folders of reports, and standard output for programs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import IO

import typer
from rich.text import Text

from securefl.base.errors import EXIT_ABORTED, EXIT_REFUSED, ConfigError, SecureflError
from securefl.base.ids import is_name
from securefl.runtime import report

_EXTRAS = {"torch": "learn", "sklearn": "learn"}
"""Packages that whole commands need, with the extra that installs them."""
_LONGEST = 2_000
"""Longest line, characters; a Goodbye's reason has at most 1,000."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors of securefl and of the machine (disk, files) into one line and an exit code."""
    try:
        yield
    except SecureflError as error:
        _fail("refused" if isinstance(error, ConfigError) else "aborted", str(error))
        raise typer.Exit(error.exit_code) from None
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").split(".")[0])
        if extra is None:
            raise
        _fail("refused", f"{error.name}: is not installed (pip install 'securefl[{extra}]')")
        raise typer.Exit(EXIT_REFUSED) from None
    except OSError as error:
        what = f"{error.filename}: " if error.filename is not None else ""
        _fail("aborted", f"{what}{error.strerror or error}")
        raise typer.Exit(EXIT_ABORTED) from None
    except KeyboardInterrupt as interrupt:
        # The text of a signal handled like Ctrl-C is its name.
        _fail("aborted", f"by {str(interrupt) or 'Ctrl-C'}; what was written stays")
        raise typer.Exit(EXIT_ABORTED) from None


def _fail(verdict: str, reason: str) -> None:
    line = Text.assemble((verdict, "bold red"), " ", report.printable(reason, _LONGEST))
    report.Terminal(stderr=True, soft_wrap=True).print(line)


def say(text: str) -> None:
    """Print one line without markup, control characters and wrapping."""
    report.Terminal(soft_wrap=True).print(Text(report.printable(text, _LONGEST)))


def make_folder(folder: Path) -> None:
    """Make the output folder of a command if it is missing.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(str(folder), f"cannot be made: {error.strerror}", "choose another --out") from error


def check_free(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Refuse to overwrite an earlier report.

    Raises:
        ConfigError: ``folder`` is a file, or has one of ``names`` without ``force``.
    """
    former = [folder / name for name in names if (folder / name).exists()]
    if former and not force:
        raise ConfigError(str(former[0]), "exists already", "choose another --out, or replace it by --force")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(str(folder), "is not a directory", "choose another --out")


@contextmanager
def answers(*, only: bool) -> Iterator[IO[str]]:
    """Yield standard output; if ``only``, redirect other output to standard error meanwhile.

    Other output is that of users' code, libraries below Python and child processes.
    """
    stdout = sys.stdout
    if not only:
        yield stdout
        return
    try:
        number, other = stdout.fileno(), sys.stderr.fileno()
    except (io.UnsupportedOperation, AttributeError):
        # The output of a notebook or a test, or a closed one, has no descriptor.
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


def name_of(option: str, text: str, what: str = "name") -> str:
    """Return ``text`` if it is a valid name of a party or a run.

    Raises:
        ConfigError: it is not; the error names ``option``.
    """
    if not is_name(text):
        raise ConfigError(
            option, f"{text!r} is not a valid {what}", "use a-z, 0-9, - and _, at most 32 characters"
        )
    return text
