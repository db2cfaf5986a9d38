"""Small pieces of text for people: counts, sizes, times, curves, and names that came from outside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS: Final = " .:-=+*#@"


def printable(text: str, limit: int = 160) -> str:
    """``text`` on one line, without control characters: reasons may quote what a peer sent."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."


def counted(number: int, noun: str) -> str:
    """``1 sum``, ``2 sums``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def listed(names: Iterable[str], limit: int = 8) -> str:
    """``p00, p01 and 3 more``."""
    names = [printable(name, 32) for name in names]
    shown, rest = names[:limit], len(names) - limit
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def size(number: float) -> str:
    """Bytes with a decimal prefix: ``1.2 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("unreachable")


def seconds(number: float) -> str:
    """``3.2 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if number < 60:
        return f"{number:.1f} s"
    minutes, rest = divmod(round(number), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def percent(fraction: float | None) -> str:
    """``96.1 %``; a dash where there is nothing to show."""
    return "-" if fraction is None or not math.isfinite(fraction) else f"{100 * fraction:.1f} %"


def digits(value: float | None) -> str:
    """Three of them, ``0.0961``; a dash where there is nothing to show."""
    return "-" if value is None else f"{value:.3g}"


def curve(values: Sequence[float], width: int, height: int = 1, *, ascii_only: bool = False) -> list[str]:
    """A filled curve of ``values`` in ``height`` lines of at most ``width`` characters, topmost line first.

    The lowest value is one eighth of a line high, the highest fills all lines. Longer series keep the last
    value of each column; values that are not finite leave a gap.
    """
    blocks = _ASCII_BLOCKS if ascii_only else _BLOCKS
    columns = min(width, len(values))
    shown = [values[(column + 1) * len(values) // columns - 1] for column in range(columns)]
    known = [value for value in shown if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    levels = [
        0 if not math.isfinite(v) else 1 + round((v - low) / ((high - low) or 1.0) * (8 * height - 1))
        for v in shown
    ]
    return [
        "".join(blocks[min(8, max(0, level - 8 * row))] for level in levels)
        for row in reversed(range(height))
    ]
