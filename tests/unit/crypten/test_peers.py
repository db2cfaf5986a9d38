"""Sealed lines between members: what is sealed opens at its receiver, in its place, and nowhere else."""

from __future__ import annotations

import pytest

from securefl.base.crypto.agreement import KeyPair
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten.peers import Peers

PAIRS = [KeyPair.generate(InsecureSeededEntropy(n)) for n in range(3)]


def peers(me: int, context: bytes = b"attempt 0") -> Peers:
    others = {n: (PartyId(f"p{n}"), pair.public) for n, pair in enumerate(PAIRS) if n != me}
    return Peers(me, PAIRS[me], others, context)


def test_a_message_opens_at_its_receiver() -> None:
    box = peers(0).seal(1, 5, b"words", OsEntropy())
    assert peers(1).open(0, 5, box) == b"words"
    assert b"words" not in box


@pytest.mark.parametrize(
    ("receiver", "sender", "number", "context"),
    [(2, 0, 5, b"attempt 0"), (1, 2, 5, b"attempt 0"), (1, 0, 6, b"attempt 0"), (1, 0, 5, b"attempt 1")],
)
def test_it_opens_nowhere_else(receiver: int, sender: int, number: int, context: bytes) -> None:
    box = peers(0).seal(1, 5, b"words", OsEntropy())
    with pytest.raises(PeerError, match="cannot be decrypted"):
        peers(receiver, context).open(sender, number, box)


def test_an_echo_and_a_stranger_are_refused() -> None:
    box = peers(0).seal(1, 5, b"words", OsEntropy())
    for sender in (0, 7):
        with pytest.raises(PeerError, match="not another member"):
            peers(0).open(sender, 5, box)


def test_a_key_of_low_order_is_its_owner_s_fault() -> None:
    with pytest.raises(PeerError, match=r"p1: advertised a bad box key"):
        Peers(0, PAIRS[0], {1: (PartyId("p1"), bytes(32))}, b"")
