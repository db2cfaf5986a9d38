"""Privacy budgets: releases of each party, for party, server and simulation.

A release counts once the party is in a round's clusters: others may open the sum of its input without it. A
restarted party counts the submissions in its journal instead.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol.round.shared.draw import shortage
from securefl.protocol.round.shared.plan import RunPlan

Releases = Mapping[PartyId, int]
"""Updates released by each party; 0 if missing."""

NO_RELEASES: Releases = MappingProxyType({})


def add_round(plan: RunPlan, releases: Releases, participants: Iterable[PartyId]) -> Releases:
    """Return the count after one more round; nothing is counted without privacy."""
    if plan.scenario.privacy.unit == "none":
        return releases
    counted = dict(releases)
    for party in participants:
        counted[party] = counted.get(party, 0) + clustering.works_of(plan.scenario.clustering)
    return MappingProxyType(counted)


def allowed_releases(plan: RunPlan, own: int | None = None) -> int | None:
    """Return the updates that a party may release, at most ``own``; None without a limit."""
    limits = [limit for limit in (plan.scenario.privacy.releases, own) if limit is not None]
    return min(limits, default=None)


def is_spent(plan: RunPlan, made: int, own: int | None = None) -> bool:
    """Return True if one more round exceeds the budget of a party with ``made`` releases."""
    allowed = allowed_releases(plan, own)
    return allowed is not None and made + clustering.works_of(plan.scenario.clustering) > allowed


def spent_parties(plan: RunPlan, releases: Releases) -> frozenset[PartyId]:
    """Return the parties with spent budgets."""
    return frozenset(party for party, made in releases.items() if is_spent(plan, made))


def reason_to_end(plan: RunPlan, releases: Releases) -> str | None:
    """Return why spent budgets end the run, or None."""
    spent = spent_parties(plan, releases)
    if not spent:
        return None
    left = plan.roster.parties.keys() - spent
    reason = shortage(plan, left)
    return None if reason is None else f"{len(left)} parties have privacy budget left; {reason}"
