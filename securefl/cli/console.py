"""Failures on a terminal: one line each, with their exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.text import Text

from securefl.base.errors import EXIT_ABORTED, EXIT_REFUSED, ConfigError, SecureflError
from securefl.runtime import report

_EXTRAS = {"torch": "learn", "sklearn": "learn"}
"""Packages that whole commands need, and what brings them along."""
_LONGEST = 2_000
"""Characters of one line; a Goodbye's reason has at most 1,000."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors on purpose, and those of the machine (disk, files), into one line and an exit code."""
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
        # A signal that is handled like Ctrl-C says its name.
        _fail("aborted", f"by {str(interrupt) or 'Ctrl-C'}; what was written stays")
        raise typer.Exit(EXIT_ABORTED) from None


def _fail(verdict: str, reason: str) -> None:
    line = Text.assemble((verdict, "bold red"), " ", report.printable(reason, _LONGEST))
    report.Terminal(stderr=True, soft_wrap=True).print(line)


def say(text: str) -> None:
    """Print one line as it is: no markup, no control characters, no wrapping."""
    report.Terminal(soft_wrap=True).print(Text(report.printable(text, _LONGEST)))
