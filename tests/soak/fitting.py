"""Slopes: what something grows by each round, and how well that is known.

Samples of one process depend on each other, and a garbage collector or another program on the machine throws
some far off. So a slope is fitted to medians of blocks of rounds, by Theil and Sen: the median of the slopes
between all pairs, with the interval that Kendall's rank correlation gives (95 %). That takes no distribution
for granted, but that blocks err independently: memory, which comes in leaps and stays, makes it too narrow.
A leap late in a run moves it little. So growth from the first block to the last one is looked at as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Final

from scipy.stats import theilslopes

CONFIDENCE: Final = 0.95
BLOCKS: Final = 20
"""Of all rounds, those in which a process warms up included."""
WARM: Final = 4
"""Blocks in which it does."""
HOLDS: Final = "holds"
FAILS: Final = "does not hold"
UNDECIDED: Final = "not decided"

Point = tuple[float, float]
"""A round, and what was found there."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth per round."""

    value: float
    low: float
    high: float
    """Ends of the interval."""
    whole: float
    """From the first point to the last one, whatever lies between."""

    def times(self, factor: float) -> Slope:
        """In another unit."""
        return Slope(*(part * factor for part in (self.value, self.low, self.high, self.whole)))

    def verdict(self, bound: float, *, ends: bool = True) -> str:
        """Whether it is below the bound, as far as the interval tells, and, where ``ends`` count, they do.

        Of times they do not: two of those are as far off as any others.
        """
        if self.low >= bound:
            return FAILS
        return HOLDS if max(self.high, self.whole if ends else self.high) < bound else UNDECIDED


def block_medians(points: Iterable[Point], rounds: int) -> list[Point]:
    """Medians of each block of rounds but those at the beginning; the moment after the last round is its."""
    size = max(1.0, rounds / BLOCKS)
    blocks = groupby(sorted(points), key=lambda point: int(min(point[0], rounds - 1) // size))
    return [middle(list(block)) for number, block in blocks if number >= WARM]


def middle(points: Sequence[Point]) -> Point:
    """The medians of both coordinates."""
    return median(at for at, _ in points), median(value for _, value in points)


def slope_of(points: Sequence[Point]) -> Slope | None:
    """The slope through medians of blocks; None of fewer than three."""
    if len(points) < 3:
        return None
    (began, first), (ended, last) = points[0], points[-1]
    found = theilslopes([value for _, value in points], [at for at, _ in points], CONFIDENCE)
    whole = (last - first) / (ended - began)
    return Slope(float(found.slope), float(found.low_slope), float(found.high_slope), whole)
