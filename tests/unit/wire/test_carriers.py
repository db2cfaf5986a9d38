"""Frames that are too large for a broker, carried in pieces: unchanged, bounded, and only by their sender."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.base import MAX_FRAME
from securefl.protocol.messages.control import RollCall
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.wire.carried import CarriedFrames
from securefl.protocol.wire.envelope import CARRIER, HEADER_ROOM, MIN_FRAME, MIN_PIECE, peek
from securefl.protocol.wire.inbox import MAX_OPEN, Delivery, FramePart, Inbox

from .ends import PLACE, A, B, inbox, outbox, sealed

LONG = MaskedInput(vector=bytes(range(256)) * 60)
"""One frame of 15 KiB, or two of 8 KiB."""


def take(box: Inbox, frames: Iterable[bytes]) -> list[Delivery | FramePart | None]:
    return [box.take(frame, "deliverer", 0.0) for frame in frames]


def refused(box: Inbox, frames: Iterable[bytes]) -> PeerError:
    *first, last = frames
    take(box, first)
    with pytest.raises(PeerError) as caught:
        box.take(last, "deliverer", 0.0)
    return caught.value


def carriers_of(
    frame: bytes, seq: int = 7, by: PartyId = A, room: int = MIN_PIECE, **changes: object
) -> list[bytes]:
    """A frame in carriers that say whatever they like."""
    pieces = [frame[at : at + room] for at in range(0, len(frame), room)]
    return [
        sealed(piece, by=by, kind=CARRIER, sender=by, seq=seq, part=part, parts=len(pieces), **changes)
        for part, piece in enumerate(pieces)
    ]


@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_carriers_are_as_few_as_can_be_and_keep_to_the_limit(spare: int) -> None:
    out = outbox(frame_limit=MAX_FRAME)
    (sample,) = out.frames(SERVER, PLACE, MaskedInput(vector=bytes(9_000)))
    size = 9_000 + 3 * MIN_PIECE - len(sample) + spare
    (frame,) = out.frames(SERVER, PLACE, MaskedInput(vector=bytes(size)))
    carriers = list(out.carriers(frame, MIN_FRAME))
    assert len(carriers) == (3 if spare <= 0 else 4)
    assert max(map(len, carriers)) <= MIN_FRAME
    headers = [peek(carrier, "d").header for carrier in carriers]
    assert {(h.kind, h.sender, h.recipient, h.place, h.parts) for h in headers} == {
        (CARRIER, A, SERVER, PLACE, len(carriers))
    }
    assert len({h.seq for h in headers} | {peek(frame, "d").header.seq}) == 2


def test_limits_that_are_too_small() -> None:
    out = outbox()
    (frame,) = out.frames(SERVER, PLACE, RollCall())
    assert len(list(out.carriers(frame, MIN_FRAME))) == 1
    with pytest.raises(UsageError, match=str(MIN_FRAME - 1)):
        out.carriers(frame, MIN_FRAME - 1)


def test_numbers_are_never_given_twice() -> None:
    """Messages are signed in worker threads while carriers are made."""
    out = outbox()
    (frame,) = out.frames(SERVER, PLACE, RollCall())
    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(lambda: list(out.frames(SERVER, PLACE, RollCall()))) for _ in range(200)]
        carried = [list(out.carriers(frame, MIN_FRAME)) for _ in range(200)]
        frames = [one for done in made for one in done.result()] + [one for some in carried for one in some]
    assert len({peek(one, "d").header.seq for one in frames}) == 400


def test_a_carried_frame_arrives_as_if_it_had_come_alone() -> None:
    out, box = outbox(frame_limit=MAX_FRAME), inbox()
    (frame,) = out.frames(SERVER, PLACE, LONG)
    *parts, last = take(box, out.carriers(frame, MIN_FRAME))
    assert parts == [FramePart(A)] * 4
    assert isinstance(last, Delivery)
    assert (last.message, last.place, last.signed) == (LONG, PLACE, frame)


@pytest.mark.parametrize("first", ["alone", "carried"])
def test_copies_are_known_however_they_come(first: str) -> None:
    out, box = outbox(frame_limit=MAX_FRAME), inbox()
    (frame,) = out.frames(SERVER, PLACE, LONG)
    ways = [[frame], list(out.carriers(frame, MIN_FRAME)), list(out.carriers(frame, 2 * MIN_FRAME))]
    if first == "carried":
        ways.reverse()
    last = [take(box, way)[-1] for way in ways]
    assert isinstance(last[0], Delivery)
    assert last[1:] == [None, None]
    # A carrier that comes twice is a copy, too.
    assert take(box, ways[1]) == [None] * len(ways[1])


def test_frames_of_one_message_may_come_alone_and_carried() -> None:
    """The limit shrank between them."""
    out, box = outbox(frame_limit=2 * MIN_FRAME), inbox()
    first, second = out.frames(SERVER, PLACE, LONG)
    assert take(box, [first]) == [FramePart(A)]
    last = take(box, out.carriers(second, MIN_FRAME))[-1]
    assert isinstance(last, Delivery)
    assert (last.message, last.signed) == (LONG, b"")


def test_a_refused_message_is_taken_again_in_new_carriers() -> None:
    out, box = outbox(frame_limit=MAX_FRAME), inbox()
    (frame,) = out.frames(SERVER, PLACE, LONG)
    assert isinstance(take(box, out.carriers(frame, MIN_FRAME))[-1], Delivery)
    box.refuse_last()
    assert isinstance(take(box, out.carriers(frame, MIN_FRAME))[-1], Delivery)


def test_frames_to_everybody_are_carried_to_everybody() -> None:
    out = outbox(SERVER, frame_limit=MAX_FRAME)
    out.lead(b"\0\0\0\1abcd")
    (frame,) = out.frames(EVERYONE, PLACE, LONG)
    carriers = list(out.carriers(frame, MIN_FRAME))
    for name in (A, B):
        assert isinstance(take(inbox(name), carriers)[-1], Delivery)


def test_many_rounds_in_carriers_lose_nothing_when_frames_come_again() -> None:
    """What a round sends again goes in new carriers, whose numbers are above those of its frames."""
    out, box = outbox(frame_limit=2 * MIN_FRAME), inbox()
    for number in range(60):
        place = Place(number)
        frames = [*out.frames(SERVER, place, LONG), *out.frames(SERVER, place, LONG)]
        first = [take(box, out.carriers(frame, MIN_FRAME))[-1] for frame in frames]
        assert [type(one) for one in first] == [FramePart, Delivery] * 2
        again = [take(box, out.carriers(frame, MIN_FRAME))[-1] for frame in frames * 3]
        assert again == [None] * 12


# What a hostile sender tries.


def test_a_carried_frame_of_another_sender_is_refused() -> None:
    (frame,) = outbox(B, frame_limit=MAX_FRAME).frames(SERVER, PLACE, LONG)
    box = inbox()
    error = refused(box, carriers_of(frame))
    assert (error.culprit, error.reason) == (A, "repeats a MaskedInput of 'b', which it may not")
    # And B's own copy counts.
    assert isinstance(box.take(frame, B, 0.0), Delivery)


def test_a_forged_frame_is_refused_within_carriers_too() -> None:
    (frame,) = outbox(frame_limit=MAX_FRAME).frames(SERVER, PLACE, LONG)
    error = refused(inbox(), carriers_of(frame[:-1] + b"?"))
    assert error.reason == "a message of 'a' has a wrong signature"


def test_carriers_carry_no_carriers() -> None:
    (frame,) = outbox(frame_limit=MAX_FRAME).frames(SERVER, PLACE, LONG)
    inner = carriers_of(frame, seq=8, room=len(frame))
    assert len(inner) == 1
    error = refused(inbox(), carriers_of(inner[0]))
    assert (error.culprit, error.reason) == (A, "repeats a Carrier of 'a', which it may not")


@pytest.mark.parametrize("garbage", [bytes(5), bytes(5000)])
def test_carriers_of_garbage_are_their_senders_fault(garbage: bytes) -> None:
    assert refused(inbox(), carriers_of(garbage)).culprit == A


def test_what_is_carried_is_no_longer_than_a_frame() -> None:
    """Although messages may be longer."""
    box = inbox(max_message=10 * MAX_FRAME)
    room = MAX_FRAME // 4
    whole = carriers_of(bytes(MAX_FRAME), room=room)
    assert take(box, whole[:-1]) == [FramePart(A)] * 3
    assert refused(box, whole[-1:]).reason.startswith("is malformed: "), "it came to be read as a frame"
    more = carriers_of(bytes(MAX_FRAME + 1), seq=8, room=room)
    assert refused(box, more).reason == f"Carrier exceeds {MAX_FRAME} bytes"
    most = MAX_FRAME // MIN_PIECE + 1
    assert take(box, [sealed(bytes(MIN_PIECE), kind=CARRIER, seq=9, parts=most)]) == [FramePart(A)]
    for parts in (most + 1, 65_536):
        error = refused(box, [sealed(bytes(MIN_PIECE), kind=CARRIER, seq=10, parts=parts)])
        assert error.reason == f"Carrier exceeds {MAX_FRAME} bytes"


def test_pieces_of_carriers_are_no_smaller_than_those_of_messages() -> None:
    error = refused(inbox(), [sealed(bytes(MIN_PIECE - 1), kind=CARRIER, parts=2)])
    assert error.reason == f"a part of Carrier has {MIN_PIECE - 1} bytes, all but the last need {MIN_PIECE}"


def test_two_frames_in_carriers_of_one_number_are_equivocation() -> None:
    box = inbox()
    take(box, carriers_of(bytes(10_000))[:1])
    assert "two different messages" in refused(box, carriers_of(b"\1" * 10_000)[:1]).reason


def test_unfinished_carriers_are_given_up_before_messages_are() -> None:
    """Each connection that breaks leaves one behind; its frame comes again in others."""
    out, box = outbox(frame_limit=2 * MIN_FRAME), inbox()
    first, second = out.frames(SERVER, PLACE, LONG)
    take(box, [first])
    for _ in range(3 * MAX_OPEN):
        take(box, list(out.carriers(second, MIN_FRAME))[:1])
    assert isinstance(take(box, out.carriers(second, MIN_FRAME))[-1], Delivery)


def test_a_flood_of_unfinished_carriers_takes_no_more_than_the_bound() -> None:
    box = inbox(max_message=MAX_FRAME)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for seq in range(10 * MAX_OPEN):
            take(box, carriers_of(bytes(MAX_FRAME), seq, room=MAX_FRAME // 2 - HEADER_ROOM)[:1])
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < (MAX_OPEN + 1) * (MAX_FRAME // 2) + 2**20
    # And they are nothing to another sender.
    (frame,) = outbox(B, frame_limit=MAX_FRAME).frames(SERVER, PLACE, LONG)
    assert isinstance(take(box, carriers_of(frame, by=B))[-1], Delivery)


# An observer, which is not their receiver.


def test_a_reader_puts_carried_frames_together() -> None:
    out, reader = outbox(frame_limit=MAX_FRAME), CarriedFrames()
    (frame,) = out.frames(SERVER, PLACE, LONG)
    found = [reader.put(peek(carrier, "d")) for carrier in reversed(list(out.carriers(frame, MIN_FRAME)))]
    assert found == [None] * 4 + [frame]
    assert reader.put(peek(frame, "d")) is None, "it is no carrier"


def test_a_reader_keeps_no_more_than_its_bound() -> None:
    reader = CarriedFrames()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for seq in range(200):
            reader.put(peek(carriers_of(bytes(MAX_FRAME), seq, room=MAX_FRAME // 2)[0], "d"))
            reader.put(peek(sealed(bytes(MIN_PIECE), kind=CARRIER, seq=seq, parts=60_000), "d"))
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 17 * MAX_FRAME
    (frame,) = outbox(B, frame_limit=MAX_FRAME).frames(SERVER, PLACE, LONG)
    assert [reader.put(peek(carrier, "d")) for carrier in carriers_of(frame, by=B)][-1] == frame
