"""Diagnostic log on standard error, for ``securefl --log-level``: connections, frames, steps. No payloads."""

import logging
import os
import sys
import time
from typing import Final, Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
VARIABLE: Final = "SECUREFL_LOG_LEVEL"
"""Environment variable that passes the level to the processes of a run."""


def log_of(name: str) -> logging.Logger:
    """Return the logger ``securefl.name``; it prints nothing until a level is set."""
    root = logging.getLogger("securefl")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return root.getChild(name)


def set_level(level: Level) -> None:
    """Log from this level on, in this process and in its child processes."""
    os.environ[VARIABLE] = level
    apply_level()


def apply_level() -> None:
    """Apply the level of the environment; with none, or an unknown one, log nothing."""
    level = os.environ.get(VARIABLE, "")
    log = logging.getLogger("securefl")
    if level not in get_args(Level) or any(isinstance(one, logging.StreamHandler) for one in log.handlers):
        return
    handler = logging.StreamHandler(sys.stderr)
    form = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    form.converter = time.gmtime
    handler.setFormatter(form)
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False
