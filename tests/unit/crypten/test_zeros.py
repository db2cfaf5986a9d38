"""Shares of zero over the complete graph: they cancel over all members, and over no fewer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.crypto.agreement import derive_key
from securefl.base.crypto.labels import encode
from securefl.base.crypto.prg import expand
from securefl.base.errors import UsageError
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares
from tests.tiers import examples
from tests.unit.crypten.test_session import pair_keys


@settings(max_examples=examples(25), deadline=None)
@given(size=st.integers(2, 6), words=st.integers(0, 40), kinds=st.lists(st.booleans(), max_size=4))
def test_all_shares_together_are_zero(size: int, words: int, kinds: list[bool]) -> None:
    members = [ZeroShares(me, pair_keys(me, size)) for me in range(size)]
    for binary in kinds:
        shares = [m.binary(words) if binary else m.arithmetic(words) for m in members]
        combine = np.bitwise_xor if binary else np.add
        np.testing.assert_array_equal(combine.reduce(shares), np.zeros(words, np.uint64))


@pytest.mark.parametrize("binary", [False, True])
def test_what_a_coalition_without_one_member_lacks_is_that_pair_s_stream(binary: bool) -> None:
    """Everybody but 0 and 1 together: what is left of 0's share is the stream of the pair (0, 1)."""
    size, words = 4, 9
    members = [ZeroShares(me, pair_keys(me, size)) for me in range(size)]
    kind = "binary" if binary else "arithmetic"
    shares = [m.binary(words) if binary else m.arithmetic(words) for m in members]
    known = [
        expand(derive_key(pair_keys(0, size)[o], "share of zero", encode(kind, 1, words)), words, np.uint64)
        for o in (1, 2, 3)
    ]
    left = shares[0] ^ known[1] ^ known[2] if binary else shares[0] - known[1] - known[2]
    np.testing.assert_array_equal(left, known[0])


def test_no_two_sharings_share_a_stream() -> None:
    member = ZeroShares(0, pair_keys(0, 2))
    drawn = [member.arithmetic(4), member.arithmetic(4), member.binary(4), member.arithmetic(5)[:4]]
    assert len({share.tobytes() for share in drawn}) == len(drawn)


@pytest.mark.parametrize("keys", [{}, {0: bytes(32)}])
def test_nobody_else_is_refused(keys: dict[int, bytes]) -> None:
    with pytest.raises(UsageError, match="1 other member"):
        ZeroShares(0, keys)
