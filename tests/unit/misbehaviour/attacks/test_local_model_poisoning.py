from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.stack import ClusterMeans
from securefl.methods.attacks.parts.local_model_poisoning import (
    SMALLEST,
    against_krum,
    against_krum_by_estimate,
    against_trimmed_mean,
    against_trimmed_mean_by_estimate,
)
from securefl.methods.robust.rules.krum import krum
from securefl.methods.robust.rules.trimmed_mean import trimmed_mean
from tests.looped import looped
from tests.tiers import examples
from tests.unit.misbehaviour.attacks.rows import honest, known_updates

ENTROPY = InsecureSeededEntropy(4)


def stacked(rows: F64) -> ClusterMeans:
    return ClusterMeans(rows, np.ones(len(rows)), np.ones(len(rows), dtype=np.int64))


@given(known_updates())
def test_against_trimmed_mean_goes_beyond_the_extremes_but_not_far(known: F64) -> None:
    sent = against_trimmed_mean(known, ENTROPY.child("a"))
    for got, column in zip(sent, known.T, strict=True):
        mean, low, high = column.mean(), column.min(), column.max()
        if mean < 0:
            assert high <= got <= max(2 * high, high / 2)
        elif mean > 0:
            assert min(2 * low, low / 2) <= got <= low
        else:
            assert got == 0


@given(known_updates())
def test_the_estimate_takes_three_to_four_deviations(known: F64) -> None:
    sent = against_trimmed_mean_by_estimate(known, ENTROPY.child("b"))
    mean, std = known.mean(axis=0), known.std(axis=0)
    off = np.sign(-mean) * (sent - mean)
    assert (off >= 3 * std * np.abs(np.sign(mean)) - 1e-9).all()
    assert (off <= 4 * std * np.abs(np.sign(mean)) + 1e-9).all()


def test_attackers_draw_for_themselves() -> None:
    known = honest(5, 20, seed=1)
    first = against_trimmed_mean(known, ENTROPY.child("p00"))
    assert not np.array_equal(first, against_trimmed_mean(known, ENTROPY.child("p01")))
    assert np.array_equal(first, against_trimmed_mean(known, InsecureSeededEntropy(4).child("p00")))


def test_the_trimmed_mean_moves_against_the_direction_of_training() -> None:
    known = honest(9, 200, seed=2, spread=1.0, shift=0.3)
    crafted = np.stack([against_trimmed_mean(known, ENTROPY.child(index)) for index in range(3)])
    without = trimmed_mean(stacked(known), 3).vector
    attacked = trimmed_mean(stacked(np.vstack([known, crafted])), 3).vector
    signs = np.sign(known.mean(axis=0))
    assert (signs * (attacked - without) < 0).all()
    flipped = np.vstack([known, np.repeat(-known.mean(axis=0)[np.newaxis], 3, axis=0)])
    other = trimmed_mean(stacked(flipped), 3).vector
    assert (signs * attacked).sum() < (signs * other).sum()


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(3, 12), st.integers(1, 4), st.integers(0, 2**32), st.floats(0.0, 1.0))
def test_krum_chooses_the_crafted_row(rows: int, attackers: int, seed: int, shift: float) -> None:
    known = honest(rows, 6, seed, shift=shift)
    row = against_krum(known, attackers)
    everything = np.vstack([np.repeat(row[np.newaxis], attackers, axis=0), known])
    chosen = krum(stacked(everything), attackers).vector
    size = np.abs(row).max()
    assert np.allclose(np.abs(row), size)
    if size > SMALLEST:
        assert np.array_equal(chosen, row)
        assert (np.sign(row) == -np.sign(krum(stacked(known), min(attackers, rows - 3)).vector)).all()


@looped("seed", range(20))
def test_a_larger_step_is_not_chosen(seed: int) -> None:
    """Within Krum's guarantee (11 rows, 3 attackers): on a grid of larger steps, all lose."""
    known = honest(8, 6, seed, shift=0.2)
    row = against_krum(known, 3)
    assert np.abs(row).max() > SMALLEST
    for factor in (1.001, 1.1, 2.0, 10.0):
        larger = np.vstack([np.repeat(factor * row[np.newaxis], 3, axis=0), known])
        assert not np.array_equal(krum(stacked(larger), 3).vector, factor * row)


def test_where_honest_updates_agree_nothing_gets_through() -> None:
    known = honest(9, 6, seed=8, spread=1e-6)
    row = against_krum(known, 2)
    assert np.abs(row).max() == SMALLEST


def test_the_estimate_stays_finite_although_the_coalition_is_as_many_as_it_knows() -> None:
    known = honest(5, 10, seed=6, shift=0.1)
    row = against_krum_by_estimate(known, 5)
    spread = np.linalg.norm(known, axis=1).max()
    assert 0 < np.linalg.norm(row) < 3 * spread


def test_the_estimate_from_a_sample_fools_krum_over_all() -> None:
    everybody = honest(12, 40, seed=9, spread=1.0, shift=0.1)
    row = against_krum_by_estimate(everybody[:4], 4)
    rows = np.vstack([np.repeat(row[np.newaxis], 4, axis=0), everybody[4:]])
    assert np.array_equal(krum(stacked(rows), 4).vector, row)


@pytest.mark.parametrize("craft", [against_krum, against_krum_by_estimate])
def test_no_update_at_all_is_answered_by_none(craft: object) -> None:
    assert callable(craft)
    assert not craft(np.zeros((4, 3)), 2).any()
