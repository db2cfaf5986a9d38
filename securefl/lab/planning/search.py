"""Search for the rows worth showing of a plan, or for the demands to relax."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from securefl.base.errors import ConfigError
from securefl.lab.planning.candidates import designs
from securefl.lab.planning.demand import PlanRequest, check_demand
from securefl.lab.planning.relaxing import unkept
from securefl.lab.planning.row import Row, is_open, looked_at, predict

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
    return tuple(sorted((row for _, row in kept), key=lambda row: (row.bytes, row.variance)))


def merits(row: Row) -> tuple[int, ...]:
    """The merits compared, the smaller the better, in classes: half decades of probabilities, 5 % of costs.

    Failure of the rule; a lost cluster; a party among more colluders than reckoned; leverage;
    sums over which rounds may go together (none with atoms); bytes; local works; sampling variance; noise.
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
    """The row with the least product of bytes, local works and error for each round that loses no cluster.

    The error is the variance of the aggregate (with 1 / N, that of the best possible one) times that of its
    noise. All rows keep the demands; of equals it is the first.
    """
    return min(rows, key=_price)


def _price(row: Row) -> float:
    everybody = row.design.shape.size * row.clusters
    error = (row.variance + 1 / everybody) * (row.noise**2 or 1.0)
    whole = 1 - row.p_lost
    return row.bytes * row.design.shape.works * error / whole if whole > 0 else math.inf


def _covers(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def _chance(probability: float) -> int:
    return -1_000 if probability < _RARE else round(2 * math.log10(probability))


def _cost(amount: float) -> int:
    return -100_000 if amount <= 0 else round(math.log(amount) / math.log(_CLASS))


Progress = Callable[[str, int, int], None]
"""What is being done, how much of it, and of how much."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a run that meet a :class:`PlanRequest`: a Pareto set and its recommended row.

    >>> import securefl
    >>> found = securefl.plan(parties=12, rounds=3)
    >>> found.rows[found.chosen].design.min_survivors >= 2
    True
    """

    demand: PlanRequest
    rows: tuple[Row, ...]
    """The Pareto set, by bytes."""
    considered: int
    """Designs that keep the demands."""
    chosen: int
    """Place in ``rows`` of the one that is recommended."""


def plan(demand: PlanRequest, data: str, progress: Progress = lambda _what, _done, _all: None) -> Plan:
    """Find the Pareto set.

    Args:
        demand: what is asked.
        data: of the scenario, as :func:`securefl.lab.planning.drafting.data_shape` takes it.
        progress: told of the steps.

    Raises:
        ConfigError: the demands contradict each other, or themselves: what to relax.
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
        # Parties would not open all of these: they are no plans, and others come to the front.
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
    # Odds of shared noise are those of the worst presence, to which candidates only come close.
    return [row for row in rows if row.p_exceeded <= demand.risk]
