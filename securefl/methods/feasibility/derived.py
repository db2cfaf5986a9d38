"""Numbers that a feasible scenario implies: planned clusters, tolerances, odds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from securefl.methods.clustering import (
    max_cluster_size,
    odds,
    quorum_of,
    server_of,
    shares_fail_in_run,
    tells_groups,
)
from securefl.methods.feasibility.atoms import p_atom_exposed, tolerated_dropouts
from securefl.methods.feasibility.task_groups import judged_together
from securefl.methods.robust import withstood
from securefl.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedLimits:
    """Numbers that follow from a feasible scenario."""

    participants: int
    """Parties that take part in a round."""
    cluster_sizes: tuple[int, ...]
    """Planned members per cluster, larger ones first; the same in every reclustering."""
    max_cluster_size: int
    """A round that would form a larger cluster, because parties stay away, must not go on."""
    ring_bits: Literal[32, 64]
    tolerated_dropouts: tuple[int, ...]
    """Per cluster: how many members may be missing from an opened sum."""
    quorum: int | None
    """Signatures that certify a freeze: more than (N + q) / 2. ``None`` where the server need not certify."""
    breakdown: int
    """Clusters with Byzantine members that the rule withstands; with task groups, of the smallest group's."""
    p_clean: float
    """P(a cluster has no Byzantine member), for the largest planned size and ``aggregation.byzantine``."""
    p_rule_holds: float
    """P(at most ``breakdown`` clusters have Byzantine members) for one random assignment."""
    p_alone_per_opening: float
    """P(all cluster mates of a given party collude, or as many as the threshold), for the worst planned size.

    Against an active server: in one draw, at the presence that suits it best, with the inputs of honest
    mates lost (:mod:`securefl.methods.clustering.isolation`)."""
    p_alone_in_run: float
    """The same for at least one of the T x R openings of the whole run; active server: of all draws.

    With atoms: P(all of a party's atom mates collude). Sums can determine an atom, and no less.
    Fixed clusters are one assignment; that it was drawn by chance is up to whoever starts the run. With open
    task groups 1 where there are colluders enough to fill a cluster: they name the party's group."""
    p_shares_fail: float
    """P(more than f of a given party's cluster mates collude in at least one opening): what shared noise is
    not reckoned for. At most so much, however few parties a round goes on with; 0.0 without shared noise."""

    @property
    def clusters(self) -> int:
        """c: clusters per reclustering."""
        return len(self.cluster_sizes)


def derive(scenario: Scenario, sizes: tuple[int, ...], ring_bits: Literal[32, 64]) -> DerivedLimits:
    """The limits of a scenario that :func:`securefl.methods.feasibility.limits.check` has found feasible."""
    plan, parties, byzantine = scenario.secure_sum, scenario.parties, scenario.aggregation.byzantine
    judged = judged_together(scenario, sizes)
    tolerated = withstood(scenario.aggregation, len(judged))
    quorum = quorum_of(parties, plan.colluders) if plan.server == "active" else None
    alone, in_run = _alone(scenario, sizes)
    return DerivedLimits(
        participants=sum(sizes),
        cluster_sizes=sizes,
        max_cluster_size=max_cluster_size(scenario),
        ring_bits=ring_bits,
        tolerated_dropouts=tolerated_dropouts(scenario),
        quorum=quorum,
        breakdown=tolerated,
        p_clean=1 - odds.tail(parties, byzantine, max(sizes), 1),
        p_rule_holds=odds.touched_at_most(judged, byzantine, tolerated, parties - sum(judged)),
        p_alone_per_opening=alone,
        p_alone_in_run=in_run,
        p_shares_fail=shares_fail_in_run(scenario),
    )


def _alone(scenario: Scenario, sizes: tuple[int, ...]) -> tuple[float, float]:
    """P(a given party is left alone among colluders) in one opening, and in the run."""
    sums, clustering = scenario.secure_sum, scenario.clustering
    if not sums.colluders:
        return 0.0, 0.0
    if tells_groups(scenario.groups):
        filled = float(sums.colluders >= min(sums.threshold, sums.min_survivors - 1))
        return filled, filled
    openings = scenario.stop.rounds * clustering.reclusterings
    # Mates as many as the threshold rebuild a party's masks; CrypTen's members hold no such shares.
    threshold = sums.threshold if sums.kind == "masking" else None
    by_chance = max(
        odds.tail(
            scenario.parties - 1,
            sums.colluders,
            size - 1,
            size - 1 if threshold is None else min(threshold, size - 1),
        )
        for size in set(sizes)
    )
    if clustering.atoms > 1:
        return _alone_in_atoms(scenario, by_chance, openings)
    if sums.server == "curious":
        return by_chance, by_chance if clustering.fixed else odds.once_in(by_chance, openings)
    server = server_of(scenario)
    if clustering.fixed:
        return (server.isolates_at_once(sums.min_survivors, threshold),) * 2
    worst = server.isolates(sums.min_survivors, threshold)
    return worst.chance, worst.in_run(openings)


def _alone_in_atoms(scenario: Scenario, by_chance: float, openings: int) -> tuple[float, float]:
    """The same where sums may determine atoms: its atom mates collude, or as many mates as the threshold."""
    sums, exposed = scenario.secure_sum, p_atom_exposed(scenario)
    if sums.kind != "masking":
        return (by_chance if sums.server == "curious" else exposed), exposed
    if sums.server == "curious":
        return by_chance, max(exposed, odds.once_in(by_chance, openings))
    worst = server_of(scenario).exceeds(sums.threshold - 1)
    return max(exposed, worst.chance), max(exposed, worst.in_run(openings))
