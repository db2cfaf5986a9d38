"""Absences of parties, and their end: a party of the roster may join in any round."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from securefl.base.ids import PartyId
from securefl.protocol import kernel
from securefl.protocol.round.shared import reports

Absences: TypeAlias = Mapping[PartyId, int | None]
"""Absent parties, with the first round of the absence; None if absent since the server's start."""

NO_ABSENCES: Final[Absences] = MappingProxyType({})


def absences_at_start(missing: Iterable[PartyId]) -> Absences:
    """Return the absences of parties that were missing at the start."""
    return dict.fromkeys(missing)


def update_absences(
    known: Absences, round_: int, present: Collection[PartyId], awaited: Iterable[PartyId]
) -> tuple[Absences, reports.Effects]:
    """Return the absences after the hellos of a round, and a report of those that ended.

    Args:
        known: absences before.
        round_: number of the round.
        present: parties that sent a hello.
        awaited: parties that could have sent one.
    """
    after = {party: known.get(party, round_) for party in awaited if party not in present}
    ended = [(party, known[party]) for party in sorted(present) if party in known]
    if not ended:
        return after, ()
    joined = tuple(party for party, since in ended if since is None)
    returned = tuple((party, since) for party, since in ended if since is not None)
    return after, (kernel.Report(reports.LateJoin(round_, joined, returned)),)
