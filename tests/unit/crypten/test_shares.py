"""Updates as shares among the others: what adds up, what is refused, and why shares of zero are needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import U64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import PeerError, UsageError
from securefl.protocol.secure_sum.validated.shares import (
    UpdateShare,
    release_share,
    share_context,
    split,
    words_of,
)
from tests.tiers import examples

CONTEXT = b"k" * 32
LENGTH = 5


def update(seed: int) -> U64:
    return np.random.default_rng(seed).integers(0, 2**64 - 1, LENGTH, np.uint64, endpoint=True)


def held(members: list[int], updates: dict[int, U64]) -> dict[int, dict[int, U64]]:
    """By holder, then by owner: the words that each member has of the others' updates."""
    everybody: dict[int, dict[int, U64]] = {member: {} for member in members}
    for owner, vector in updates.items():
        shares = split(vector, owner, members, CONTEXT, InsecureSeededEntropy(owner))
        for holder, share in shares.items():
            everybody[holder][owner] = words_of(share, LENGTH, CONTEXT, owner, holder, "owner")
    return everybody


@settings(max_examples=examples(25), deadline=None)
@given(count=st.integers(3, 6), seed=st.integers(0, 1000))
def test_shares_add_up_and_the_owner_has_none(count: int, seed: int) -> None:
    members = list(range(count))
    updates = {member: update(seed + member) for member in members}
    before = {member: vector.copy() for member, vector in updates.items()}
    everybody = held(members, updates)
    for owner in members:
        assert owner not in everybody[owner]
        total = np.sum(
            [h[owner] for holder, h in everybody.items() if holder != owner], axis=0, dtype=np.uint64
        )
        np.testing.assert_array_equal(total, updates[owner])
        np.testing.assert_array_equal(before[owner], updates[owner])


def test_the_sum_of_what_is_released_is_that_of_the_accepted() -> None:
    members = [0, 1, 2, 3]
    updates = {member: update(member) for member in members}
    everybody = held(members, updates)
    zero = np.zeros(LENGTH, np.uint64)
    for accepted in ({0, 1, 2, 3}, {0, 2, 3}, {1, 2}):
        total = np.sum(
            [release_share(everybody[m], accepted, zero) for m in members], axis=0, dtype=np.uint64
        )
        np.testing.assert_array_equal(total, np.sum([updates[a] for a in accepted], axis=0, dtype=np.uint64))


def test_one_vector_a_member_the_rest_are_seeds() -> None:
    received = dict.fromkeys(range(4), 0)
    for owner in range(4):
        for holder, share in split(
            update(owner), owner, [0, 1, 2, 3], CONTEXT, InsecureSeededEntropy(1)
        ).items():
            received[holder] += bool(share.words)
            assert len(share.seed) in (0, 32)
    assert set(received.values()) == {1}


def test_without_shares_of_zero_one_member_and_the_server_open_an_update() -> None:
    """Member 1 of 3 knows its share at 0, and its part of 2's update; 0's release holds the other one."""
    updates = {member: update(member) for member in range(3)}
    everybody = held([0, 1, 2], updates)
    known = split(updates[1], 1, [0, 1, 2], CONTEXT, InsecureSeededEntropy(1))[0]
    own_at_0 = words_of(known, LENGTH, CONTEXT, 1, 0, "me")
    naive = release_share(everybody[0], {0, 1, 2}, np.zeros(LENGTH, np.uint64))
    np.testing.assert_array_equal(naive - own_at_0 + everybody[1][2], updates[2])
    # Members 0 and 2 share a stream that neither member 1 nor the server knows.
    hidden = release_share(everybody[0], {0, 1, 2}, update(99))
    assert not np.any((hidden - own_at_0 + everybody[1][2]) == updates[2])


@pytest.mark.parametrize(
    "share",
    [
        UpdateShare(),
        UpdateShare(seed=bytes(31)),
        UpdateShare(words=bytes(8 * LENGTH - 1)),
        UpdateShare(words=bytes(8 * LENGTH + 8)),
        UpdateShare(seed=bytes(32), words=bytes(8 * LENGTH)),
    ],
)
def test_shares_of_another_length_name_their_sender(share: UpdateShare) -> None:
    with pytest.raises(PeerError, match="p07"):
        words_of(share, LENGTH, CONTEXT, 0, 1, "p07")


def test_digests_name_the_place() -> None:
    share = UpdateShare(seed=bytes(32))
    digests = {share.digest(share_context(CONTEXT, o, h)) for o, h in ((0, 1), (1, 0), (0, 2))}
    assert len(digests | {UpdateShare(words=bytes(32)).digest(share_context(CONTEXT, 0, 1))}) == 4


def test_clusters_of_two_are_refused() -> None:
    with pytest.raises(UsageError, match="members must be at least 3"):
        split(update(0), 0, [0, 1], CONTEXT, InsecureSeededEntropy(1))
    with pytest.raises(UsageError, match="members must be at least 3"):
        split(update(0), 9, [0, 1, 2], CONTEXT, InsecureSeededEntropy(1))
