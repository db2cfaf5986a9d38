"""Versions of this process."""

import platform
import re

import numpy as np

from securefl.base.version import __version__
from securefl.protocol import messages


def own_software() -> messages.Software:
    """Return this process's versions of Python, numpy and securefl."""
    return messages.Software(
        python=_printable(platform.python_version()),
        numpy=_printable(np.__version__),
        securefl=_printable(__version__),
    )


def _printable(version: str) -> str:
    """Return a version in the message's alphabet; some builds add other characters."""
    return re.sub(r"[^0-9A-Za-z.+-]", "-", version)[:32] or "unknown"
