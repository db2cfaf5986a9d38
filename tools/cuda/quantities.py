"""Numbers as people read them: seconds, memory, rates and ratios."""

from __future__ import annotations

import math
from typing import Final

_GIB: Final = 1024
"""MiB of a GiB."""


def duration(seconds: float) -> str:
    """Return a time: ``1.2 ms``, ``0.46 s``, ``9.5 s``, ``42 s`` or ``3 min 05 s``."""
    if seconds < 0.0995:
        return f"{_digits(seconds * 1000)} ms"
    if seconds < 99.5:
        return f"{_digits(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def memory(mib: float | None) -> str:
    """Return an amount of memory: ``85 MiB`` or ``1.6 GiB``; a dash if it is unknown."""
    if mib is None:
        return "-"
    return f"{mib:.0f} MiB" if mib < 1000 else f"{_digits(mib / _GIB)} GiB"


def rate(count: float, seconds: float) -> str:
    """Return how many a second, with two digits: ``84,000``."""
    return _digits(count / seconds) if seconds > 0 else "-"


def ratio(slow: float, fast: float) -> str:
    """Return how many times faster the second is: ``12 x``."""
    return f"{_digits(slow / fast)} x" if fast > 0 else "-"


def share(part: float) -> str:
    """Return a part of 1 as a percentage."""
    return f"{100 * part:.1f} %"


def _digits(number: float) -> str:
    """Return two significant digits, and three if the first is a 1 among whole numbers."""
    if number >= 9.95:
        scale = 10 ** max(0, len(str(round(number))) - (3 if str(round(number))[0] == "1" else 2))
        return f"{round(number / scale) * scale:,}"
    if number <= 0:
        return "0"
    # Rounded to two digits first: 0.0996 is 0.10.
    decimals = 1 - math.floor(math.log10(float(f"{number:.1e}")))
    return f"{number:.{decimals}f}"
