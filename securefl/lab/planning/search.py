"""From demands to the rows worth showing, or to what must be relaxed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from securefl.base.errors import ConfigError
from securefl.lab.planning.candidates import designs
from securefl.lab.planning.demand import Demand, check_demand
from securefl.lab.planning.front import front, recommended
from securefl.lab.planning.relaxing import unkept
from securefl.lab.planning.row import Row, is_open, looked_at, predict

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it, and of how much."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    demand: Demand
    rows: tuple[Row, ...]
    """The Pareto set, by bytes."""
    considered: int
    """Designs that keep the demands."""
    chosen: int
    """Place in ``rows`` of the one that is recommended."""


def plan(demand: Demand, data: str, progress: Progress = lambda _what, _done, _all: None) -> Plan:
    """Find the Pareto set.

    Args:
        demand: what is asked.
        data: a key of :data:`securefl.lab.planning.drafting.DATA`, for the scenario.
        progress: told of the steps.

    Raises:
        ConfigError: the demands contradict each other, or themselves: what to relax.
    """
    check_demand(demand)
    rows = _predicted(demand, data, progress)
    while True:
        best = front(rows)
        if not best:
            raise unkept(demand)
        fresh = [row for row in best if row.admitted is None]
        if not fresh:
            return Plan(demand, best, len(rows), best.index(recommended(best)))
        known = {}
        for done, row in enumerate(fresh):
            progress("ledger and freezes", done, len(fresh))
            known[row.design] = looked_at(demand, row)
        rows = [known.get(row.design, row) for row in rows]
        # Parties would not open all of these: they are no plans, and others come to the front.
        rows = [row for row in rows if is_open(row)]


def _predicted(demand: Demand, data: str, progress: Progress) -> list[Row]:
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
