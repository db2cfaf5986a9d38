from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from securefl.base.errors import UsageError
from securefl.methods.clustering import odds
from securefl.methods.privacy.checks.evidence import STAKE, CheckEvidence, calibrate, gather, presence
from tests.tiers import examples


def test_the_calibrator_is_the_mean_of_powers() -> None:
    for p_value in (1e-12, 1e-4, 0.01, 0.3, 0.9, 0.99989, 0.99991, 1.0):
        mixed = integrate.quad(lambda k, p=p_value: k * p ** (k - 1), 0, 1)[0]
        assert calibrate(p_value) == pytest.approx(1 - STAKE + STAKE * mixed, rel=1e-6)


def test_its_mean_is_1_for_uniform_p_values() -> None:
    """In ln p from -300 on; what is left out of the integral decays like 1 / ln p."""
    mean = integrate.quad(lambda log: calibrate(math.exp(log)) * math.exp(log), -300, 0, limit=500)[0]
    assert 1 - STAKE * 1.01 / 300 < mean < 1


@settings(max_examples=examples(30))
@given(st.floats(1e-12, 1), st.floats(1e-12, 1))
def test_it_falls(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert calibrate(low) >= calibrate(high) * (1 - 1e-9)


@pytest.mark.parametrize("p_value", [0.0, -0.1, 1.1, math.nan])
def test_refuses_what_is_no_p_value(p_value: float) -> None:
    with pytest.raises(UsageError, match="p_value must be"):
        calibrate(p_value)


def test_presence_is_fair_at_its_odds() -> None:
    for company, alpha in ((0.0, 0.01), (0.3, 0.01), (0.9, 0.05)):
        chance = company + alpha
        mean = chance * presence(failed=True, company=company, alpha=alpha) + (1 - chance) * presence(
            failed=False, company=company, alpha=alpha
        )
        assert mean == pytest.approx(1)
    assert (
        presence(failed=True, company=0.99, alpha=0.01) == presence(failed=False, company=1.0, alpha=0.5) == 1
    )
    with pytest.raises(UsageError):
        presence(failed=True, company=1.2, alpha=0.1)


@settings(max_examples=examples(30))
@given(st.lists(st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6)), min_size=1), max_size=6))
def test_evidence_is_the_mean_of_products_of_means(rounds: list[list[tuple[float, float]]]) -> None:
    evidence, products, means = CheckEvidence(), [1.0, 1.0], [1.0]
    for e_values in rounds:
        evidence = evidence.after(e_values)
        for check in (0, 1):
            products[check] *= sum(one[check] for one in e_values) / len(e_values)
        means.append(sum(products) / 2)
    assert evidence.rounds == len(rounds)
    assert math.exp(evidence.log_now) == pytest.approx(means[-1])
    assert math.exp(evidence.log_highest) == pytest.approx(max(means))


def test_evidence_that_once_was_enough_stays_so() -> None:
    evidence = CheckEvidence().after([[200.0]]).after([[0.0]])
    assert evidence.log_now == -math.inf
    assert evidence.exceeds(0.01)
    assert not evidence.exceeds(0.01, of=10)


def test_a_check_that_finds_nothing_costs_its_share_and_no_more() -> None:
    evidence = CheckEvidence()
    for _ in range(400):
        evidence = evidence.after([[10.0, 0.0]])
    assert evidence.log_now == pytest.approx(400 * math.log(10) - math.log(2))


@pytest.mark.parametrize("e_values", [[], [[]], [[-1.0, 1.0]], [[1.0]], [[1.0, 2.0], [1.0]]])
def test_refuses_what_is_no_evidence(e_values: list[list[float]]) -> None:
    with pytest.raises(UsageError, match="e_values must"):
        CheckEvidence().after([[1.0, 1.0]]).after(e_values)


def test_gather_averages_over_the_sums_of_a_round() -> None:
    before = {"a": CheckEvidence((1.0,), 1.0, 1), "z": CheckEvidence((0.5,), 0.5, 1)}
    after = gather(before, [(("a", "b"), [3.0]), (("c",), [1.0]), (("a", "c"), [5.0])])
    assert after["a"] == CheckEvidence((1 + math.log(4),), 1 + math.log(4), 2)
    assert after["b"].log_now == pytest.approx(math.log(3))
    assert after["c"].log_now == pytest.approx(math.log(3))
    assert after["z"] == before["z"]
    assert before.keys() == {"a", "z"}


def test_evidence_of_a_cluster_under_the_null() -> None:
    """Ville: of 1,000 runs of 30 rounds at most 5 % + 5 standard errors ever reach 20."""
    generator = np.random.default_rng(51)
    ever = 0
    for p_values in generator.random((1_000, 30)).tolist():
        evidence = CheckEvidence()
        for p_value in p_values:
            evidence = evidence.after([[calibrate(max(p_value, 1e-12))]])
        ever += evidence.exceeds(0.05)
    assert 0 < ever <= 1_000 * 0.05 + 5 * math.sqrt(1_000 * 0.05 * 0.95)


def run_presence(rounds: int, *, always: bool) -> dict[int, CheckEvidence]:
    """20 parties in clusters of 4, party 0 deviates: always, or where party 1 shares its cluster."""
    generator = np.random.default_rng(52)
    company = odds.tail(19, 1, 3, 1)
    evidence: dict[int, CheckEvidence] = {}
    for _ in range(rounds):
        clusters = generator.permutation(20).reshape(5, 4).tolist()
        failed = [0 in cluster and (always or 1 in cluster) for cluster in clusters]
        evidence = gather(
            evidence,
            [
                (cluster, [presence(bad, company, 0.01)])
                for cluster, bad in zip(clusters, failed, strict=True)
            ],
        )
    return evidence


def test_presence_convicts_the_one_who_always_deviates_and_nobody_else() -> None:
    evidence = run_presence(60, always=True)
    assert [party for party in range(20) if evidence[party].exceeds(0.01, of=20)] == [0]


def test_presence_cannot_be_used_to_blame_another() -> None:
    evidence = run_presence(400, always=False)
    assert not any(evidence[party].exceeds(0.01, of=20) for party in range(1, 20))
