"""Rows that no other row beats, and the one to begin with."""

from __future__ import annotations

import math
from collections.abc import Iterable

from securefl.lab.planning.row import Row

_RARE = 1e-6
"""Probabilities below it count as none."""
_CLASS = 1.05
"""Costs that differ by less may count as equal, so that a front has no dozens of near copies."""


def front(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The Pareto set, in order of bytes: rows of which no other is as good in all respects and better in one.

    Respects are those of :func:`merits`. Of rows that are alike in all of them the first one stays.
    """
    kept: list[tuple[tuple[int, ...], Row]] = []
    for row in rows:
        own = merits(row)
        if any(_covers(other, own) for other, _ in kept):
            continue
        kept = [(other, one) for other, one in kept if not _covers(own, other)]
        kept.append((own, row))
    return tuple(sorted((row for _, row in kept), key=lambda row: (row.traffic.total, row.variance)))


def merits(row: Row) -> tuple[int, ...]:
    """What is compared, the smaller the better, in classes: half decades of probabilities, 5 % of costs.

    Failure of the rule; a lost cluster; a party among more colluders than reckoned; leverage;
    sums over which rounds may go together (none with atoms); bytes; local works; sampling variance; noise.
    """
    return (
        _chance(1 - row.p_clean),
        _chance(row.p_lost),
        _chance(row.p_exceeded),
        round(20 * row.leverage) if row.design.shape.openings > 1 else 0,
        int(row.design.shape.atoms == 1),
        _cost(row.traffic.total),
        row.design.shape.works,
        _cost(row.variance),
        _cost(row.noise),
    )


def recommended(rows: Iterable[Row]) -> Row:
    """The row with the least product of bytes, local works and error for each round that loses no cluster.

    The error is the variance of the aggregate (with 1 / N, that of the best possible one) times that of its
    noise. All rows keep the demands; of equals it is the first.
    """
    return min(rows, key=_price)


def _price(row: Row) -> float:
    everybody = row.design.shape.size * row.clusters
    error = (row.variance + 1 / everybody) * (row.noise**2 or 1.0)
    whole = 1 - row.p_lost
    return row.traffic.total * row.design.shape.works * error / whole if whole > 0 else math.inf


def _covers(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def _chance(probability: float) -> int:
    return -1_000 if probability < _RARE else round(2 * math.log10(probability))


def _cost(amount: float) -> int:
    return -100_000 if amount <= 0 else round(math.log(amount) / math.log(_CLASS))
