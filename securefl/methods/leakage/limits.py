"""Demands of parties on all sums of one update together, and the parties for which sums would break them.

One deterministic function of public data: every party evaluates it for every party before it releases
anything (protocol.md, step 8). That the victim alone looks after itself is not enough: others open the sums
without it.
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
"""A leverage above its limit by less is rounding, which may differ from one machine to another."""

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class LeakageLimits:
    """Demands of one party on what leaks.

    It is not exposed to any ``colluders`` other parties and stays among ``group`` honest ones exactly if
    every combination of sums that contains it contains ``support`` parties or more.
    """

    group: int = 2
    """k: smallest group of honest parties that may be determined. 1 demands nothing."""
    colluders: int = 0
    """Of the parties in a combination of sums, so many may collude with the server."""
    leverage: float = 1.0
    """The most that it may have, with as many colluders; 1 demands nothing."""

    @property
    def support(self) -> int:
        """The fewest parties that a combination of sums may contain; 1 where no group is demanded."""
        return self.colluders + self.group if self.group > 1 else 1


class Crossing(NamedTuple):
    """One party's limit that is not kept."""

    party: PartyId
    kind: Literal["exposed", "group", "leverage", "undecided"]
    """``undecided``: too much to search, which counts as crossed."""
    reason: str
    """For people, as the continuation of the party's name."""


def crossings(ledger: LeakageLedger, limits: Mapping[PartyId, LeakageLimits]) -> tuple[Crossing, ...]:
    """Parties whose limit is crossed once all sums of the ledger are open; empty where nobody's is.

    Nobody is missed, but for the doubt of the ledger. Takes about as long as the elimination for supports up
    to 4 parties, and much longer only where there is something to report.

    Args:
        ledger: with all columns, of colluders too.
        limits: of whoever demands any; the others are not looked at.
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
        # That the others are safe would take a search for each of them.
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
