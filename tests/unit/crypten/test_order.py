"""Median and trimmed mean inside a cluster, under CrypTen, against sorting in the clear."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.errors import UsageError
from securefl.protocol.secure_sum.validated.order import (
    median_trim,
    order_cost,
    order_requests,
    order_session,
)
from tests.unit.crypten.driving import drive, shared, worlds


def opened(vectors: I64, trim: int, seed: int = 1) -> tuple[I64, int]:
    """What everybody learns, and after how many rounds."""
    members, length = vectors.shape
    shares = shared([int(v) for v in vectors.reshape(-1)], members, seed).reshape(members, members, length)
    everybody = worlds(members, order_requests(members, length, trim), seed)
    made = [order_session(w, share, trim, t) for share, (w, t) in zip(shares, everybody, strict=True)]
    results, rounds = drive(made)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    return results[0], rounds


@pytest.mark.parametrize(("members", "trim"), [(3, 0), (3, 1), (4, 1), (5, 1), (5, 2)])
def test_the_middle_values_are_those_of_sorted_columns(members: int, trim: int) -> None:
    generator = np.random.default_rng(members)
    vectors = generator.integers(-(2**40), 2**40, (members, 6))
    vectors[:, 0] = 7  # ties
    vectors[0, 1:4] = -(2**63), 2**63 - 1, 0  # one member at the ends of the ring
    expected = np.sort(vectors, axis=0)[trim : members - trim].sum(axis=0)
    result, rounds = opened(vectors, trim)
    np.testing.assert_array_equal(result, expected)
    assert rounds == order_cost(members, 6, trim).rounds


def test_one_member_at_ten_times_moves_the_mean_and_not_the_median() -> None:
    """A cluster of 5 whose honest updates lie around 100: its mean ends up below 0, its median among them."""
    honest = np.random.default_rng(3).integers(80, 120, (4, 8))
    vectors = np.concatenate([honest, -10 * honest[:1]])
    result, _ = opened(vectors, median_trim(5))
    assert np.all((honest.min(axis=0) <= result) & (result <= honest.max(axis=0)))
    assert np.all(vectors.mean(axis=0) < 0)


def test_cost_grows_with_the_square_of_the_members_and_with_d() -> None:
    small, large = order_cost(3, 10, 1), order_cost(3, 1000, 1)
    assert large.words_sent == 100 * small.words_sent
    assert large.rounds == small.rounds
    # As docs/crypten.md says: what one coordinate costs.
    assert [order_cost(m, 1, median_trim(m)).words_sent for m in (3, 4, 5)] == [241, 507, 801]


@pytest.mark.parametrize(("members", "trim"), [(2, 0), (3, 2), (4, 2), (3, -1)])
def test_impossible_sizes(members: int, trim: int) -> None:
    with pytest.raises(UsageError, match=r"3 members|leaves nothing"):
        order_cost(members, 5, trim)
