"""What the rules that use a gradient of the server's own data owe their callers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import AggregationResult, ClusterMeans
from securefl.methods.robust.catalogue import aggregate
from securefl.methods.robust.rules.fltrust import FlTrust
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus
from securefl.methods.robust.tolerance import breakdown, needs_server_gradient, places
from securefl.scenario.aggregation import Rule
from tests.tiers import examples

JUDGING: list[Rule] = [
    FlTrust(),
    ZenoPlusPlus(),
    ZenoPlusPlus(scale="normalised", rho=0.5, eps=0.3, eta=0.7),
    ZenoPlusPlus(scale="mean", rho=0.01, eps=0.5),
    ZenoPlusPlus(scale="mean", rho=0.1, divide_by="accepted"),
    ZenoPlusPlus(scale="sum", rho=1e-4, eps=0.2, eta=2.0),
]
"""Rules that take or leave each cluster by itself."""
SELECTING: list[Rule] = [
    InnerProduct(gamma=0.2),
    InnerProduct(gamma=0.5, normalised="both"),
    InnerProduct(gamma=0.7, divide_by="all", normalised="gradient"),
    InnerProduct(gamma=1.0, normalised="upload"),
]
"""Rules that take the best, however bad they are (tests/unit/robust/test_inner_product.py)."""
JUDGES = pytest.mark.parametrize("rule", JUDGING, ids=str)
EVERY = pytest.mark.parametrize("rule", JUDGING + SELECTING, ids=str)
QUICK = settings(max_examples=examples(30), deadline=None)


def applied(rule: Rule, means: F64, gradient: F64, weights: F64 | None = None) -> AggregationResult:
    clusters = len(means)
    counts = np.ones(clusters, dtype=np.int64)
    return aggregate(
        rule,
        ClusterMeans(
            means, np.ones(clusters) if weights is None else weights, counts, server_gradient=gradient
        ),
    )


def naive(rule: Rule, means: F64, gradient: F64, weights: F64) -> list[float]:
    """Row by row, from the formulas of the papers."""
    total, rows = float(weights.sum()), means.tolist()
    length = math.hypot(*gradient.tolist())
    terms: list[tuple[float, list[float]]] = []
    trusted = 0.0
    for row, weight in zip(rows, weights.tolist(), strict=True):
        norm = math.hypot(*row)
        inner = sum(x * g for x, g in zip(row, gradient.tolist(), strict=True))
        if isinstance(rule, FlTrust):
            trust = max(0.0, -inner / (norm * length)) if norm and length else 0.0
            trusted += trust
            terms.append((trust * length / norm if norm else 0.0, row))
            continue
        assert isinstance(rule, ZenoPlusPlus)
        scale = {"sum": weight / total, "mean": 1.0, "normalised": length / norm if norm else 0.0}[rule.scale]
        score = -rule.eta * scale * inner - rule.rho * (scale * norm) ** 2
        if score >= -rule.eta * rule.eps:
            trusted += weight
            terms.append((weight, row))
    divisor = total if isinstance(rule, ZenoPlusPlus) and rule.divide_by == "all" else trusted
    width = range(means.shape[1])
    return [sum(factor * row[j] for factor, row in terms) / divisor if divisor else 0.0 for j in width]


@st.composite
def situations(draw: st.DrawFn) -> tuple[F64, F64, F64]:
    """Means, gradient, weights; odd multiples of irrational steps, so that no score lies on its threshold."""
    clusters, width = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    step = math.pi / 7
    means = step * draw(arrays(np.float64, (clusters, width), elements=st.integers(-4, 4).map(float)))
    gradient = math.e / 5 * draw(arrays(np.float64, width, elements=st.integers(-3, 3).map(float)))
    weights = draw(arrays(np.float64, clusters, elements=st.sampled_from([0.25, 0.5, 1.0, 3.0])))
    return means, gradient, weights


@JUDGES
@QUICK
@given(situation=situations())
def test_equals_the_naive_reference(rule: Rule, situation: tuple[F64, F64, F64]) -> None:
    means, gradient, weights = situation
    products = np.abs(means @ gradient)
    # Products that should be zero come out as rounding of either sign.
    at_right_angles = products == 0 if isinstance(rule, ZenoPlusPlus) else np.zeros(len(means), np.bool_)
    if (at_right_angles | ((products > 0) & (products < 1e-9))).any():
        return
    got = applied(rule, means, gradient, weights).vector
    np.testing.assert_allclose(got, naive(rule, means, gradient, weights), rtol=1e-9, atol=1e-9)


@EVERY
@QUICK
@given(situation=situations(), data=st.data())
def test_order_of_the_clusters_does_not_matter(
    rule: Rule, situation: tuple[F64, F64, F64], data: st.DataObject
) -> None:
    means, gradient, weights = situation
    order = data.draw(st.permutations(range(len(means))).map(list))
    straight = applied(rule, means, gradient, weights)
    permuted = applied(rule, means[order], gradient, weights[order])
    np.testing.assert_allclose(permuted.vector, straight.vector, rtol=1e-12, atol=1e-12)
    # Of clusters that agree in everything either one may be selected.
    assert identities(means, weights, straight) == identities(means[order], weights[order], permuted)


def identities(means: F64, weights: F64, result: AggregationResult) -> list[tuple[float, ...]]:
    rows = zip(means.tolist(), weights.tolist(), result.kept, strict=True)
    return sorted((*row, weight) for row, weight, kept in rows if kept)


@EVERY
def test_clusters_that_descend_are_followed(rule: Rule) -> None:
    gradient = np.array([0.3, -0.4, 0.0])
    weights = np.linspace(0.5, 1.0, 5)
    result = applied(rule, np.tile(-gradient, (5, 1)), gradient, weights)
    assert result.kept.sum() == (places(rule.gamma, 5) if isinstance(rule, InnerProduct) else 5)
    scaled = isinstance(rule, InnerProduct) and rule.divide_by == "all"
    share = weights[result.kept].sum() / weights.sum() if scaled else 1.0
    np.testing.assert_allclose(result.vector, -share * gradient, rtol=1e-12)


@JUDGES
def test_clusters_that_climb_are_not(rule: Rule) -> None:
    gradient = np.array([30.0, -40.0, 0.0])
    result = applied(rule, np.vstack([-gradient, np.tile(10 * gradient, (4, 1))]), gradient)
    assert result.kept.tolist() == [True, False, False, False, False]
    assert result.vector @ gradient < 0
    assert not applied(rule, np.tile(10 * gradient, (4, 1)), gradient).vector.any()


@EVERY
@pytest.mark.parametrize("size", [1e3, 1e12, 1e150, 1e300])
def test_length_is_bounded_by_the_server_alone_where_the_breakdown_says_so(rule: Rule, size: float) -> None:
    rng = np.random.default_rng(1)
    gradient = rng.normal(size=12)
    length = float(np.linalg.norm(gradient))
    lies = size * np.vstack([-gradient, gradient, rng.normal(size=(3, 12)), np.full(12, -1.0)])
    got = math.hypot(*applied(rule, lies, gradient).vector.tolist())
    if breakdown(rule, len(lies)) == 0:
        assert got >= size / 100
        return
    if isinstance(rule, FlTrust):
        bound = length
    else:
        assert isinstance(rule, ZenoPlusPlus)
        reach = length + math.sqrt(length**2 + 4 * rule.rho * rule.eps / rule.eta)
        # Of a cluster's share of the sum; the mean is as many times longer as there are equal clusters.
        bound = reach * rule.eta / (2 * rule.rho) * (len(lies) if rule.scale == "sum" else 1)
    assert got <= bound * (1 + 1e-9)


@EVERY
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300])
def test_extreme_lengths_are_no_nan(rule: Rule, size: float) -> None:
    gradient = np.array([1.0, 2.0])
    means = np.array([[-size, -size], [-0.1, -0.2], [size, size]])
    for scaled in (gradient, 1e-200 * gradient, 0.0 * gradient):
        assert np.isfinite(applied(rule, means, scaled).vector).all()


@EVERY
def test_refuses_a_stack_without_gradient(rule: Rule) -> None:
    assert needs_server_gradient(rule)
    assert rule.clusters_needed == 1
    with pytest.raises(UsageError, match="server's own data"):
        aggregate(rule, ClusterMeans(np.ones((2, 3)), np.ones(2), np.ones(2, dtype=np.int64)))


@EVERY
def test_input_is_read_only_and_the_result_its_own(rule: Rule) -> None:
    means, gradient = -np.ones((3, 4)), np.ones(4)
    means.flags.writeable = gradient.flags.writeable = False
    result = applied(rule, means, gradient)
    assert not np.shares_memory(result.vector, means)
    assert result.vector.shape == (4,)
    assert result.kept.dtype == np.bool_
