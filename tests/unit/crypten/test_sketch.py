"""Ternary projections over Z_2^64, against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.base.ids import Instance, PartyId, RunId
from securefl.protocol.secure_sum.validated.sketch import matrix, nonce_commitment, project, sketch_seed
from tests.tiers import examples

SEED = bytes(range(32))
INSTANCE = Instance(RunId("run"), 3, 0, 1, 0)
NONCES = {PartyId("a"): bytes(32), PartyId("b"): b"\x01" * 32}
TOP = 2**64 - 1


@settings(max_examples=examples(40), deadline=None)
@given(
    vectors=st.integers(1, 5).flatmap(
        lambda d: st.lists(
            st.lists(
                st.one_of(st.integers(0, TOP), st.sampled_from((0, 1, 2**63 - 1, 2**63, TOP))),
                min_size=d,
                max_size=d,
            ),
            min_size=1,
            max_size=3,
        )
    ),
    projections=st.sampled_from((8, 64, 128)),
)
def test_projections_are_those_of_integers_modulo_the_ring(
    vectors: list[list[int]], projections: int
) -> None:
    signs = matrix(SEED, len(vectors[0]), projections).tolist()
    expected = [
        [sum(s * v for s, v in zip(row, vector, strict=True)) % 2**64 for row in signs] for vector in vectors
    ]
    assert project(SEED, np.array(vectors, np.uint64), projections).tolist() == expected


def test_blocks_join_without_a_seam() -> None:
    """5000 coordinates are more than two blocks; all at the top of the ring is where a limb could spill."""
    signs = matrix(SEED, 5000, 8).astype(np.int64)
    top = np.full((1, 5000), TOP, np.uint64)
    assert project(SEED, top, 8).tolist() == [[-int(row.sum()) % 2**64 for row in signs]]


def test_projections_of_shares_add_up() -> None:
    generator = np.random.default_rng(1)
    vector = generator.integers(0, TOP, (1, 300), np.uint64, endpoint=True)
    share = generator.integers(0, TOP, (1, 300), np.uint64, endpoint=True)
    halves = project(SEED, np.concatenate([share, vector - share]), 64)
    np.testing.assert_array_equal(halves.sum(0, dtype=np.uint64), project(SEED, vector, 64)[0])


def test_signs_have_the_stated_law_and_do_not_go_together() -> None:
    """Frequencies over 2^19 entries, and correlations of 64 rows: within 5 standard errors each.

    Some 2,000 comparisons, each wrong once in 1.7 million.
    """
    signs = matrix(SEED, 8192, 64).astype(np.float64)
    for value, share in ((-1, 0.25), (0, 0.5), (1, 0.25)):
        spread = np.sqrt(share * (1 - share) / signs.size)
        assert abs((signs == value).mean() - share) < 5 * spread
    products = signs @ signs.T / 8192
    off = products[~np.eye(64, dtype=bool)]
    assert np.abs(off).max() < 5 * 0.5 / np.sqrt(8192)


def test_the_seed_depends_on_every_nonce_the_attempt_and_the_receipts() -> None:
    seeds = {
        sketch_seed(NONCES, INSTANCE, b"r"),
        sketch_seed({**NONCES, PartyId("a"): b"\x02" * 32}, INSTANCE, b"r"),
        sketch_seed({PartyId("a"): bytes(32)}, INSTANCE, b"r"),
        sketch_seed(NONCES, INSTANCE._replace(attempt=1), b"r"),
        sketch_seed(NONCES, INSTANCE, b"s"),
    }
    assert len(seeds) == 5
    assert sketch_seed(dict(reversed(NONCES.items())), INSTANCE, b"r") in seeds
    commitments = {
        nonce_commitment(bytes(32), INSTANCE, PartyId("a")),
        nonce_commitment(bytes(32), INSTANCE, PartyId("b")),
        nonce_commitment(bytes(32), INSTANCE._replace(cluster=2), PartyId("a")),
    }
    assert len(commitments) == 3


@pytest.mark.parametrize("projections", [0, 12, 264, -8])
def test_impossible_numbers_of_projections(projections: int) -> None:
    with pytest.raises(UsageError, match="multiple of 8"):
        project(SEED, np.zeros((1, 3), np.uint64), projections)


def test_bad_arguments() -> None:
    with pytest.raises(UsageError, match="32 bytes"):
        project(b"short", np.zeros((1, 3), np.uint64), 8)
    with pytest.raises(UsageError, match="dtype"):
        project(SEED, np.zeros((1, 3), np.int64), 8)
    with pytest.raises(UsageError, match="nonces of a sketch seed must be 1 or more"):
        sketch_seed({}, INSTANCE, b"")
    with pytest.raises(UsageError, match="nonces of a sketch seed must be 1 or more"):
        sketch_seed({PartyId("a"): b"short"}, INSTANCE, b"")
