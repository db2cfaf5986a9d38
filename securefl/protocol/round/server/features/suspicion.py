"""Suspicion: evidence of the checks over rounds, and its subjects (docs/checks.md).

The subject is a fixed cluster, a party if a sum is one upload, or a party in changing clusters
(:func:`securefl.methods.feasibility.dp_checks.evidence_of`). The last is a bet on how often its sums fail,
fair because the draw is random. So it includes every party that the first draw of a round puts into a
cluster; an unopened sum has not failed. A void draw is a lost bet of all parties present, and later draws of
the round have none. Otherwise Byzantine parties could withhold nonces, or block sums, whenever only they
would be blamed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from securefl.base import header
from securefl.base.ids import PartyId
from securefl.methods import feasibility, privacy
from securefl.methods.clustering import fixed_assignment, fixed_seed, odds
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.scenario import Scenario

Suspicion = Mapping[reports.Group, privacy.CheckEvidence]
"""Only groups with evidence."""

NO_SUSPICION: Suspicion = MappingProxyType({})


def evidence_sentence(scenario: Scenario) -> header.Sentence:
    """Return the sentence on the subjects of evidence over rounds."""
    of = {
        "uploads": "each party",
        "clusters": "each fixed cluster as a whole",
        "presence": f"each party, given at most {scenario.aggregation.byzantine} Byzantine",
        "none": "no single party",
    }[kind := feasibility.evidence_of(scenario)]
    named = f"; an honest one is ever named with probability {100 * scenario.checks.alpha:g} % at most"
    return header.tolerance(more=f"evidence over rounds: of {of}{'' if kind == 'none' else named}")


def update_evidence(
    plan: RunPlan,
    before: Suspicion,
    drawn: Draw,
    sums: Sequence[ClusterSum],
    checked: Sequence[reports.SumChecked],
) -> Suspicion:
    """Return the evidence after a round; ``checked`` has one result per sum, or none."""
    match feasibility.evidence_of(plan.scenario):
        case "none":
            return before
        case "presence":
            return before if drawn.number else _bet(plan, before, drawn, sums, checked)
        case "uploads" | "clusters":
            home = {party: group for group in groups_of(plan) for party in group}
            found = [([home[opened.members[0]]], one.e_values) for opened, one in _pairs(sums, checked)]
            return MappingProxyType(privacy.gather(before, found))


def count_void_draw(plan: RunPlan, before: Suspicion, draw: int, present: Iterable[PartyId]) -> Suspicion:
    """Return the evidence after a void draw, with the parties present."""
    if draw or feasibility.evidence_of(plan.scenario) != "presence":
        return before
    lost = _presence(plan, failed=False, company=0.0)
    return MappingProxyType(privacy.gather(before, [([(party,) for party in present], lost)]))


def list_suspects(evidence: Suspicion) -> tuple[reports.Suspect, ...]:
    """Return the evidence for reports, in decimal digits."""
    return tuple(
        reports.Suspect(group, one.log_highest / math.log(10), one.log_now / math.log(10))
        for group, one in sorted(evidence.items())
    )


def groups_of(plan: RunPlan) -> tuple[reports.Group, ...]:
    """Return all groups that evidence may concern; empty without evidence."""
    kind = feasibility.evidence_of(plan.scenario)
    if kind == "none":
        return ()
    if kind != "clusters":
        return tuple((party,) for party in sorted(plan.roster.parties))
    seed, parties = fixed_seed(plan.run, plan.draw_digest), plan.roster.parties
    return fixed_assignment(seed, parties, parties.keys(), plan.scenario.clustering.size, 1).clusters[0]


def naming_threshold(plan: RunPlan) -> float:
    """Return the digits that name a group; honest ones reach them with probability <= ``checks.alpha``."""
    return math.log10(len(groups_of(plan)) / plan.scenario.checks.alpha)


def _bet(
    plan: RunPlan,
    before: Suspicion,
    drawn: Draw,
    sums: Sequence[ClusterSum],
    checked: Sequence[reports.SumChecked],
) -> Suspicion:
    failed = {opened.key: opened.survivors for opened, one in _pairs(sums, checked) if not one.ok}
    assignment, byzantine = drawn.assignment, plan.scenario.aggregation.byzantine
    others = len(assignment.participants) - 1
    found: list[tuple[reports.Group, tuple[float, ...]]] = []
    for r, row in enumerate(assignment.clusters):
        mates = max(map(len, row)) - 1
        company = odds.tail(others, min(byzantine, others), mates, 1)
        for j, members in enumerate(row):
            blamed = failed.get((r, j), ())
            found += [
                ((party,), _presence(plan, failed=party in blamed, company=company)) for party in members
            ]
    return MappingProxyType(privacy.gather(before, [([group], values) for group, values in found]))


def _presence(plan: RunPlan, *, failed: bool, company: float) -> tuple[float, ...]:
    alpha = plan.scenario.checks.alpha
    return tuple(privacy.presence(failed, company, alpha, stake) for stake in privacy.PRESENCE_STAKES)


def _pairs(
    sums: Sequence[ClusterSum], checked: Sequence[reports.SumChecked]
) -> Iterable[tuple[ClusterSum, reports.SumChecked]]:
    return zip(sums, checked, strict=True)
