"""Cluster means as rows for a robust rule, and the rule's mean over reclusterings."""

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from securefl.base import crypto
from securefl.base.arrays import F64, Ring
from securefl.base.ids import PartyId
from securefl.base.stack import ClusterMeans
from securefl.base.sums import ordered_sum
from securefl.methods import encoding, robust
from securefl.protocol.round.server.features.trust import (
    NO_TRUST,
    Trust,
    cluster_trust,
    credit_scores,
    fade_scores,
    smooth_gradients,
)
from securefl.protocol.round.shared.plan import RunPlan

NO_GRADIENTS: Mapping[int, F64] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSum:
    """One opened sum: all that the server learns about its members."""

    reclustering: int
    cluster: int
    members: tuple[PartyId, ...]
    survivors: tuple[PartyId, ...]
    ring: Ring = field(repr=False)

    @property
    def key(self) -> tuple[int, int]:
        """(reclustering, cluster)."""
        return self.reclustering, self.cluster


@dataclass(frozen=True, slots=True, eq=False)
class RoundAggregate:
    """Mean of the rule's results over the usable reclusterings."""

    update: F64 | None
    """Shape (d,); None if no reclustering was usable."""
    kept: tuple[tuple[int, int], ...]
    rejected: tuple[tuple[int, int], ...]
    """Those that the rule, and no check, left out."""
    trust: Trust = NO_TRUST
    covered: npt.NDArray[np.bool_] = field(default_factory=lambda: np.ones((), dtype=np.bool_))
    """Coordinates that the update covers; with task groups, of groups with one."""


def sums_for_rule(
    plan: RunPlan, sums: Sequence[ClusterSum], excluded: Collection[tuple[int, int]] = ()
) -> Sequence[ClusterSum]:
    """Return the sums that the rule sees: those that no check (step 12) excluded.

    The inner-product rule sees all, excluded ones with a mean of zero: its gamma is a share of all sums
    (Xiang et al. 2023, Algorithm 2).
    """
    if isinstance(plan.scenario.aggregation.rule, robust.InnerProduct):
        return sums
    return [opened for opened in sums if opened.key not in excluded]


def usable_reclusterings(plan: RunPlan, sums: Sequence[ClusterSum]) -> tuple[int, ...]:
    """Return the reclusterings with enough opened clusters for the rule."""
    rows = Counter(opened.reclustering for opened in sums)
    needed = robust.clusters_needed_by(plan.scenario.aggregation)
    return tuple(r for r in range(plan.scenario.clustering.reclusterings) if rows[r] >= needed)


def stack_sums(
    plan: RunPlan,
    sums: Sequence[ClusterSum],
    weights: Mapping[PartyId, float],
    reference: F64 | None = None,
    server_gradient: F64 | None = None,
    excluded: Collection[tuple[int, int]] = (),
    *,
    unit: float = 1.0,
) -> ClusterMeans:
    """Return cluster means (step 11): each sum divided by its survivors' total weight.

    ``excluded`` sums have mean zero. ``unit`` is the length that is encoded as 1.
    """
    totals = [ordered_sum(weights[party] for party in opened.survivors) for opened in sums]
    decoded = [
        np.zeros(plan.length)
        if opened.key in excluded
        else unit * plan.fixed_point.decode(encoding.from_ring(opened.ring[: plan.length]), total)
        for opened, total in zip(sums, totals, strict=True)
    ]
    return ClusterMeans(
        means=np.stack(decoded),
        weights=np.array(totals, dtype=np.float64),
        survivors=np.array([len(opened.survivors) for opened in sums], dtype=np.int64),
        reference=reference,
        server_gradient=server_gradient,
    )


def aggregate_round(
    plan: RunPlan,
    sums: Sequence[ClusterSum],
    weights: Mapping[PartyId, float],
    seed: bytes,
    reference: F64 | None,
    gradients: Mapping[int, F64] = NO_GRADIENTS,
    trust: Trust = NO_TRUST,
    excluded: Collection[tuple[int, int]] = (),
    *,
    unit: float = 1.0,
) -> RoundAggregate:
    """Apply the scenario's rule per reclustering and average (SHARE, Algorithm 1; steps 13 and 14).

    ``seed`` is certified; ``reference`` is the mean of past aggregates, f64 ``(d,)``. ``gradients``, f64
    ``(d,)``, are by reclustering; a rule that needs one skips reclusterings without it. The rest is as for
    :func:`stack_sums`.
    """
    aggregation, rule = plan.scenario.aggregation, plan.scenario.aggregation.rule
    seen = sums_for_rule(plan, sums, excluded)
    rows = {
        r: [opened for opened in seen if opened.reclustering == r] for r in usable_reclusterings(plan, seen)
    }
    if robust.needs_server_gradient(rule):
        rows = {r: opened for r, opened in rows.items() if r in gradients}
    drawn = {r: crypto.digest("pre-aggregation", seed, r) for r in rows}

    # A rule with a memory asks twice. Stacks are large, so only one is kept.
    @functools.lru_cache(maxsize=1)
    def stack(r: int) -> ClusterMeans:
        return stack_sums(plan, rows[r], weights, reference, gradients.get(r), excluded, unit=unit)

    standings: dict[int, F64] = {}
    if isinstance(rule, robust.InnerProduct):
        trust, gradients = smooth_gradients(trust, rule, gradients)
        if rule.select == "accumulated" and rows:
            trust = fade_scores(trust, rule)
            # All reclusterings first: credit earned in one of them counts in all.
            survivors = {r: [one.survivors for one in opened] for r, opened in rows.items()}
            for r, clusters in survivors.items():
                trust = credit_scores(
                    trust, clusters, robust.earned_by(aggregation, rule, stack(r), drawn[r])
                )
            standings = {r: cluster_trust(trust, rule, clusters) for r, clusters in survivors.items()}
    results: list[F64] = []
    kept: dict[tuple[int, int], bool] = {}
    for r, opened in rows.items():
        seen_by_rule = replace(stack(r), trust=standings[r]) if r in standings else stack(r)
        result = robust.aggregate_all(aggregation, seen_by_rule, drawn[r])
        results.append(result.vector)
        kept.update(zip((one.key for one in opened), result.kept.tolist(), strict=True))
    update = np.mean(results, axis=0) if results else None
    used = tuple(key for key, is_kept in kept.items() if is_kept and key not in excluded)
    others = {*used, *excluded}
    rejected = tuple(one.key for one in seen if one.reclustering in rows and one.key not in others)
    return RoundAggregate(update, used, rejected, trust)
