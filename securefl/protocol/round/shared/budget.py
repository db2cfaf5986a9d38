"""Privacy budgets: parties' numbers of releases, and whose is spent, for party, server and simulation.

A release counts once the party is in a round's clusters, whether or not anything of it is opened in the end:
from there on its masked input may leave, and others may open the sum without it. So everybody finds the same
number, except that a party that was restarted counts what its journal says it has submitted.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol.round.shared.draw import shortage
from securefl.protocol.round.shared.plan import RunPlan

Releases = Mapping[PartyId, int]
"""Updates that each party has released; 0 for whoever is not in it."""

NO_RELEASES: Releases = MappingProxyType({})


def with_round(plan: RunPlan, releases: Releases, participants: Iterable[PartyId]) -> Releases:
    """The count after one more round with these participants; nothing is counted without privacy."""
    if plan.scenario.privacy.unit == "none":
        return releases
    counted = dict(releases)
    for party in participants:
        counted[party] = counted.get(party, 0) + clustering.works_of(plan.scenario.clustering)
    return MappingProxyType(counted)


def allowed_of(plan: RunPlan, own: int | None = None) -> int | None:
    """The number of updates that a party may release; None where nothing limits them.

    Args:
        plan: of the run.
        own: what the party's own budget allows, which counts where it is less than the scenario's.
    """
    limits = [limit for limit in (plan.scenario.privacy.releases, own) if limit is not None]
    return min(limits, default=None)


def is_spent(plan: RunPlan, made: int, own: int | None = None) -> bool:
    """Whether one more round would take a party that has released ``made`` updates beyond its budget."""
    allowed = allowed_of(plan, own)
    return allowed is not None and made + clustering.works_of(plan.scenario.clustering) > allowed


def spent_by(plan: RunPlan, releases: Releases) -> frozenset[PartyId]:
    """The parties that will release no more."""
    return frozenset(party for party, made in releases.items() if is_spent(plan, made))


def ending(plan: RunPlan, releases: Releases) -> str | None:
    """The reason why spent budgets end the run; None where it goes on."""
    spent = spent_by(plan, releases)
    if not spent:
        return None
    left = plan.roster.parties.keys() - spent
    reason = shortage(plan, left)
    return None if reason is None else f"{len(left)} parties have privacy budget left; {reason}"
