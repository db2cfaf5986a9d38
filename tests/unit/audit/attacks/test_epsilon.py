"""Bounds on epsilon: against a mechanism whose epsilon is exact, and against closed forms."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.epsilon import (
    Errors,
    Guesses,
    bound_of,
    errors_at_most,
    gaussian_shift,
    guess,
    one_run,
    p_value,
)

_Coins = npt.NDArray[np.bool_]


def _randomised_response(canaries: int, epsilon: float, seed: int) -> tuple[F64, _Coins]:
    """Each canary's coin is told truly with probability e^epsilon / (1 + e^epsilon): exactly epsilon-DP.

    Ties are broken at random.
    """
    generator = np.random.default_rng(seed)
    coins = generator.random(canaries) < 0.5
    true = generator.random(canaries) < 1 / (1 + math.exp(-epsilon))
    return np.where(coins == true, 1.0, 0.0) + 1e-3 * generator.random(canaries), coins


def test_without_delta_it_is_a_binomial_test() -> None:
    guesses = Guesses(500, 200, 150)
    expected = stats.binom.sf(149, 200, 1 / (1 + math.exp(-0.7)))
    assert p_value(guesses, 0.7, 0.0) == pytest.approx(expected, rel=1e-9)


def test_delta_costs_what_the_theorem_says() -> None:
    law = stats.binom(20, 1 / (1 + math.exp(-1.0)))
    slope = max((law.cdf(17) - law.cdf(17 - i)) / i for i in range(1, 19))
    expected = law.sf(17) + 2 * 30 * 1e-3 * slope
    assert p_value(Guesses(30, 20, 18), 1.0, 1e-3) == pytest.approx(expected, rel=1e-9)


def test_more_epsilon_explains_more() -> None:
    values = [p_value(Guesses(1000, 300, 250), epsilon, 1e-5) for epsilon in np.linspace(0, 5, 40)]
    surprising = [value for value in values if value < 0.5]
    assert len(surprising) > 10
    assert values[: len(surprising)] == sorted(surprising)


def test_all_right_is_bounded_by_how_many_there_are() -> None:
    # All of r right guesses at rate q have probability q^r.
    bound = bound_of(Guesses(100, 100, 100), 0.0, 0.95)
    rate = 0.05 ** (1 / 100)
    assert bound.epsilon == pytest.approx(math.log(rate / (1 - rate)), rel=1e-6)


def test_coin_tosses_prove_nothing() -> None:
    assert bound_of(Guesses(1000, 1000, 503), 0.0, 0.95).epsilon == 0
    assert bound_of(Guesses(1000, 0, 0), 0.0, 0.95).epsilon == 0


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_a_bound_is_near_the_truth_and_seldom_above_it(epsilon: float) -> None:
    drawn = (_randomised_response(2000, epsilon, seed) for seed in range(12))
    found = np.array([one_run(scores, included, 0.0).epsilon for scores, included in drawn])
    assert np.median(found) > 0.35 * epsilon
    # A bound at 95 % is too high once in 20, so 5 times or more of 12 with p < 2e-4.
    assert (found > epsilon).sum() < 5


def test_a_gaussian_shift_is_found_and_seldom_overrated() -> None:
    found = []
    for seed in range(20):
        generator = np.random.default_rng(seed)
        coins = generator.random(1000) < 0.5
        scores = generator.standard_normal(1000) + np.where(coins, 0.5, -0.5)
        found.append(gaussian_shift(errors_at_most(scores, coins)))
    assert np.median(found) > 0.7
    assert (np.array(found) > 1).sum() < 6


def test_useless_errors_prove_nothing() -> None:
    assert gaussian_shift(Errors(1.0, 1.0)) == 0
    assert gaussian_shift(Errors(0.5, 0.5)) == 0


def test_error_rates_are_worth_a_shift() -> None:
    assert gaussian_shift(Errors(0.02275, 0.5)) == pytest.approx(2.0, abs=1e-3)


def test_guesses_are_made_at_the_ends() -> None:
    scores = np.array([5.0, 1.0, 4.0, 2.0, 3.0])
    included = np.array([True, False, False, False, True])
    assert guess(scores, included, 2, 1) == Guesses(5, 3, 2)
    assert guess(scores, included, 0, 2) == Guesses(5, 2, 2)


def test_what_was_not_guessed_is_refused() -> None:
    coins = np.array([True, False])
    with pytest.raises(UsageError):
        p_value(Guesses(3, 4, 2), 1.0, 0.0)
    with pytest.raises(UsageError):
        guess(np.zeros(2), coins, 2, 1)
    with pytest.raises(UsageError):
        one_run(np.zeros(2), coins, 0.0, shares=(0.7,))
    with pytest.raises(UsageError):
        bound_of(Guesses(3, 2, 2), 0.0, 1.0)
    with pytest.raises(UsageError):
        errors_at_most(np.zeros(4), np.ones(4, dtype=np.bool_))
