"""Diagnostic log on standard error (``--log-level``): connections, frames, steps. No payloads."""

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
VARIABLE: Final = "SECUREFL_LOG_LEVEL"
"""Environment variable with the level for the processes of a run."""
FORMAT_VARIABLE: Final = "SECUREFL_LOG_FORMAT"
"""Environment variable with the format."""


class _Bound:
    """Fields of all lines of this process: it takes part in one run at a time."""

    run: str | None = None
    party: str | None = None
    round: int | None = None


def log_of(name: str) -> logging.Logger:
    """Return the logger ``securefl.name``; it prints nothing until a level is set."""
    root = logging.getLogger("securefl")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return root.getChild(name)


def set_level(level: Level) -> None:
    """Log from this level on, here and in child processes."""
    os.environ[VARIABLE] = level
    apply_level()


def set_format(form: LogFormat) -> None:
    """Set the format, here and in child processes; call it before :func:`set_level`."""
    os.environ[FORMAT_VARIABLE] = form


def apply_level() -> None:
    """Apply level and format of the environment; log nothing if the level is missing or unknown."""
    level = os.environ.get(VARIABLE, "")
    log = logging.getLogger("securefl")
    if level not in get_args(Level) or any(isinstance(one, logging.StreamHandler) for one in log.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if os.environ.get(FORMAT_VARIABLE) == get_args(LogFormat)[1] else _text_lines()
    )
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False


@contextmanager
def bind_run(run: str, party: str | None = None) -> Iterator[None]:
    """Add run and process to the JSON lines of this process in the context."""
    before = _Bound.run, _Bound.party, _Bound.round
    _Bound.run, _Bound.party, _Bound.round = run, party, None
    try:
        yield
    finally:
        _Bound.run, _Bound.party, _Bound.round = before


def bind_round(number: int) -> None:
    """Add the current round to later JSON lines of the run that is bound."""
    if _Bound.run is not None:
        _Bound.round = number


class JsonLines(logging.Formatter):
    """Formatter of one JSON object per line, with the same fields in each; unknown ones are null."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        fields: dict[str, str | int | None] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "run": _Bound.run,
            "party": _Bound.party,
            "round": _Bound.round,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _text_lines() -> logging.Formatter:
    form = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    form.converter = time.gmtime
    return form
