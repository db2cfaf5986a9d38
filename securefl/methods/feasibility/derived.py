"""Derived numbers of a feasible scenario: planned clusters, tolerances, odds."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from securefl.base import crypto, sums
from securefl.methods import robust
from securefl.methods.clustering import (
    max_cluster_size,
    odds,
    p_alone,
    p_shares_fail,
    quorum_of,
)
from securefl.methods.feasibility.atoms import tolerated_dropouts
from securefl.methods.feasibility.task_groups import judged_together
from securefl.scenario import Scenario, own_sources


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedLimits:
    """Numbers that follow from a feasible scenario."""

    participants: int
    cluster_sizes: tuple[int, ...]
    """Planned members per cluster, larger ones first; the same in every reclustering."""
    max_cluster_size: int
    """Largest cluster of a round; if absent parties would cause a larger one, the round aborts."""
    ring_bits: Literal[32, 64]
    tolerated_dropouts: tuple[int, ...]
    """Number of members, per cluster, that may be missing from an opened sum."""
    quorum: int | None
    """Signatures that certify a freeze: more than (N + q) / 2. ``None`` if the server need not certify."""
    breakdown: int
    """Number of clusters with Byzantine members that the rule tolerates (in the smallest task group)."""
    p_clean: float
    """P(a cluster has no Byzantine member), for the largest planned size and ``aggregation.byzantine``."""
    p_rule_holds: float
    """P(at most ``breakdown`` clusters have Byzantine members) for one random assignment."""
    p_alone_per_opening: float
    """P(all cluster mates of a given party collude, or as many as the threshold), over the party's place.
    Against an active server: in one draw, at its best presence, with honest mates' inputs dropped
    (:mod:`securefl.methods.clustering.adaptive_server`)."""
    p_alone_in_run: float
    """The same for at least one of the T x R openings of the whole run; active server: of all draws. With
    atoms: P(all of a party's atom mates collude), since sums determine at most an atom. The party that starts
    the run can influence fixed clusters, one assignment. With open task groups 1 if there are enough
    colluders to fill a cluster: they name the party's group."""
    p_shares_fail: float
    """Upper bound on P(more than f of a party's cluster mates collude in at least one opening), which shared
    noise does not cover. For any number of parties in a round; 0.0 without shared noise."""

    own_rules: bytes = b""
    """Digest of the files of a user's custom rules, if parties repeat the step; otherwise empty."""

    @property
    def clusters(self) -> int:
        """c: number of clusters per reclustering."""
        return len(self.cluster_sizes)


def derive(scenario: Scenario, sizes: tuple[int, ...], ring_bits: Literal[32, 64]) -> DerivedLimits:
    """Return the limits of a scenario that passed :func:`securefl.methods.feasibility.limits.check`."""
    plan, parties, byzantine = scenario.secure_sum, scenario.parties, scenario.aggregation.byzantine
    judged = judged_together(scenario, sizes)
    tolerated = robust.withstood(scenario.aggregation, len(judged))
    quorum = quorum_of(parties, plan.colluders) if plan.server == "active" else None
    alone, in_run = p_alone(scenario)
    return DerivedLimits(
        participants=sums.exact_sum(sizes),
        cluster_sizes=sizes,
        max_cluster_size=max_cluster_size(scenario),
        ring_bits=ring_bits,
        tolerated_dropouts=tolerated_dropouts(scenario),
        quorum=quorum,
        breakdown=tolerated,
        p_clean=1 - odds.tail(parties, byzantine, max(sizes), 1),
        p_rule_holds=odds.touched_at_most(judged, byzantine, tolerated, parties - sums.exact_sum(judged)),
        p_alone_per_opening=alone,
        p_alone_in_run=in_run,
        p_shares_fail=p_shares_fail(scenario),
        own_rules=_own_rules(scenario) if plan.verified else b"",
    )


def _own_rules(scenario: Scenario) -> bytes:
    """Return the digest of the source of custom rules: a party with another file cannot repeat a step."""
    sources = own_sources(msgspec.to_builtins(scenario.aggregation))
    if not sources:
        return b""
    return crypto.digest("own rules", *(part for name in sorted(sources) for part in (name, sources[name])))
