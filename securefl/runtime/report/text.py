"""Text for people."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from securefl import scenario
from securefl.base.text import count_of, digits, list_of, printable, seconds
from securefl.base.text import rate as percent

__all__ = ("count_of", "curve", "digits", "list_of", "percent", "printable", "seconds", "size")

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS: Final = " .:-=+*#@"


def size(number: float) -> str:
    """Return bytes with a decimal prefix: ``1.2 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000 or unit == "GB":
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("unreachable")


def curve(values: Sequence[float], width: int, height: int = 1, *, ascii_only: bool = False) -> list[str]:
    """Return a filled curve in ``height`` lines of at most ``width`` characters, top line first.

    The lowest value is 1/8 of a line high, the highest fills all lines. Longer series keep each column's last
    value; not finite values leave a gap.
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


def filter_name(groups: scenario.Groups) -> str:
    """Return the name of the filter that excludes opened sums, besides the checks."""
    return "rule" if groups.screen is None else "rule or screen"


def refusal_text(vantage: str, culprit: str, reason: str) -> str:
    """Return one line on a rejection."""
    return f"{printable(vantage, 32)} rejected a message of {printable(culprit, 32)}: {printable(reason)}"


def late_text(vantage: str, culprits: Mapping[str, int], what: str) -> str:
    """Return one line on late messages, counted by sender, which accuse no peer.

    ``what`` is the messages and the cause, as in ``securefl.protocol.round.strip_late_prefix``.
    """
    messages = count_of(sum(culprits.values()), "late message")
    return f"{printable(vantage, 32)} ignored {messages} of {list_of(culprits)}: {printable(what)}"
