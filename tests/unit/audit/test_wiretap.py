"""Frames that an observer kept, as what each process can have taken from them."""

from __future__ import annotations

from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import RollCall
from securefl.protocol.messages.rounds import Reveal
from tests.recorded.wiretap import Wiretap
from tests.unit.wire.ends import ROSTER, RUN, A, B, outbox

ROUNDS, EACH = 8, 20


def test_words_to_all_and_to_one_are_taken_in_the_order_in_which_they_passed() -> None:
    """However many rounds there were: an inbox refuses what is older than what it has forgotten."""
    sender = outbox(SERVER)
    frames: list[bytes] = []
    for round_ in range(ROUNDS):
        for _ in range(EACH):
            for to in (EVERYONE, A, B):
                frames += sender.frames(to, Place(round_), RollCall())
    for vantage in (A, B):
        taken = Wiretap(tuple(frames), RUN, ROSTER, 32).taken_by(vantage)
        assert sorted(len(some) for some in taken.values()) == [2 * EACH] * ROUNDS


def test_what_a_party_says_is_for_the_server() -> None:
    said = tuple(outbox(A).frames(SERVER, Place(3), Reveal(nonce=bytes(32))))
    tap = Wiretap((b"garbage", *said, *said), RUN, ROSTER, 32)
    ((found,),) = tap.taken_by(PartyId(SERVER)).values()
    assert (found.sender, found.place, found.message) == (A, Place(3), Reveal(nonce=bytes(32)))
    assert not tap.taken_by(B)
