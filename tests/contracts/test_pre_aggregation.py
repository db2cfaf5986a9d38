"""What everything that may stand in front of a rule owes its callers."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.errors import ConfigError, UsageError
from securefl.base.stack import ClusterMeans
from securefl.methods.robust.catalogue import aggregate, aggregate_all, prepare
from securefl.methods.robust.pre_aggregation.arc import AdaptiveClipping
from securefl.methods.robust.pre_aggregation.bucketing import Bucketing
from securefl.methods.robust.pre_aggregation.nearest_neighbour_mixing import NearestNeighbourMixing
from securefl.methods.robust.pre_aggregation.norm_clipping import NormClipping
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.mean import Mean
from securefl.methods.robust.rules.median import Median
from securefl.methods.robust.rules.multi_krum import MultiKrum
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.methods.robust.tolerance import clusters_needed_by, withstood
from securefl.scenario.aggregation import Aggregation, PreAggregation, Rule

SEED = bytes(range(32))
STEPS: list[PreAggregation] = [
    NormClipping(radius=2.5),
    Bucketing(size=1),
    Bucketing(size=2),
    Bucketing(size=3),
    NearestNeighbourMixing(byzantine=0),
    NearestNeighbourMixing(byzantine=2),
    AdaptiveClipping(byzantine=0),
    AdaptiveClipping(byzantine=2),
]
EVERY = pytest.mark.parametrize("step", STEPS, ids=str)
ROBUST: list[Rule] = [Median(), TrimmedMean(trim=2), Krum(byzantine=2), MultiKrum(byzantine=2)]


def stack_of(means: F64, weights: F64 | None = None) -> ClusterMeans:
    counts = np.arange(2, 2 + len(means))
    return ClusterMeans(means, np.ones(len(means)) if weights is None else weights, counts, noise_std=0.5)


def normal(clusters: int, width: int = 6, seed: int = 3) -> F64:
    return np.random.default_rng(seed).normal(size=(clusters, width))


@EVERY
@pytest.mark.parametrize("clusters", [5, 8, 11])
def test_equals_the_naive_reference(step: PreAggregation, clusters: int) -> None:
    means, weights = normal(clusters), np.linspace(0.5, 2.0, clusters)
    got, place = prepare(step, stack_of(means, weights), SEED)
    norms = [math.hypot(*row) for row in means.tolist()]
    match step:
        case NormClipping(radius=radius):
            expected = [row * min(1.0, radius / norm) for row, norm in zip(means, norms, strict=True)]
        case AdaptiveClipping(byzantine=f):
            radius = sorted(norms, reverse=True)[math.floor(2 * f * (clusters - f) / clusters)]
            expected = [row * min(1.0, radius / norm) for row, norm in zip(means, norms, strict=True)]
        case NearestNeighbourMixing(byzantine=f):
            near = [sorted(range(clusters), key=lambda j: math.dist(row, means[j])) for row in means]
            expected = [
                np.average(means[n[: clusters - f]], axis=0, weights=weights[n[: clusters - f]]) for n in near
            ]
        case Bucketing(size=size):
            groups = [np.flatnonzero(place == row) for row in range(math.ceil(clusters / size))]
            assert [len(g) for g in groups[:-1]] == [size] * (len(groups) - 1)
            expected = [np.average(means[g], axis=0, weights=weights[g]) for g in groups]
            np.testing.assert_allclose(got.weights, [weights[g].sum() for g in groups])
            assert got.survivors.tolist() == [int((2 + g).sum()) for g in groups]
    np.testing.assert_allclose(got.means, expected, rtol=1e-12, atol=1e-12)
    if not isinstance(step, Bucketing):
        assert place.tolist() == list(range(clusters))
        np.testing.assert_array_equal(got.weights, weights)


@EVERY
def test_clusters_that_agree_stay_as_they_are(step: PreAggregation) -> None:
    row = np.array([0.5, -1.0, 2.0])
    got, _ = prepare(step, stack_of(np.tile(row, (7, 1)), np.linspace(0.5, 1.0, 7)), SEED)
    np.testing.assert_allclose(got.means, np.tile(row, (got.clusters, 1)), rtol=1e-14)


@EVERY
def test_order_of_the_clusters_does_not_matter_but_for_what_is_drawn(step: PreAggregation) -> None:
    means = np.round(normal(9))  # many ties
    order = np.random.default_rng(1).permutation(9)
    if not isinstance(step, Bucketing):
        straight, permuted = (
            prepare(step, stack_of(means), SEED)[0],
            prepare(step, stack_of(means[order]), SEED)[0],
        )
        np.testing.assert_allclose(permuted.means, straight.means[order], rtol=1e-13, atol=1e-13)


@EVERY
@pytest.mark.parametrize("scale", [2.0**-20, 4.0])
def test_scale_goes_through(step: PreAggregation, scale: float) -> None:
    means = normal(9)
    scaled = NormClipping(radius=step.radius * scale) if isinstance(step, NormClipping) else step
    np.testing.assert_allclose(
        prepare(scaled, stack_of(scale * means), SEED)[0].means,
        scale * prepare(step, stack_of(means), SEED)[0].means,
        rtol=1e-12,
    )


@EVERY
@pytest.mark.parametrize("rule", ROBUST, ids=str)
@pytest.mark.parametrize("size", [1e3, 1e12, 1e300])
def test_rules_withstand_what_is_said(step: PreAggregation, rule: Rule, size: float) -> None:
    plan = Aggregation(rule=rule, pre_aggregation=(step,))
    clusters = clusters_needed_by(plan) + 7
    honest = normal(clusters)
    for liars in range(withstood(plan, clusters) + 1):
        for lies in (np.full((liars, 6), size), size * normal(liars, seed=4)):
            means = np.vstack([lies, honest[liars:]])
            assert np.abs(aggregate_all(plan, stack_of(means), SEED).vector).max() < 40.0


@EVERY
def test_input_is_read_only(step: PreAggregation) -> None:
    means = 100 * normal(7)
    means.flags.writeable = False
    prepare(step, stack_of(means), SEED)


@EVERY
def test_noise_is_never_understated(step: PreAggregation) -> None:
    """Rows of pure noise, ordered as of other rows: what is left of it has at most the stated deviation."""
    rng = np.random.default_rng(5)
    stack = stack_of(rng.normal(size=(9, 20_000)) * 0.5, rng.uniform(0.5, 2.0, 9))
    got, _ = prepare(step, stack, SEED)
    assert got.means.std(axis=1).max() <= got.noise_std * 1.03


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (NearestNeighbourMixing(byzantine=3), 6),
        (AdaptiveClipping(byzantine=3), 6),
    ],
    ids=str,
)
def test_too_few_rows_are_refused(step: PreAggregation, rows: int) -> None:
    with pytest.raises(UsageError):
        prepare(step, stack_of(normal(rows)), SEED)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NearestNeighbourMixing(byzantine=-1),
        lambda: AdaptiveClipping(byzantine=-1),
        lambda: NormClipping(radius=0.0),
        lambda: NormClipping(radius=math.nan),
        lambda: Bucketing(size=0),
    ],
)
def test_parameters_out_of_range_are_refused(make: Callable[[], PreAggregation]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_a_seed_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(UsageError, match="seed"):
        prepare(Bucketing(size=2), stack_of(normal(4)), b"")


def test_buckets_are_drawn_evenly_from_the_seed() -> None:
    """Each of the three pairings of four clusters a third of the time: 3,000 draws, 5 standard deviations."""
    pairings: dict[bool, int] = {}
    stack = stack_of(normal(4))
    for k in range(3_000):
        place = prepare(Bucketing(size=2), stack, k.to_bytes(16, "big"))[1]
        pairings[bool(place[0] == place[1])] = pairings.get(bool(place[0] == place[1]), 0) + 1
    assert abs(pairings[True] - 1_000) < 5 * math.sqrt(3_000 * 2 / 9)


def test_adaptive_clipping_leaves_no_liar_longer_than_the_honest() -> None:
    for clusters, liars in itertools.product((5, 8, 13), (1, 2)):
        honest = normal(clusters)
        for size in (1e3, 1e300):
            means = np.vstack([np.full((liars, 6), size), honest[liars:]])
            got, _ = prepare(AdaptiveClipping(byzantine=liars), stack_of(means), SEED)
            longest = np.linalg.norm(honest[liars:], axis=1).max()
            assert np.linalg.norm(got.means, axis=1).max() <= longest * (1 + 1e-12)
            assert np.abs(aggregate(Mean(), got).vector).max() <= longest


def test_mixing_needs_no_cube() -> None:
    stack = stack_of(normal(40, 5_000))
    prepare(NearestNeighbourMixing(byzantine=9), stack, SEED)
    tracemalloc.start()
    prepare(NearestNeighbourMixing(byzantine=9), stack, SEED)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * stack.means.nbytes


def test_chains_are_applied_in_order_and_keep_track_of_the_clusters() -> None:
    means = np.vstack([np.full((2, 3), 1e6), normal(10, 3)])
    steps = (AdaptiveClipping(byzantine=2), Bucketing(size=2), NearestNeighbourMixing(byzantine=1))
    plan = Aggregation(rule=Krum(byzantine=1), pre_aggregation=steps)
    result = aggregate_all(plan, stack_of(means), SEED)
    stack = stack_of(means)
    places = []
    for step in steps:
        stack, place = prepare(step, stack, SEED)
        places.append(place)
    alone = aggregate(Krum(byzantine=1), stack)
    np.testing.assert_array_equal(result.vector, alone.vector)
    np.testing.assert_array_equal(result.kept, alone.kept[places[2][places[1][places[0]]]])
    assert result.kept.sum() == 2


@pytest.mark.parametrize(
    ("steps", "rule", "needed", "clusters", "tolerated"),
    [
        ((), Median(), 1, 9, 4),
        ((NormClipping(radius=1.0),), Median(), 1, 9, 4),
        ((Bucketing(size=2),), Median(), 1, 9, 2),
        ((Bucketing(size=2),), TrimmedMean(trim=2), 9, 9, 2),
        ((Bucketing(size=2),), TrimmedMean(trim=2), 9, 8, 0),
        ((Bucketing(size=2), Bucketing(size=2)), TrimmedMean(trim=1), 9, 9, 1),
        ((NearestNeighbourMixing(byzantine=3),), Median(), 7, 9, 3),
        ((NearestNeighbourMixing(byzantine=3),), TrimmedMean(trim=1), 7, 9, 1),
        ((NearestNeighbourMixing(byzantine=3), Bucketing(size=3)), Median(), 7, 9, 1),
        ((Bucketing(size=3), NearestNeighbourMixing(byzantine=1)), Median(), 7, 9, 1),
        ((AdaptiveClipping(byzantine=3),), Median(), 7, 6, 0),
        ((AdaptiveClipping(byzantine=3),), Mean(), 7, 9, 0),
    ],
)
def test_numbers(
    steps: tuple[PreAggregation, ...], rule: Rule, needed: int, clusters: int, tolerated: int
) -> None:
    plan = Aggregation(rule=rule, pre_aggregation=steps)
    assert clusters_needed_by(plan) == needed
    assert withstood(plan, clusters) == tolerated
    if clusters < needed:
        with pytest.raises(
            UsageError, match=f"cannot aggregate {clusters} clusters: .*needs at least {needed}"
        ):
            aggregate_all(plan, stack_of(normal(clusters)), SEED)
    else:
        assert aggregate_all(plan, stack_of(normal(needed)), SEED).kept.shape == (needed,)
