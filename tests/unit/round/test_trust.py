"""Trust in parties: Algorithm 3 word by word at clusters of 1, and what group testing finds in others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.base.stack import ClusterMeans
from securefl.methods.encoding.ring import to_ring
from securefl.methods.robust.rules.inner_product import InnerProduct, inner_product, trust_gains
from securefl.protocol.round.server.features.trust import (
    NO_TRUST,
    Trust,
    cluster_trust,
    credit_scores,
    smooth_gradients,
)
from securefl.protocol.round.server.stacking import ClusterSum, aggregate_round, stack_sums
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.walk import reclusterings_to_consult
from tests.simulation.world import scenario
from tests.tiers import examples
from tests.unit.round.samples import plan_of

SEED = bytes(32)
ALONE = {
    "size": "1",
    "threshold": "1",
    "min_survivors": "1",
    "secure_sum__k_anonymity": "1",
    "leakage__mode": "report",
}
LENGTH = 3
A, B, C, D, E, F = (PartyId(f"p{i:02d}") for i in range(6))


@cache
def plan_for(parties: int, rule: InnerProduct, reclusterings: int = 1, alone: bool = True) -> RunPlan:
    fields = ", ".join(
        f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value!r}"
        for key, value in msgspec.to_builtins(rule).items()
        if value is not None
    )
    made = scenario(
        parties,
        reclusterings=str(reclusterings),
        aggregation__rule=f"{{ {fields} }}",
        data__server_per_class="2",
        **(ALONE if alone else {"size": "2"}),
    )
    return plan_of(made, LENGTH)


def summed(
    plan: RunPlan, reclustering: int, cluster: int, members: Sequence[PartyId], total: F64
) -> ClusterSum:
    words = to_ring(np.rint(total * 2**16).astype(np.int64), plan.limits.ring_bits)
    return ClusterSum(reclustering, cluster, tuple(members), tuple(members), words)


class Naive(NamedTuple):
    """One round of Algorithm 3 as printed, lines 5 to 16, and the step of Algorithm 1."""

    scores: list[float]
    """S after it."""
    places: int
    threshold: float


def naive_round(uploads: F64, gradient: F64, scores: list[float], gamma: float) -> Naive:
    n = len(uploads)
    selected = math.ceil(gamma * n)
    now = [sum(-x * g for x, g in zip(row, gradient.tolist(), strict=True)) for row in uploads.tolist()]
    threshold = sum(sorted(now, reverse=True)[:selected]) / selected
    now = [0.0 if score < threshold else score for score in now]
    return Naive([old + new for old, new in zip(scores, now, strict=True)], selected, threshold)


@settings(max_examples=examples(50), deadline=None)
@given(
    data=st.data(),
    parties=st.integers(1, 6),
    rounds=st.integers(1, 5),
    gamma=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    divide_by=st.sampled_from(["selected", "all"]),
)
def test_at_clusters_of_one_it_is_algorithm_3(
    data: st.DataObject, parties: int, rounds: int, gamma: float, divide_by: Literal["selected", "all"]
) -> None:
    """Uploads and gradients are small integers, so that all sums are exact and ties frequent."""
    plan = plan_for(parties, InnerProduct(gamma=gamma, divide_by=divide_by))
    names = list(plan.roster.parties)
    integers = st.integers(-4, 4).map(float)
    trust, scores = NO_TRUST, [0.0] * parties
    for _ in range(rounds):
        uploads = data.draw(arrays(np.float64, (parties, LENGTH), elements=integers))
        gradient = data.draw(arrays(np.float64, LENGTH, elements=integers))
        sums = [summed(plan, 0, j, [name], uploads[j]) for j, name in enumerate(names)]
        weights = dict.fromkeys(names, 1.0)
        result = aggregate_round(plan, sums, weights, SEED, None, {0: gradient}, trust)
        expected = naive_round(uploads, gradient, scores, gamma)
        scores, trust = expected.scores, result.trust
        assert [trust.scores[name] for name in names] == scores
        kept = [j for _, j in result.kept]
        assert len(kept) == expected.places
        # Which of several equal scores are taken is left open there.
        assert sorted(scores[j] for j in kept) == sorted(scores)[parties - expected.places :]
        assert {*result.kept, *result.rejected} == {(0, j) for j in range(parties)}
        divisor = parties if divide_by == "all" else len(kept)
        assert result.update is not None
        np.testing.assert_allclose(result.update, uploads[kept].sum(axis=0) / divisor, rtol=1e-14, atol=1e-14)


def test_members_are_credited_undivided_and_clusters_count_by_their_survivors() -> None:
    trust = credit_scores(NO_TRUST, [(A, B), (C, D, E)], np.array([2.0, -1.0]))
    trust = credit_scores(trust, [(A, C), (B, E)], np.array([0.5, 0.0]))
    assert dict(trust.scores) == {A: 2.5, B: 2.0, C: -0.5, D: -1.0, E: -1.0}
    clusters = [(A, C), (B,), (D, F)]
    assert cluster_trust(trust, InnerProduct(gamma=1), clusters).tolist() == [1.0, 2.0, -0.5]
    assert cluster_trust(trust, InnerProduct(gamma=1, members="min"), clusters).tolist() == [-0.5, 2.0, -1.0]
    assert dict(NO_TRUST.scores) == {}


def test_what_is_earned_in_one_reclustering_counts_in_the_choice_of_all() -> None:
    """A spoils every cluster that it is in; in reclustering 0 its cluster scores as the other one does."""
    plan = plan_for(4, InnerProduct(gamma=0.5, credit="all-scores"), 2, alone=False)
    values = {A: -4.0, B: 6.0, C: 1.0, D: 1.0}
    clusters = [(0, 0, (A, B)), (0, 1, (C, D)), (1, 0, (B, C)), (1, 1, (A, D))]
    sums = [summed(plan, r, j, who, np.full(3, sum(values[p] for p in who))) for r, j, who in clusters]
    weights = dict.fromkeys(values, 1.0)
    gradients = {0: np.array([-1.0, 0.0, 0.0]), 1: np.array([-1.0, 0.0, 0.0])}
    result = aggregate_round(plan, sums, weights, SEED, None, gradients)
    assert dict(result.trust.scores) == {A: 1 - 1.5, B: 1 + 3.5, C: 1 + 3.5, D: 1 - 1.5}
    assert result.kept == ((0, 0), (1, 0)), "of equal clusters the first, and then by trust"
    later = credit_scores(result.trust, [(A,)], np.array([-1.0]))
    again = aggregate_round(plan, sums, weights, SEED, None, gradients, later)
    assert again.kept == ((0, 1), (1, 0))
    assert result.update is not None
    alone = aggregate_round(plan, sums[:2], weights, SEED, None, {0: gradients[0]})
    assert dict(alone.trust.scores) == dict.fromkeys((A, B, C, D), 1.0)


def test_per_round_nothing_is_remembered() -> None:
    plan = plan_for(2, InnerProduct(gamma=0.5, select="per-round"))
    sums = [summed(plan, 0, 0, [A], np.ones(3)), summed(plan, 0, 1, [B], 2 * np.ones(3))]
    trusted = Trust({A: 9.0, B: -9.0})
    result = aggregate_round(plan, sums, {A: 1.0, B: 1.0}, SEED, None, {0: -np.ones(3)}, trusted)
    assert result.kept == ((0, 1),)
    assert result.trust is trusted


def test_without_a_gradient_nothing_is_learnt() -> None:
    plan = plan_for(2, InnerProduct(gamma=0.5, momentum=0.9))
    sums = [summed(plan, 0, 0, [A], np.ones(3)), summed(plan, 0, 1, [B], np.ones(3))]
    result = aggregate_round(plan, sums, {A: 1.0, B: 1.0}, SEED, None)
    assert result.update is None
    assert result.trust is NO_TRUST


def test_who_was_not_there_has_earned_nothing_and_loses_nothing() -> None:
    plan = plan_for(3, InnerProduct(gamma=1.0))
    sums = [summed(plan, 0, j, [name], np.full(3, 1.0 + j)) for j, name in enumerate((A, B))]
    trust = Trust({C: 4.0})
    result = aggregate_round(plan, sums, {A: 1.0, B: 1.0}, SEED, None, {0: -np.ones(3)}, trust)
    assert dict(result.trust.scores) == {A: 0.0, B: 6.0, C: 4.0}


def test_sums_that_failed_a_check_count_as_zero_for_this_rule_and_not_at_all_for_others() -> None:
    plan = plan_for(4, InnerProduct(gamma=0.75))
    names = (A, B, C, D)
    sums = [summed(plan, 0, j, [name], np.full(3, 2.0 + j)) for j, name in enumerate(names)]
    weights = dict.fromkeys(names, 1.0)
    trust = Trust({D: 50.0})
    result = aggregate_round(
        plan, sums, weights, SEED, None, {0: -np.ones(3)}, trust, excluded={(0, 2), (0, 3)}
    )
    # Scores are 6, 9, 0, 0: their mean by the highest three is 5. D is still trusted, its upload is zero.
    assert dict(result.trust.scores) == {A: 6.0, B: 9.0, C: 0.0, D: 50.0}
    assert result.kept == ((0, 0), (0, 1))
    assert result.rejected == ()
    assert result.update is not None
    assert result.update.tolist() == pytest.approx([5 / 3] * 3, rel=1e-15)
    mean = plan_of(scenario(4, **ALONE), LENGTH)
    result = aggregate_round(mean, sums, weights, SEED, None, excluded=frozenset({(0, 3)}))
    assert result.update is not None
    assert result.update.tolist() == [3.0] * 3
    assert (result.kept, result.rejected) == (((0, 0), (0, 1), (0, 2)), ())
    nothing = aggregate_round(mean, sums, weights, SEED, None, excluded={(0, j) for j in range(4)})
    assert nothing.update is None
    everything = {(0, j) for j in range(4)}
    zeno = scenario(4, aggregation__rule="{ type = 'zeno++' }", data__server_per_class="2", **ALONE)
    assert reclusterings_to_consult(plan, sums, everything) == (0,)
    assert reclusterings_to_consult(plan_of(zeno, LENGTH), sums, everything) == ()
    assert reclusterings_to_consult(plan_of(zeno, LENGTH), sums, {(0, 1)}) == (0,)
    means = stack_sums(mean, sums, weights, excluded={(0, 1)}).means
    assert means[:, 0].tolist() == [2.0, 0.0, 4.0, 5.0]


def test_momentum_goes_on_once_a_round_and_decides() -> None:
    rule = InnerProduct(gamma=0.5, momentum=0.75)
    first, second = np.array([8.0, 0.0, 0.0]), np.array([0.0, 4.0, 0.0])
    trust, mixed = smooth_gradients(NO_TRUST, rule, {0: first, 2: first})
    assert {r: g.tolist() for r, g in mixed.items()} == {0: [2.0, 0.0, 0.0], 2: [2.0, 0.0, 0.0]}
    trust, mixed = smooth_gradients(trust, rule, {1: second})
    assert mixed[1].tolist() == [1.5, 1.0, 0.0]
    assert trust.gradient is mixed[1]
    assert smooth_gradients(NO_TRUST, InnerProduct(gamma=0.5), {0: first}) == (NO_TRUST, {0: first})
    assert "8." not in repr(trust)
    plan = plan_for(2, rule)
    sums = [summed(plan, 0, 0, [A], -first), summed(plan, 0, 1, [B], -second)]
    start = Trust({}, 100 * second)
    result = aggregate_round(plan, sums, {A: 1.0, B: 1.0}, SEED, None, {0: first}, start)
    assert result.kept == ((0, 1),)
    assert result.trust.gradient is not None
    assert result.trust.gradient.tolist() == [2.0, 300.0, 0.0]


# What follows is a model of a training in which only scores count: in every round a party scores a normal
# number, honest parties on average 1 and Byzantine ones -1, and a cluster the mean of its members.

PARTIES, ROUNDS, REPETITIONS = 30, 30, 6


class Play(NamedTuple):
    byzantine: int
    size: int
    noise: float


def spoilt(play: Play, rule: InnerProduct) -> float:
    """Share of Byzantine parties among the selected, in the last ten rounds."""
    names = [PartyId(f"p{i:02d}") for i in range(PARTIES)]
    level = np.where(np.arange(PARTIES) < play.byzantine, -1.0, 1.0)
    shares = np.zeros((REPETITIONS, ROUNDS))
    for repetition in range(REPETITIONS):
        rng = np.random.default_rng([repetition, play.byzantine, play.size])
        trust = NO_TRUST
        for round_ in range(ROUNDS):
            scores = level + play.noise * rng.standard_normal(PARTIES)
            rows = rng.permutation(PARTIES).reshape(-1, play.size)
            clusters = [tuple(names[i] for i in row) for row in rows.tolist()]
            stack = stack_with(scores[rows].mean(axis=1))
            if rule.select == "accumulated":
                trust = credit_scores(trust, clusters, trust_gains(stack, rule))
                stack = stack_with(stack.means[:, 0], cluster_trust(trust, rule, clusters))
            shares[repetition, round_] = (rows[inner_product(stack, rule).kept] < play.byzantine).mean()
    return float(shares[:, -10:].mean())


def stack_with(scores: F64, trust: F64 | None = None) -> ClusterMeans:
    clusters = len(scores)
    return ClusterMeans(
        scores[:, np.newaxis],
        np.ones(clusters),
        np.ones(clusters, dtype=np.int64),
        server_gradient=np.array([-1.0]),
        trust=trust,
    )


@cache
def late(play: Play, rule: InnerProduct) -> float:
    return spoilt(play, rule)


@pytest.mark.parametrize("byzantine", [6, 18])
def test_trust_finds_single_parties_where_a_round_does_not(byzantine: int) -> None:
    """Clusters of 1. Standard errors are below 0.015 here and below."""
    play, gamma = Play(byzantine, 1, 2.0), 1 - byzantine / PARTIES
    assert late(play, InnerProduct(gamma=gamma)) < 0.05
    assert late(play, InnerProduct(gamma=gamma, select="per-round")) > 0.1


def test_in_larger_clusters_it_helps_where_rounds_are_noisy_and_more_without_a_threshold() -> None:
    """Of 15 clusters of 2 with 12 Byzantine parties among 30, on average 5.1 are clean; 6 are selected."""
    noisy, quiet, gamma = Play(12, 2, 2.0), Play(12, 2, 0.5), 0.36
    per_round, trust, everything = (
        late(noisy, rule)
        for rule in (
            InnerProduct(gamma=gamma, select="per-round"),
            InnerProduct(gamma=gamma),
            InnerProduct(gamma=gamma, credit="all-scores"),
        )
    )
    assert per_round > trust + 0.05 > everything + 0.08
    # What is left is by chance of the draw: there are not always 6 clean clusters.
    assert late(quiet, InnerProduct(gamma=gamma)) > 0.04


def test_the_mean_of_the_members_is_safer_than_the_least_where_gamma_is_too_large() -> None:
    """The least trusted member says nothing about how many others there are like it."""
    play, gamma = Play(18, 2, 2.0), 0.4
    assert late(play, InnerProduct(gamma=gamma, members="min")) > late(play, InnerProduct(gamma=gamma)) + 0.02
    modest = 0.16
    apart = late(play, InnerProduct(gamma=modest, members="min")) - late(play, InnerProduct(gamma=modest))
    assert abs(apart) < 0.08


def test_more_places_than_clean_clusters_are_filled_with_others_whatever_is_known() -> None:
    """gamma = 0.8 of 15 clusters of 2 is 12; with 6 Byzantine parties among 30 about 9.5 are clean."""
    play = Play(6, 2, 0.5)
    assert late(play, InnerProduct(gamma=0.8, credit="all-scores")) > 0.08
    assert late(play, InnerProduct(gamma=0.64, credit="all-scores")) < 0.06
