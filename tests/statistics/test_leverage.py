"""The bound built on leverage against the likelihood-ratio test that is best, by Monte Carlo.

Integer noise of 4 steps, the least that is drawn, is added once and opened in several sums. The likelihood of
what is opened is a sum over all integer noises that give it: those on a line where the sums leave one
dimension open, a single one where they leave none. Nothing in it is Gaussian, and nothing knows of leverage.
"""

import functools
import math

import numpy as np
import numpy.typing as npt
import pytest

from securefl.base.arrays import F64, I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.methods.privacy.exposure import leverage
from securefl.methods.privacy.laws import mu_slack
from securefl.methods.privacy.table import noise_table
from tests.unit.privacy.oracles import exact_law, gaussian_delta

STD = 4
DRAWS = 6_000
REACH = 24
"""Steps along the line: 10 standard deviations of where the noise may lie on it, or more."""
UNLIKELY = 4.5
"""Standard errors: once in 150,000 for each of the comparisons here."""

Rows = npt.NDArray[np.int64]
# Openings, and the primitive integer vector that no opening sees; none where all is determined.
CHAIN = np.array([[1, 1, 0], [0, 1, 1]]), np.array([1, -1, 1])
TWICE = (
    np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]]),
    np.array([1, -1, -1, 1]),
)
LONG = np.array([[1, 1, 1, 0], [1, 1, 0, 1], [0, 1, 1, 1]]), np.array([1, -2, 1, 1])
DIFFERENCE = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 0]]), np.array([0, 0, 0])


@functools.cache
def log_law() -> F64:
    """log P(X = k) for k = -128 ... 128, and as good as nothing at both ends."""
    half = np.array([float(mass) for mass in exact_law("skellam", STD, 128)])
    return np.log(np.concatenate([half[:0:-1], half]) + 1e-300)


def likelihood(noise: I64, unseen: I64) -> F64:
    """log P of what the sums say of ``noise``, (n, parties): the noise may lie anywhere along ``unseen``."""
    steps = np.arange(-REACH, REACH + 1) if unseen.any() else np.zeros(1, dtype=np.int64)
    line = noise[:, None, :] + steps[:, None] * unseen
    mass = log_law()[np.clip(line, -128, 128) + 128].sum(axis=2)
    top = mass.max(axis=1, keepdims=True)
    total: F64 = np.log(np.exp(mass - top).sum(axis=1)) + top[:, 0]
    return total


@pytest.mark.parametrize(("rows", "unseen"), [CHAIN, TWICE, LONG, DIFFERENCE])
def test_the_best_test_finds_what_leverage_says(rows: Rows, unseen: I64) -> None:
    parties, shift = rows.shape[1], 5
    assert not (rows @ unseen).any()
    exposure = leverage(rows, np.full(parties, float(STD**2)), 0)
    mu = shift / STD * math.sqrt(exposure)
    entropy = InsecureSeededEntropy(17)
    noise = noise_table("skellam", STD).sample(DRAWS * parties, entropy).reshape(DRAWS, parties)
    moved = noise.copy()
    moved[:, 0] += shift
    # The sums of ``moved``: how much likelier with the shift than without it?
    ratio = likelihood(noise, unseen) - likelihood(moved, unseen)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        advantage = np.maximum(-np.expm1(epsilon - ratio), 0)
        found, error = float(advantage.mean()), float(advantage.std()) / math.sqrt(DRAWS)
        slack = 1 + mu_slack(STD**2)
        assert gaussian_delta(mu / slack, epsilon) - UNLIKELY * error < found
        assert found < gaussian_delta(mu * slack, epsilon) + UNLIKELY * error
    # It would notice a mu that is wrong by a quarter.
    total = float(np.maximum(-np.expm1(-ratio), 0).mean())
    error = 0.5 / math.sqrt(DRAWS)
    assert gaussian_delta(0.75 * mu, 0) + UNLIKELY * error < total
    assert total < gaussian_delta(1.25 * mu, 0) - UNLIKELY * error


def test_the_openings_above_are_of_all_kinds() -> None:
    found = [leverage(rows, np.full(rows.shape[1], 16.0), 0) for rows, _ in (CHAIN, TWICE, LONG)]
    assert found == pytest.approx([2 / 3, 3 / 4, 6 / 7])
    assert leverage(DIFFERENCE[0], np.full(3, 16.0), 0) == pytest.approx(1)


def test_one_opening_is_worth_one_over_h() -> None:
    """A sum of Skellam noises is Skellam: the law of the sum is known without a search along lines."""
    survivors, shift = 4, 6
    wide = np.array([float(mass) for mass in exact_law("skellam", 2 * STD, 200)])
    mass = np.concatenate([wide[:0:-1], wide])
    at_zero, moved = np.pad(mass, (0, shift)), np.pad(mass, (shift, 0))
    exposure = leverage(np.ones((1, survivors), dtype=np.int64), np.full(survivors, float(STD**2)), 0)
    assert exposure == pytest.approx(1 / survivors)
    mu = shift / STD * math.sqrt(exposure)
    for epsilon in (0.0, 1.0, 2.0):
        exact = float(np.maximum(moved - math.exp(epsilon) * at_zero, 0).sum())
        slack = 1 + mu_slack(survivors * STD**2)
        assert gaussian_delta(mu / slack, epsilon) < exact < gaussian_delta(mu * slack, epsilon)
