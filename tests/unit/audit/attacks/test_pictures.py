"""Similarity of pictures: extremes, and a value worked out by hand."""

import numpy as np
import pytest

from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.pictures import best_matches, mse, ssim

GENERATOR = np.random.default_rng(5)
PICTURES = GENERATOR.random((4, 12, 10))


def test_a_picture_is_like_itself_and_unlike_its_negative() -> None:
    assert ssim(PICTURES[0], PICTURES[0]) == pytest.approx(1)
    assert ssim(PICTURES[0], 1 - PICTURES[0]) < -0.9
    assert abs(ssim(PICTURES[0], PICTURES[1])) < 0.2
    assert mse(PICTURES[0], PICTURES[0]) == 0


def test_flat_pictures_differ_by_their_brightness_only() -> None:
    # (2 a b + 0.01^2) / (a^2 + b^2 + 0.01^2); contrast and structure are equal.
    expected = (2 * 0.2 * 0.6 + 1e-4) / (0.04 + 0.36 + 1e-4)
    assert ssim(np.full((8, 8), 0.2), np.full((8, 8), 0.6)) == pytest.approx(expected)


def test_the_most_similar_candidate_is_found() -> None:
    noisy = PICTURES[[2, 0, 3]] + 0.05 * GENERATOR.standard_normal((3, 12, 10))
    found = best_matches(PICTURES[:1], noisy)
    assert found[0].candidate == 1
    assert found[0].ssim > 0.9
    assert found[0].mse < 0.01


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UsageError):
        ssim(np.zeros((4, 4)), np.zeros((4, 4)))
    with pytest.raises(UsageError):
        best_matches(PICTURES, np.zeros((0, 12, 10)))
