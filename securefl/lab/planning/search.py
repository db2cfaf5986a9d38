"""Search for the best rows of a plan."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from securefl.base.errors import ConfigError
from securefl.lab.planning.candidates import designs
from securefl.lab.planning.demand import PlanRequest, check_demand
from securefl.lab.planning.relaxing import unkept
from securefl.lab.planning.row import Row, is_open, looked_at, predict

_RARE = 1e-6
"""Probability that counts as 0."""
_CLASS = 1.05
"""Ratio of costs that may count as equal, to avoid near copies."""


def front(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the Pareto set of :func:`merits`, sorted by bytes; of equal rows the first stays."""
    kept: list[tuple[tuple[int, ...], Row]] = []
    for row in rows:
        own = merits(row)
        if any(_covers(other, own) for other, _ in kept):
            continue
        kept = [(other, one) for other, one in kept if not _covers(own, other)]
        kept.append((own, row))
    return tuple(sorted((row for _, row in kept), key=lambda row: (row.bytes, row.variance)))


def merits(row: Row) -> tuple[int, ...]:
    """Return the merits, smaller is better, in classes of half decades of probability and 5 % of cost.

    They are failure of the rule, lost clusters, more colluding mates than f, leverage, combinable rounds
    (none with atoms), bytes, local works, sampling variance, noise.
    """
    return (
        _chance(1 - row.p_clean),
        _chance(row.p_lost),
        _chance(row.p_exceeded),
        round(20 * row.leverage) if row.design.shape.openings > 1 else 0,
        int(row.design.shape.atoms == 1),
        _cost(row.bytes),
        row.design.shape.works,
        _cost(row.variance),
        _cost(row.noise),
    )


def recommend(rows: Iterable[Row]) -> Row:
    """Return the row with the least product of bytes, local works and error per round without a lost cluster.

    The error is (variance + 1 / N) times noise variance of the aggregate. Of equal rows the first wins.
    """
    return min(rows, key=_price)


def _price(row: Row) -> float:
    members = row.design.shape.size * row.clusters
    error = (row.variance + 1 / members) * (row.noise**2 or 1.0)
    whole = 1 - row.p_lost
    return row.bytes * row.design.shape.works * error / whole if whole > 0 else math.inf


def _covers(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def _chance(probability: float) -> int:
    return -1_000 if probability < _RARE else round(2 * math.log10(probability))


def _cost(amount: float) -> int:
    return -100_000 if amount <= 0 else round(math.log(amount) / math.log(_CLASS))


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """Pareto set of parameters that meet a :class:`PlanRequest`.

    >>> import securefl
    >>> found = securefl.plan(parties=12, rounds=3)
    >>> found.rows[found.chosen].design.min_survivors >= 2
    True
    """

    demand: PlanRequest
    rows: tuple[Row, ...]
    """Pareto set, by bytes."""
    considered: int
    """Number of designs that meet the demands."""
    chosen: int
    """Index of the recommended row."""


def plan(demand: PlanRequest, data: str, progress: Progress = lambda _what, _done, _all: None) -> Plan:
    """Find the Pareto set.

    ``data`` is that of :func:`securefl.lab.planning.drafting.data_shape`.

    Raises:
        ConfigError: no plan meets the demands; it names those to relax.
    """
    check_demand(demand)
    rows = _predict_rows(demand, data, progress)
    while True:
        best = front(rows)
        if not best:
            raise unkept(demand)
        fresh = [row for row in best if row.admitted is None]
        if not fresh:
            return Plan(demand, best, len(rows), best.index(recommend(best)))
        known = {}
        for done, row in enumerate(fresh):
            progress("ledger and freezes", done, len(fresh))
            known[row.design] = looked_at(demand, row)
        rows = [known.get(row.design, row) for row in rows]
        # Parties would not open all of these; others join the front.
        rows = [row for row in rows if is_open(row)]


def _predict_rows(demand: PlanRequest, data: str, progress: Progress) -> list[Row]:
    listed = list(designs(demand))
    rows: list[Row] = []
    refusal: ConfigError | None = None
    for done, design in enumerate(listed):
        progress("designs", done, len(listed))
        try:
            rows.append(predict(demand, design, data))
        except ConfigError as error:
            refusal = error
    if refusal is not None and not rows:
        raise refusal
    # Candidates only approximate probabilities of shared noise, which are those of the worst presence.
    return [row for row in rows if row.p_exceeded <= demand.risk]
