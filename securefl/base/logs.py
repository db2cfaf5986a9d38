"""Diagnostic log on standard error (``--log-level``): connections, frames, steps. No payloads."""

import logging
import os
import sys
import time
from typing import Final, Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
VARIABLE: Final = "SECUREFL_LOG_LEVEL"
"""Environment variable with the level for the processes of a run."""


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


def apply_level() -> None:
    """Apply the level of the environment; log nothing if it is missing or unknown."""
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
