"""Verdicts: t tests of paired differences, Holm over all claims of a paper, and what is not decided."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from securefl.lab.experiments.claims import (
    Above,
    AnyClaim,
    AtLeast,
    AtMost,
    Below,
    Decreasing,
    Increasing,
    Within,
    measure_curve,
)
from securefl.lab.experiments.verdicts import ERROR, ClaimVerdict, Ruling, decide_claims, judge, overall
from tests.looped import looped

Curves = dict[str, dict[int, tuple[float, ...]]]
NOISE = (0.004, -0.002, 0.001, -0.004, 0.001)
"""Deviations of five seeds; their mean is 0."""


def seeded(noise: tuple[float, ...] = NOISE, **means: float) -> Curves:
    """Curves of one round; the noise of each cell differs, so that no difference is constant."""
    return {
        label: {seed: (mean + noise[(seed + place) % len(noise)],) for seed in range(len(noise))}
        for place, (label, mean) in enumerate(means.items())
    }


def ruled(claim: AnyClaim, curves: Curves) -> ClaimVerdict:
    (verdict,) = decide_claims([judge(claim, curves, last=1, rounds=1)])
    return verdict


@looped(
    "claim, ruling",
    [
        (Decreasing(says="-", curves=("a", "b", "c"), margin=0.1), "holds"),
        (Decreasing(says="-", curves=("a", "b", "c"), margin=0.3), "not decided"),
        (Decreasing(says="-", curves=("b", "a", "c"), margin=0.05), "does not hold"),
        (Decreasing(says="-", curves=("b", "a", "c"), margin=0.05, tolerance=0.13), "holds"),
        (Increasing(says="-", curves=("a", "b", "c")), "does not hold"),
        (Increasing(says="-", curves=("c", "b", "a")), "holds"),
        (Above(says="-", curves=("a", "b"), than=("c",)), "holds"),
        (Above(says="-", curves=("a", "b"), than=("c",), margin=0.15), "not decided"),
        (Above(says="-", curves=("c",), than=("a", "b")), "does not hold"),
        (Above(says="-", curves=("c",), than=("b",), margin=-0.12), "holds"),
        (Above(says="-", curves=("a", "c"), than=("b",)), "does not hold"),
        (Below(says="-", curves=("c",), than=("a", "b"), margin=0.05), "holds"),
        (Below(says="-", curves=("b",), than=("c",)), "does not hold"),
        (Within(says="-", curves=("a", "b"), of="b", distance=0.12), "holds"),
        (Within(says="-", curves=("a", "c"), of="b", distance=0.05), "does not hold"),
        (Within(says="-", curves=("a",), of="b", distance=0.1), "not decided"),
        (AtLeast(says="-", curves=("a", "b"), value=0.65), "holds"),
        (AtLeast(says="-", curves=("a", "c"), value=0.75), "does not hold"),
        (AtMost(says="-", curves=("b", "c"), value=0.75), "holds"),
        (AtMost(says="-", curves=("b",), value=0.7), "not decided"),
    ],
)
def test_rulings(claim: AnyClaim, ruling: str) -> None:
    assert ruled(claim, seeded(a=0.8, b=0.7, c=0.6)).ruling == ruling


def test_fewer_than_five_seeds_decide_nothing() -> None:
    claim = Above(says="-", curves=("a",), than=("b",))
    for count in (1, 2, 4):
        verdict = ruled(claim, seeded(NOISE[:count], a=0.9, b=0.1))
        assert (verdict.ruling, verdict.seeds, verdict.p_holds) == ("not decided", count, 1.0)
    assert ruled(claim, seeded(a=0.9, b=0.1)).ruling == "holds"


def test_one_changed_seed_changes_the_verdict() -> None:
    claim = Above(says="-", curves=("a",), than=("b",))
    curves = seeded(a=0.8, b=0.7)
    assert ruled(claim, curves).ruling == "holds"
    curves["a"][3] = (0.2,)
    assert ruled(claim, curves).ruling == "not decided"


def test_evidence_is_scipys_paired_t_test() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.8, 0.02, 7), rng.normal(0.78, 0.02, 7)
    curves = {
        "a": {seed: (float(value),) for seed, value in enumerate(a)},
        "b": {seed: (float(value),) for seed, value in enumerate(b)},
    }
    verdict = judge(Above(says="-", curves=("a",), than=("b",)), curves, 1, 1)
    expected = stats.ttest_rel(a, b, alternative="greater")
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert verdict.p_holds == pytest.approx(expected.pvalue, rel=1e-9)
    assert verdict.p_fails == pytest.approx(1 - expected.pvalue, rel=1e-9)
    assert [verdict.low, verdict.high] == pytest.approx([low, high], abs=1e-6)
    assert verdict.difference == pytest.approx((a - b).mean(), abs=1e-6)


def test_seeds_are_paired_by_their_number() -> None:
    curves: Curves = {
        "a": {seed: (0.5 + 0.1 * seed + 0.01 + NOISE[seed] / 10,) for seed in (4, 2, 0, 1, 3)},
        "b": {seed: (0.5 + 0.1 * seed,) for seed in range(6)},
    }
    verdict = ruled(Above(says="-", curves=("a",), than=("b",)), curves)
    assert (verdict.ruling, verdict.seeds) == ("holds", 5)


def test_equal_values_in_all_seeds_are_certain() -> None:
    flat = (0.0,) * 5
    claim = Above(says="-", curves=("a",), than=("b",))
    assert ruled(claim, seeded(flat, a=0.2, b=0.1)).ruling == "holds"
    assert ruled(claim, seeded(flat, a=0.1, b=0.2)).ruling == "does not hold"
    assert ruled(claim, seeded(flat, a=0.1, b=0.1)).ruling == "not decided"


def test_numbers_that_are_not_finite_decide_nothing() -> None:
    curves = seeded(a=0.9, b=0.1)
    curves["a"][2] = (math.nan,)
    verdict = ruled(Above(says="-", curves=("a",), than=("b",)), curves)
    assert (verdict.ruling, verdict.p_holds, verdict.p_fails) == ("not decided", 1.0, 1.0)


def test_the_line_has_the_weakest_comparison() -> None:
    claim = Above(says="better", curves=("a", "b"), than=("c",))
    text = str(ruled(claim, seeded(a=0.9, b=0.7, c=0.6)))
    assert text.startswith(
        "holds: better [a 0.900, b 0.700 against c 0.600, by at least 0.005; n = 5; b - c > 0: +0.100 ["
    )
    one = str(ruled(claim, seeded((0.0,), a=0.9, b=0.7, c=0.6)))
    assert one.endswith("; n = 1; b - c > 0: +0.100]")


def made(p_holds: float, p_fails: float = 1.0, *, ours: bool = False) -> ClaimVerdict:
    """A verdict with these p values."""
    return ClaimVerdict(
        says="-",
        numbers="",
        seeds=5,
        comparison="",
        difference=0.0,
        low=0.0,
        high=0.0,
        p_holds=p_holds,
        p_fails=p_fails,
        ours=ours,
    )


def test_claims_of_a_paper_share_one_error() -> None:
    assert [one.ruling for one in decide_claims([made(0.024)])] == ["holds"]
    # Four hypotheses: the smallest p value is compared with ERROR / 4, the next with ERROR / 3.
    assert [one.ruling for one in decide_claims([made(0.012), made(0.016)])] == ["holds", "holds"]
    assert [one.ruling for one in decide_claims([made(0.0126), made(0.001)])] == ["holds", "holds"]
    assert [one.ruling for one in decide_claims([made(0.013), made(0.016)])] == ["not decided"] * 2
    assert [one.ruling for one in decide_claims([made(0.012), made(1.0, 0.017)])] == ["holds", "not decided"]
    # Our own claims are another family.
    assert [one.ruling for one in decide_claims([made(0.024), made(0.024, ours=True)])] == ["holds", "holds"]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=12))
def test_holm_rejects_no_less_than_bonferroni_and_no_more_than_each_alone(
    found: list[tuple[float, bool]],
) -> None:
    rulings = decide_claims([made(p) if holds else made(1.0, p) for p, holds in found])
    for (p, holds), one in zip(found, rulings, strict=True):
        wanted = "holds" if holds else "does not hold"
        if p <= ERROR / (2 * len(found)):
            assert one.ruling == wanted
        if p > ERROR:
            assert one.ruling == "not decided"


def test_false_rulings_are_as_rare_as_stated() -> None:
    # 20 claims without any difference, 400 times: a false ruling in 5 % of them at most. With 400 draws of a
    # probability of 0.05, more than 38 have probability below 1e-4.
    rng = np.random.default_rng(7)
    claim = Above(says="-", curves=("a",), than=("b",), margin=0.0)
    wrong = 0
    for _ in range(400):
        verdicts = []
        for _ in range(20):
            a, b = rng.normal(0.5, 0.02, (2, 5))
            curves = {
                "a": {seed: (float(value),) for seed, value in enumerate(a)},
                "b": {seed: (float(value),) for seed, value in enumerate(b)},
            }
            verdicts.append(judge(claim, curves, 1, 1))
        wrong += any(one.ruling != "not decided" for one in decide_claims(verdicts))
    assert wrong <= 38


def test_final_is_a_mean_and_a_broken_run_keeps_its_last_accuracy() -> None:
    assert measure_curve((0.1, 0.2, 0.6), "final", 2, 3) == pytest.approx(0.4)
    assert measure_curve((0.5, 0.1), "final", 3, 4) == pytest.approx(0.1)
    assert measure_curve((0.5,), "final", 9, 2) == pytest.approx(0.5)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_unrest_is_the_mean_step_of_the_second_half(accuracies: list[float]) -> None:
    whole = tuple(accuracies)
    half = whole[len(whole) // 2 :]
    steps = [abs(half[i] - half[i - 1]) for i in range(1, len(half))]
    expected = sum(steps) / len(steps) if steps else 0.0
    assert measure_curve(whole, "unrest", 1, len(whole)) == pytest.approx(expected)
    assert measure_curve(whole, "unrest", 1, 10 * len(whole)) == 0.0


def test_a_panel_in_a_few_words() -> None:
    def one(ruling: Ruling, *, ours: bool = False) -> ClaimVerdict:
        return ClaimVerdict(
            says="-",
            numbers="",
            seeds=5,
            comparison="",
            difference=0.0,
            low=-math.inf,
            high=math.inf,
            p_holds=1.0,
            p_fails=1.0,
            ours=ours,
            ruling=ruling,
        )

    assert overall([]) == "nothing claimed"
    assert overall([one("holds"), one("holds")]) == "holds"
    assert overall([one("not decided")]) == "not decided"
    assert overall([one("holds"), one("not decided"), one("does not hold")]) == (
        "1 holds, 1 does not hold, 1 not decided"
    )
    assert overall([one("holds"), one("not decided"), one("holds")]) == "2 hold, 1 not decided"
    assert overall([one("holds"), one("not decided", ours=True)]) == "holds"
    assert overall([one("holds", ours=True), one("not decided", ours=True)]) == "ours: 1 holds, 1 not decided"
