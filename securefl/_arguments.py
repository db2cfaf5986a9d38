"""Python argument names in errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from securefl.base.errors import ConfigError, SecureflError

_OPTIONS: Final = re.compile(
    r"(?<![^\s(])"
    r"--(data-dir|seed|exact|device|out|site-python|site-memory|site|resume|broker|lab)\b(?: (?=[A-Z]+\b))?"
)


@contextlib.contextmanager
def named_in_python() -> Iterator[None]:
    """Replace command-line options that an error names by Python arguments."""
    try:
        yield
    except SecureflError as error:
        path = error.path if isinstance(error, ConfigError) else ""
        error.args = (_in_python(path, "") + _in_python(str(error).removeprefix(path)),)
        if isinstance(error, ConfigError):
            error.path, error.reason = _in_python(path, ""), _in_python(error.reason)
            error.remedy = _in_python(error.remedy)
        raise


def _in_python(words: str, sign: str = "=") -> str:
    return _OPTIONS.sub(lambda option: option[1].replace("-", "_") + sign, words)
