from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F64
from securefl.methods.attacks.parts.fall_of_empires import fall_of_empires
from securefl.methods.attacks.parts.inner_product_manipulation import inner_product_manipulation
from securefl.methods.attacks.parts.mimic import mimic
from tests.tiers import examples
from tests.unit.misbehaviour.attacks.rows import honest, known_updates


@given(known_updates(), st.sampled_from([-1.0, -10.0]))
def test_fall_of_empires_is_the_scaled_mean(known: F64, factor: float) -> None:
    naive = [factor * sum(column) / len(known) for column in known.T.tolist()]
    assert np.allclose(fall_of_empires(known, factor), naive)


def test_fall_of_empires_of_one_attacker_is_its_own_update_scaled() -> None:
    own = np.array([[1.0, -3.0]])
    assert fall_of_empires(own, -10.0).tolist() == [-10.0, 30.0]


@given(known_updates(), st.integers(1, 5))
def test_the_inner_product_turns_negative_from_the_stated_epsilon_on(known: F64, attackers: int) -> None:
    direction = known.mean(axis=0)
    if not direction.any():
        return
    limit = len(known) / attackers
    for epsilon, sign in ((0.99 * limit, 1), (1.01 * limit, -1)):
        sent = inner_product_manipulation(known, epsilon)
        total = (known.sum(axis=0) + attackers * sent) / (len(known) + attackers)
        assert sign * (total @ direction) > 0


def test_mimic_copies_the_party_that_is_furthest_along_the_widest_direction() -> None:
    known = honest(6, 30, seed=3, spread=0.1)
    odd = np.zeros(30)
    odd[7] = 5.0
    known[4] += odd
    assert np.array_equal(mimic(known), known[4])


@settings(max_examples=examples(60))
@given(st.integers(2, 7), st.integers(1, 12), st.integers(0, 2**32))
def test_mimic_agrees_with_the_covariance_matrix(rows: int, columns: int, seed: int) -> None:
    known = honest(rows, columns, seed)
    centred = known - known.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    along = np.abs(known @ vectors[:, -1])
    chosen = np.flatnonzero((known == mimic(known)).all(axis=1))
    assert along[chosen[0]] >= along.max() * (1 - 1e-9)


def test_mimic_of_updates_that_agree_is_any_of_them() -> None:
    known = np.full((3, 4), 0.25)
    assert np.array_equal(mimic(known), known[0])
