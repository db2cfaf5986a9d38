"""Limits of parties on all sums of one update, and the parties whose limits the sums cross.

Every party evaluates this deterministic function of public data for every party before it releases shares
(protocol.md, step 8): others could open the sums without the victim.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from securefl.base.ids import PartyId
from securefl.methods.leakage.colluders import coalitions
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.leverage import computable, leverages
from securefl.methods.leakage.support import ALWAYS, IN_A_ROUND, searchable, support_below

TOLERANCE = 1e-9
"""Excess of a leverage over its limit that counts as rounding, which may differ between machines."""

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class LeakageLimits:
    """Limits of one party on leakage.

    Every combination of sums with the party must contain at least ``support`` parties. Then no ``colluders``
    others expose it, and it stays in a group of ``group`` honest ones.
    """

    group: int = 2
    """k: smallest group of honest parties whose sum may be determined. 1 sets no limit."""
    colluders: int = 0
    """Number of parties in a combination of sums that may collude with the server."""
    leverage: float = 1.0
    """Largest leverage with as many colluders; 1 sets no limit."""

    @property
    def support(self) -> int:
        """Smallest number of parties in a combination of sums; 1 without a limit on groups."""
        return self.colluders + self.group if self.group > 1 else 1


class Crossing(NamedTuple):
    """A crossed limit of one party."""

    party: PartyId
    kind: Literal["exposed", "group", "leverage", "undecided"]
    """``undecided``: the search is too large, which counts as crossed."""
    reason: str
    """Explanation for users, which continues the party's name."""


def crossings(ledger: LeakageLedger, limits: Mapping[PartyId, LeakageLimits]) -> tuple[Crossing, ...]:
    """Return the limits that are crossed once all sums of the ledger are open.

    No crossing is missed, except with the doubt of the ledger. The search is slow only for supports above 4
    parties or if there is a crossing. ``limits`` are of the parties with demands; others are not checked.
    """
    demands = {party: limits[party] for party in ledger.parties if party in limits}
    return tuple(sorted((*_on_groups(ledger, demands), *_on_leverage(ledger, demands))))


def _on_groups(ledger: LeakageLedger, demands: Mapping[PartyId, LeakageLimits]) -> tuple[Crossing, ...]:
    bound = max((demand.support for demand in demands.values()), default=1)
    if bound <= 1:
        return ()
    if not searchable(ledger, bound):
        return _undecided_crossings(
            demands, IN_A_ROUND + 1, f"combinations of up to {bound - 1} parties are too many to search"
        )
    smallest = support_below(ledger, bound)
    if smallest is None:
        return ()
    if bound - 1 > ALWAYS:
        # It would take a search for each other party to prove it safe.
        return _undecided_crossings(
            demands, len(smallest) + 1, f"{_names(smallest)} are a combination of sums"
        )
    supports = coalitions(ledger, bound - 2).supports
    return tuple(
        _crossing(party, supports[party], demand)
        for party, demand in demands.items()
        if party in supports and len(supports[party]) < demand.support
    )


def _crossing(party: PartyId, support: tuple[PartyId, ...], demand: LeakageLimits) -> Crossing:
    if len(support) == 1:
        return Crossing(party, "exposed", "its update follows from the sums")
    others = _names(tuple(other for other in support if other != party))
    return Crossing(
        party,
        "group",
        f"a combination of sums has only {others} besides it, fewer than {demand.support} in all",
    )


def _on_leverage(ledger: LeakageLedger, demands: Mapping[PartyId, LeakageLimits]) -> tuple[Crossing, ...]:
    found: list[Crossing] = []
    demanding = {party: demand for party, demand in demands.items() if demand.leverage < 1}
    for colluders in sorted({demand.colluders for demand in demanding.values()}):
        alike = {party: demand for party, demand in demanding.items() if demand.colluders == colluders}
        if not computable(ledger, colluders):
            found += _undecided_crossings(
                alike, 1, f"its leverage with {colluders} colluders is too much to search"
            )
            continue
        reached = dict(zip(ledger.parties, leverages(ledger, colluders).tolist(), strict=True))
        found += [
            Crossing(party, "leverage", f"leverage {reached[party]:.4g}, above {demand.leverage:g}")
            for party, demand in alike.items()
            if reached[party] > demand.leverage + TOLERANCE
        ]
    return tuple(found)


def _undecided_crossings(
    demands: Mapping[PartyId, LeakageLimits], above: int, reason: str
) -> tuple[Crossing, ...]:
    return tuple(
        Crossing(party, "undecided", reason) for party, demand in demands.items() if demand.support >= above
    )


def _names(parties: tuple[PartyId, ...]) -> str:
    more = len(parties) - _SHOWN
    return ", ".join(parties[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
