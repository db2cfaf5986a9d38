"""LiRA where the truth is known: scores that are Gaussian, with means of each record's own."""

import numpy as np
import pytest

from securefl.base.errors import UsageError
from securefl.lab.privacy_attacks.membership import likelihood_ratios
from securefl.lab.privacy_attacks.roc import roc_of
from tests.unit.audit.attacks.shadows import each_in_turn

RECORDS, MODELS = 400, 24


def world(gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores of easy and hard records; a member's is higher by ``gap`` standard deviations."""
    generator = np.random.default_rng(3)
    member = generator.random((MODELS, RECORDS)) < 0.5
    easy = 5 * generator.standard_normal(RECORDS)
    return easy + gap * member + generator.standard_normal((MODELS, RECORDS)), member


def test_it_finds_members_that_a_threshold_cannot_see() -> None:
    scores, member = world(2.0)
    ratios, truth = (np.concatenate(parts) for parts in zip(*each_in_turn(scores, member), strict=True))
    # Two Gaussians two deviations apart: P(N(0, 2) < 2) = 0.921; means from 12 models each cost a little.
    assert 0.89 < roc_of(ratios, truth).area < 0.93
    assert roc_of(scores.ravel(), member.ravel()).area < 0.65


def test_members_that_nothing_tells_apart() -> None:
    scores, member = world(0.0)
    ratios, truth = (np.concatenate(parts) for parts in zip(*each_in_turn(scores, member), strict=True))
    # 9,600 scores, half of them members: the area's standard deviation is 0.006.
    assert abs(roc_of(ratios, truth).area - 0.5) < 0.03


def test_a_record_without_shadows_says_nothing() -> None:
    scores, member = world(2.0)
    member[:, 0] = True
    assert likelihood_ratios(scores[0], scores[1:], member[1:])[0] == 0


def test_too_few_shadows_are_refused() -> None:
    scores, member = world(1.0)
    with pytest.raises(UsageError, match="shadow models"):
        likelihood_ratios(scores[0], scores[1:3], member[1:3])
    with pytest.raises(UsageError, match="scores and member must have one shape"):
        likelihood_ratios(scores[0, :3], scores[1:], member[1:])
