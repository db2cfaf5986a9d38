"""Any bytes, from anybody: a frame is accepted or refused as somebody's fault, and memory stays bounded."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, SERVER
from securefl.protocol.messages.base import MAX_FRAME
from securefl.protocol.messages.masking import BoxList, KeyAdvert
from securefl.protocol.messages.rounds import Hello, Limits
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire.codec import encode
from securefl.protocol.wire.envelope import CARRIER, DOMAIN, MAX_PARTS, MIN_PIECE, SIGNATURE, peek
from securefl.protocol.wire.inbox import MAX_OPEN, Delivery, Inbox
from tests.tiers import examples
from tests.unit.wire.ends import IDENTITIES, RUN, A, B, inbox, sealed

from .strategies import Pool

FUZZ = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
HELLO = Hello(
    samples=600,
    model_digest=bytes(32),
    config_digest=bytes(32),
    commitment=bytes(32),
    limits=Limits(min_survivors=3, k_anonymity=2, leakage="veto", colluders=0, leverage=1_000_000),
)
KEYS = KeyAdvert(mask_key=bytes(32), box_key=bytes(32), seed_digest=bytes(32), shares_root=bytes(32))
REAL: list[AnyMessage] = [HELLO, KEYS, BoxList(boxes=((1, bytes(40)), (300, bytes(28))))]
LIES = [b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"]
"""A byte that MessagePack never uses; arrays, bytes and text that claim 4 GiB."""
POOL = Pool(["a", "b"], [sealed()], [])


def accept(box: Inbox, frame: bytes, now: float = 0.0) -> Delivery | PeerError | None:
    refusal: PeerError
    try:
        return box.accept(frame, "deliverer", now)
    except PeerError as error:
        refusal = error
    assert refusal.culprit in {"deliverer", "broker", A, B}
    assert len(refusal.reason) < 400
    assert str(refusal).isprintable()
    return refusal


def signed(rest: bytes) -> bytes:
    """Whatever bytes, with a correct signature of a."""
    return IDENTITIES[A].sign(DOMAIN + hashlib.sha256(rest).digest()) + rest


@st.composite
def mutated(draw: st.DrawFn, raw: bytes) -> bytes:
    """A few bytes changed, put in, taken out or repeated."""
    for _ in range(draw(st.integers(1, 3))):
        at, length = draw(st.integers(0, len(raw))), draw(st.integers(0, 4))
        put = draw(st.one_of(st.binary(max_size=4), st.sampled_from(LIES)))
        raw = raw[:at] + put + raw[at + length :]
    return raw


@given(st.binary(max_size=400))
@FUZZ
def test_arbitrary_bytes(raw: bytes) -> None:
    assert isinstance(accept(inbox(), raw), PeerError)


@given(st.binary(max_size=400))
@FUZZ
def test_arbitrary_bytes_correctly_signed(raw: bytes) -> None:
    assert isinstance(accept(inbox(), signed(raw)), PeerError)


@given(mutated(sealed(encode(HELLO), kind="Hello")))
@FUZZ
def test_mutated_frames(raw: bytes) -> None:
    result = accept(inbox(), raw)
    assert isinstance(result, PeerError) or raw == sealed(encode(HELLO), kind="Hello")


@given(mutated(sealed(encode(HELLO), kind="Hello")[SIGNATURE:]))
@FUZZ
def test_mutated_frames_correctly_signed(rest: bytes) -> None:
    frame = signed(rest)
    result = accept(inbox(), frame)
    if isinstance(result, Delivery):
        payload = peek(frame, "deliverer")
        assert encode(result.message) == payload.body
        assert msgspec.msgpack.encode(payload.header) == frame[SIGNATURE + 1 : -len(payload.body)]


@given(mutated(sealed(encode(HELLO), kind="Hello")))
@FUZZ
def test_mutated_frames_in_a_carrier(raw: bytes) -> None:
    result = accept(inbox(), sealed(raw, kind=CARRIER))
    assert isinstance(result, PeerError) or raw == sealed(encode(HELLO), kind="Hello")


@given(st.sampled_from(REAL).flatmap(lambda m: st.tuples(st.just(m), mutated(encode(m)))))
@FUZZ
def test_mutated_bodies_of_a_lying_sender(case: tuple[AnyMessage, bytes]) -> None:
    message, body = case
    result = accept(inbox(), sealed(body, kind=type(message).__name__))
    if isinstance(result, PeerError):
        assert result.culprit == A
    else:
        assert result is not None
        assert encode(result.message) == body


@given(POOL.messages())
@FUZZ
def test_every_message_that_can_be_made_gets_through(message: AnyMessage) -> None:
    result = accept(inbox(), sealed(encode(message), kind=type(message).__name__))
    assert isinstance(result, Delivery)
    assert result.message == message


SMALL = 4 * MIN_PIECE


@st.composite
def parts(draw: st.DrawFn) -> bytes:
    """A piece of a message in a header of the sender's choice, mostly on few numbers."""
    count = draw(st.sampled_from([1, 2, 3, 5, 6, MAX_PARTS]))
    size = draw(st.sampled_from([0, 1, MIN_PIECE - 1, MIN_PIECE, MIN_PIECE + 1, SMALL]))
    changes: dict[str, Any] = {
        "round": draw(st.sampled_from([-1, 0, 1, 1, 2, 3, 2**31 - 1])),
        "seq": draw(st.sampled_from([0, 1, 2, 3, 2**62])),
        "parts": count,
        "part": draw(st.sampled_from([0, 1, 2, 4, count - 1])),
        "kind": draw(st.sampled_from(["MaskedInput", "Release", CARRIER])),
        "session": draw(st.sampled_from([b"session1", b"session1", b"session1", b"session2"])),
        "recipient": draw(st.sampled_from([SERVER, SERVER, SERVER, EVERYONE])),
    }
    return sealed(bytes(size), **changes)


@given(st.lists(st.tuples(parts(), st.sampled_from([0.0, 1.0, 1000.0])), max_size=40))
@example([(sealed(bytes(MIN_PIECE), part=4, parts=5), 0.0), (sealed(bytes(MIN_PIECE), part=0, parts=2), 0.0)])
@settings(FUZZ, max_examples=examples(50))
def test_abuse_of_parts(frames: list[tuple[bytes, float]]) -> None:
    box, now = Inbox(RUN, SERVER, inbox()._roster, SMALL), 0.0
    for frame, later in frames:
        now += later
        assert not isinstance(accept(box, frame, now), Delivery)
    for sender in box._senders.values():
        session = sender.session
        assert 0 <= session.done <= session.past <= len(session.seen)
        assert len(session.open) <= MAX_OPEN
        for one in sender.session.open.values():
            held = sum(map(len, one.pieces.values()))
            assert held <= (MAX_FRAME if one.header.kind == CARRIER else SMALL)


@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=6))
@settings(FUZZ, max_examples=examples(50))
def test_three_messages_in_pieces_in_any_order(order: list[int], again: list[int]) -> None:
    body = encode(BoxList(boxes=tuple((i, bytes(1000)) for i in range(14))))
    pieces = [body[at : at + MIN_PIECE] for at in range(0, len(body), MIN_PIECE)]
    assert len(pieces) == 4
    numbered = [(seq, part) for seq in range(3) for part in range(4)]
    frames = [sealed(pieces[part], kind="BoxList", seq=seq, part=part, parts=4) for seq, part in numbered]
    box = inbox()
    results = [accept(box, frames[i]) for i in (*order, *again)]
    assert [r.message.__class__ for r in results if r is not None] == [BoxList] * 3  # type: ignore[union-attr]
