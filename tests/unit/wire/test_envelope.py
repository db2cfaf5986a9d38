from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.messages.base import MAX_FRAME
from securefl.protocol.messages.union import KINDS
from securefl.protocol.wire.envelope import (
    DOMAIN,
    HEADER_ROOM,
    MAX_PARTS,
    SIGNATURE,
    Header,
    open_frame,
    peek,
    seal_frame,
)
from tests.looped import looped

from .ends import BODY, HEADER, IDENTITIES, PLACE, RUN, A, B, sealed

OTHER_VALUES: dict[str, Any] = {
    "run": "run2",
    "round": 2,
    "reclustering": -1,
    "cluster": 4,
    "attempt": 5,
    "kind": "Release",
    "sender": "b",
    "recipient": "b",
    "session": b"session2",
    "seq": 1,
    "part": 1,
    "parts": 2,
}


def opened(frame: bytes, me: PartyId = SERVER) -> Header:
    payload = peek(frame, "deliverer")
    open_frame(frame, payload, IDENTITIES[A].public, RUN, me)
    return payload.header


def with_head(encoded: bytes, body: bytes = BODY) -> bytes:
    """A frame correctly signed by a, over a header in whatever encoding."""
    rest = len(encoded).to_bytes(1, "big") + encoded + body
    return IDENTITIES[A].sign(DOMAIN + hashlib.sha256(rest).digest()) + rest


def refusal(frame: bytes, me: PartyId = SERVER) -> PeerError:
    with pytest.raises(PeerError) as caught:
        opened(frame, me)
    return caught.value


def test_round_trip() -> None:
    frame = sealed()
    payload = peek(frame, "deliverer")
    assert (payload.header, bytes(payload.body)) == (HEADER, BODY)
    assert payload.header.place == PLACE
    assert opened(frame) == HEADER


def test_the_longest_header_fits_its_room() -> None:
    longest = Header(
        run="r" * 32,
        round=2**31 - 1,
        reclustering=2**31 - 1,
        cluster=2**31 - 1,
        attempt=64,
        kind=max(KINDS, key=len),
        sender="s" * 32,
        recipient="t" * 32,
        session=bytes(8),
        seq=2**62,
        part=MAX_PARTS - 1,
        parts=MAX_PARTS,
    )
    frame = seal_frame(longest, b"", IDENTITIES[A])
    assert len(frame) <= HEADER_ROOM
    assert peek(frame, "deliverer").header == longest


@looped("field", Header.__struct_fields__)
def test_every_header_field_is_signed(field: str) -> None:
    honest = msgspec.structs.replace(HEADER, parts=3)
    changed = msgspec.structs.replace(honest, **{field: OTHER_VALUES[field]})
    assert changed != honest
    forged = sealed(parts=3)[:SIGNATURE] + seal_frame(changed, BODY, IDENTITIES[A])[SIGNATURE:]
    error = refusal(forged)
    assert error.culprit == "broker"
    assert "has a wrong signature" in error.reason


def test_every_byte_is_signed() -> None:
    frame = sealed()
    for at in range(len(frame)):
        with pytest.raises(PeerError):
            opened(frame[:at] + bytes([frame[at] ^ 0x10]) + frame[at + 1 :])


def test_no_byte_can_be_added_or_taken() -> None:
    frame = sealed()
    for at in range(len(frame)):
        with pytest.raises(PeerError):
            opened(frame[:at])
    assert "has a wrong signature" in refusal(frame + b"\x00").reason


def test_signature_of_another_party() -> None:
    assert "has a wrong signature" in refusal(sealed(by=B)).reason
    frame = sealed(by=B)
    with pytest.raises(PeerError, match="signed by 'b'"):
        open_frame(frame, peek(frame, "deliverer"), IDENTITIES[B].public, RUN, SERVER)


def test_signature_for_another_purpose() -> None:
    rest = sealed()[SIGNATURE:]
    bare = IDENTITIES[A].sign(hashlib.sha256(rest).digest()) + rest
    assert "has a wrong signature" in refusal(bare).reason


def test_other_run_and_other_recipient_blame_the_signer() -> None:
    assert refusal(sealed(run="other")).culprit == A
    assert refusal(sealed(recipient=B)).culprit == A
    assert refusal(sealed(recipient=SERVER), me=B).culprit == A


def test_frames_to_everyone_reach_parties_not_the_server() -> None:
    assert opened(sealed(recipient=EVERYONE), me=B).recipient == EVERYONE
    assert refusal(sealed(recipient=EVERYONE), me=SERVER).culprit == A


@looped(
    "changes",
    [
        {"round": -2},
        {"round": 2**31},
        {"cluster": -2},
        {"attempt": -1},
        {"attempt": 65},
        {"session": b"short"},
        {"session": b"too long!"},
        {"seq": -1},
        {"seq": 2**62 + 1},
        {"part": -1},
        {"parts": 0},
        {"part": 1, "parts": 1},
        {"part": 7, "parts": 7},
        {"parts": MAX_PARTS + 1},
        {"kind": "Nothing"},
        {"kind": "maskedinput"},
        {"kind": "SharePair"},
        {"kind": "\x1b[31m"},
        {"sender": "A"},
        {"sender": ""},
        {"sender": "a\n"},
        {"sender": "*"},
        {"sender": "a" * 33},
        {"recipient": "#"},
        {"recipient": "a/b"},
        {"recipient": "*\n"},
        {"run": "run\n"},
        {"run": ""},
    ],
)
def test_bad_headers(changes: dict[str, Any]) -> None:
    error = refusal(sealed(**changes))
    assert error.culprit == "deliverer"
    assert str(error).isprintable()


def test_other_spellings_of_a_header() -> None:
    good = msgspec.msgpack.encode(HEADER)
    assert opened(with_head(good)) == HEADER
    long_array = b"\xdc\x00\x0c" + good[1:]
    long_int = good.replace(b"\x01\x02\x03\x04", b"\xcc\x01\x02\x03\x04")
    long_text = good.replace(b"\xa3run", b"\xd9\x03run")
    text_session = good.replace(b"\xc4\x08session1", b"\xa8session1")
    for other in (long_array, long_int, long_text, text_session):
        assert other != good
        assert refusal(with_head(other)).culprit == "deliverer"


def test_header_of_another_length() -> None:
    good = msgspec.msgpack.encode(HEADER)
    fields = msgspec.msgpack.decode(good)
    for other in (
        b"",
        good[:-1],
        good + b"\x00",
        *map(msgspec.msgpack.encode, (fields[:-1], [*fields, 0], {})),
    ):
        assert refusal(with_head(other)).culprit == "deliverer"


@pytest.mark.parametrize("size", [0, 1, SIGNATURE, MAX_FRAME + 1])
def test_frames_of_impossible_length(size: int) -> None:
    error = refusal(bytes(size))
    assert error.culprit == "deliverer"
    assert str(size) in error.reason


def test_the_largest_frame() -> None:
    room = MAX_FRAME - len(sealed(b""))
    assert len(sealed(bytes(room))) == MAX_FRAME
    assert opened(sealed(bytes(room))) == HEADER
    assert refusal(sealed(bytes(room + 1))).culprit == "deliverer"


def test_run_is_compared_as_a_whole() -> None:
    frame = sealed()
    with pytest.raises(PeerError, match=", not 'ru'"):
        open_frame(frame, peek(frame, "deliverer"), IDENTITIES[A].public, RunId("ru"), SERVER)
