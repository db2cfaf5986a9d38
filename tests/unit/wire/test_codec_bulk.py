"""Long vectors at the end of a message are not encoded again; second spellings are refused all the same."""

from __future__ import annotations

import msgspec
import pytest

from securefl.base.errors import PeerError
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import ModelAnnounce
from securefl.protocol.wire.codec import decode, encode

SIZES = [0, 1, 255, 256, 2**16 - 4, 2**16 - 1, 2**16, 2**16 + 4, 400_000]


@pytest.mark.parametrize("size", SIZES)
def test_vectors_of_all_lengths_survive(size: int) -> None:
    vector = bytes(index % 251 for index in range(size))
    for message in (MaskedInput(vector=vector), ModelAnnounce(params=vector)):
        raw = encode(message)
        assert raw == msgspec.msgpack.encode([type(message).__name__, vector])
        assert decode(raw, "p1") == message


def _bin(size: int, width: int) -> bytes:
    return {1: b"\xc4", 2: b"\xc5", 4: b"\xc6"}[width] + size.to_bytes(width, "big")


@pytest.mark.parametrize("size", SIZES)
def test_second_spellings_of_the_vector_are_refused(size: int) -> None:
    head, vector = b"\x92" + b"\xabMaskedInput", bytes(size)
    for width in (1, 2, 4):
        if size < 2 ** (8 * width):
            raw = head + _bin(size, width) + vector
            if raw == encode(MaskedInput(vector=vector)):
                decode(raw, "p1")
            else:
                with pytest.raises(PeerError, match="canonical"):
                    decode(raw, "p1")


@pytest.mark.parametrize(
    "head",
    [
        b"\xdc\x00\x02\xabMaskedInput",
        b"\xdd\x00\x00\x00\x02\xabMaskedInput",
        b"\x92\xd9\x0bMaskedInput",
        b"\x92\xda\x00\x0bMaskedInput",
    ],
)
@pytest.mark.parametrize("size", [4, 70_000])
def test_second_spellings_of_what_stands_before_the_vector_are_refused(head: bytes, size: int) -> None:
    with pytest.raises(PeerError):
        decode(head + _bin(size, 1 if size < 256 else 4) + bytes(size), "p1")


@pytest.mark.parametrize("size", [4, 70_000])
def test_bytes_beyond_the_vector_are_refused(size: int) -> None:
    raw = encode(MaskedInput(vector=bytes(size)))
    for altered in (raw + b"\x00", raw[:-1], raw[:1] + raw[2:]):
        with pytest.raises(PeerError):
            decode(altered, "p1")
