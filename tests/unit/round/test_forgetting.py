"""Scores that fade: the plain sum without a half-life, the closed form with one, and who turns late."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.methods.robust.tolerance import rounds_remembered
from securefl.protocol.round.server.features.trust import NO_TRUST, Trust, credit_scores, fade_scores
from securefl.protocol.round.server.stacking import RoundAggregate, aggregate_round
from tests.tiers import examples
from tests.unit.round.test_trust import LENGTH, SEED, A, B, C, D, plan_for, summed

DOWN = np.array([-1.0, 0.0, 0.0])
SUM = InnerProduct(gamma=0.5)


def fading(half_life: float, credit: Literal["above-mean", "all-scores"] = "above-mean") -> InnerProduct:
    return InnerProduct(gamma=0.5, half_life=half_life, credit=credit)


def round_of(rule: InnerProduct, scores: Sequence[float], trust: Trust) -> RoundAggregate:
    """A round at clusters of 1, in which the parties' uploads have these products with descent."""
    plan = plan_for(len(scores), rule)
    names = list(plan.roster.parties)
    sums = [summed(plan, 0, j, [name], np.array([scores[j], 0.0, 0.0])) for j, name in enumerate(names)]
    return aggregate_round(plan, sums, dict.fromkeys(names, 1.0), SEED, None, {0: DOWN}, trust)


@settings(max_examples=examples(30), deadline=None)
@given(
    history=st.integers(1, 6).flatmap(
        lambda rounds: arrays(np.float64, (rounds, 4), elements=st.floats(-4, 4, width=16))
    ),
    credit=st.sampled_from(["above-mean", "all-scores"]),
)
def test_a_half_life_without_end_is_the_plain_sum_bit_by_bit(
    history: F64, credit: Literal["above-mean", "all-scores"]
) -> None:
    """A scenario takes finite numbers, the largest one included."""
    plain, endless = InnerProduct(gamma=0.5, credit=credit), fading(sys.float_info.max, credit)
    a = b = NO_TRUST
    for scores in history.tolist():
        one, two = round_of(plain, scores, a), round_of(endless, scores, b)
        a, b = one.trust, two.trust
        assert list(a.scores.items()) == list(b.scores.items())
        assert fade_scores(a, endless).scores == fade_scores(a, SUM).scores == a.scores
        assert one.kept == two.kept
        assert one.update is not None
        assert two.update is not None
        assert one.update.tobytes() == two.update.tobytes()


@settings(max_examples=examples(30), deadline=None)
@given(
    earned=arrays(np.float64, st.integers(1, 40), elements=st.floats(-100, 100)),
    half_life=st.floats(0.01, 1e6),
)
def test_round_by_round_it_is_the_closed_form(earned: F64, half_life: float) -> None:
    trust, rule = NO_TRUST, fading(half_life)
    for one in earned:
        trust = credit_scores(fade_scores(trust, rule), [(A,)], np.array([one]))
    ages = np.arange(len(earned))[::-1]
    expected = math.fsum(2.0 ** (-ages / half_life) * earned)
    assert trust.scores[A] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_it_fades_once_a_round_and_only_in_rounds_that_score_somebody() -> None:
    """However many reclusterings: all of a round count alike. D is absent, and fades as the others."""
    rule, trust = fading(1.0), Trust({A: 8.0, D: 4.0})
    plan = plan_for(4, rule, 2)
    sums = [summed(plan, r, j, [name], np.ones(LENGTH)) for r in (0, 1) for j, name in enumerate((A, B, C))]
    weights = dict.fromkeys((A, B, C, D), 1.0)
    result = aggregate_round(plan, sums, weights, SEED, None, dict.fromkeys((0, 1), DOWN), trust)
    assert dict(result.trust.scores) == {A: 6.0, D: 2.0, B: 2.0, C: 2.0}
    assert aggregate_round(plan, sums, weights, SEED, None, {}, trust).trust is trust
    tiny = credit_scores(fade_scores(trust, fading(5e-324)), [(A,)], np.array([3.0]))
    assert dict(tiny.scores) == {A: 3.0, D: 0.0}, "of a half-life of nothing only this round is left"


def bad_rounds(half_life: float | None, good: int, most: int) -> int:
    """Rounds of lying in which a party is still selected that scored twice what others do in ``good`` ones.

    Three of four are selected. Lying it scores 0, as below a threshold.
    """
    rule = InnerProduct(gamma=0.75, credit="all-scores", half_life=half_life)
    trust = NO_TRUST
    for round_ in range(good + most):
        result = round_of(rule, (2.0 if round_ < good else 0.0, 1.0, 1.0, 1.0), trust)
        trust = result.trust
        if (0, 0) not in result.kept:
            return round_ - good
    return most


def test_who_turns_late_is_kept_as_long_as_it_was_honest_or_for_a_half_life() -> None:
    """A lead by the factor 2 is gone after as many rounds; h log2(2) rounds where scores fade."""
    good = 30
    assert bad_rounds(None, good, 2 * good) == good - 1
    for half_life in (2, 6):
        assert bad_rounds(half_life, good, 2 * good) == half_life - 1


@pytest.mark.parametrize(("half_life", "back"), [(None, None), (2, 10)])
def test_what_told_most_is_forgotten_too(half_life: float | None, back: int | None) -> None:
    """A mirror of the honest, -4.5 times what they score, is back once that has been slightly negative.

    After n such rounds it has 0.045 (1 - lambda^n) / (1 - lambda), the others lambda^n / (1 - lambda).
    """
    rule, trust, found = InnerProduct(gamma=0.75, half_life=half_life), NO_TRUST, None
    for round_ in range(-20, 100):
        honest = 1.0 if round_ < 0 else -0.01
        result = round_of(rule, (-4.5 * honest, honest, honest, honest), trust)
        trust = result.trust
        if found is None and (0, 0) in result.kept:
            found = round_ + 1
    assert found == back


def test_under_noise_a_short_memory_misjudges_as_the_formula_says() -> None:
    """Of pairs of an honest and a lying party with scores d standard deviations apart, Phi(-d sqrt(w / 2)).

    w: rounds remembered. 1,500 pairs: four standard errors are 0.052 at most, passed by chance in 1 of 16,000
    cases.
    """
    pairs, apart, rng = 1500, 0.3, np.random.default_rng(7)
    parties = [PartyId(f"p{i}") for i in range(2 * pairs)]
    alone = [(party,) for party in parties]
    honest = np.arange(2 * pairs) < pairs
    for half_life, rounds in ((1.0, 8), (8.0, 48)):
        trust, rule = NO_TRUST, fading(half_life)
        for _ in range(rounds):
            trust = credit_scores(
                fade_scores(trust, rule), alone, rng.standard_normal(2 * pairs) + apart * honest
            )
        scores = np.array([trust.scores[party] for party in parties])
        ratio = apart * math.sqrt(rounds_remembered(half_life) / 2)
        expected = math.erfc(ratio / math.sqrt(2)) / 2
        assert abs((scores[:pairs] < scores[pairs:]).mean() - expected) < 4 * math.sqrt(0.25 / pairs) < 0.052
