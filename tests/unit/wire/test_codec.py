from __future__ import annotations

from typing import Any

import msgspec
import pytest

from securefl.base.errors import PeerError
from securefl.protocol.messages.control import Goodbye, Join, RollCall
from securefl.protocol.messages.masking import BoxList, Complaint, MaskedInput, Retry, SharePair
from securefl.protocol.messages.rounds import Hello, Invite, Limits, RoundOfRun, StatingHello
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire.codec import decode, decode_struct, encode

D = bytes(range(32))
MESSAGES: list[AnyMessage] = [
    RollCall(),
    Join(config_digest=D),
    Goodbye(reason="done \N{SNOWMAN}", aborted=False),
    MaskedInput(vector=bytes(70_000)),
    BoxList(boxes=((0, bytes(28)), (1023, bytes(4096)))),
    Retry(members=("a", "b-1", "c_2")),
    Hello(
        samples=2**31,
        model_digest=D,
        config_digest=D,
        commitment=D,
        limits=Limits(min_survivors=1, k_anonymity=1024, leakage="veto", colluders=0, leverage=1_000_000),
    ),
    StatingHello(
        samples=1,
        model_digest=D,
        config_digest=D,
        commitment=D,
        limits=Limits(min_survivors=1, k_anonymity=2, leakage="report", colluders=0, leverage=1),
        unreleased=(RoundOfRun(run="a-run", round=0), RoundOfRun(run="r", round=2**31 - 1)),
    ),
    Invite(model_digest=D, config_digest=D),
]


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def refusal(raw: bytes) -> PeerError:
    with pytest.raises(PeerError) as caught:
        decode(raw, "peer")
    assert caught.value.culprit == "peer"
    return caught.value


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_round_trip(message: AnyMessage) -> None:
    assert decode(encode(message), "peer") == message


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xc1", id="reserved byte"),
        pytest.param(pack(None), id="nil"),
        pytest.param(pack("RollCall"), id="bare tag"),
        pytest.param(pack(["Rollcall"]), id="unknown tag"),
        pytest.param(pack(["SharePair", bytes(33), bytes(33), []]), id="a struct, not a message"),
        pytest.param(pack({"type": "RollCall"}), id="map"),
        pytest.param(pack(["RollCall", 1]), id="one field more"),
        pytest.param(pack(["Join"]), id="one field less"),
        pytest.param(pack(["Join", bytes(31)]), id="short digest"),
        pytest.param(pack(["Join", bytes(33)]), id="long digest"),
        pytest.param(pack(["Join", "x" * 32]), id="text for bytes"),
        pytest.param(pack(["Complaint", b"a"]), id="bytes for text"),
        pytest.param(pack(["Complaint", "A"]), id="no name"),
        pytest.param(pack(["Complaint", "a\n"]), id="name with line break"),
        pytest.param(pack(["Complaint", "server"]), id="reserved name"),
        pytest.param(pack(["Complaint", "all"]), id="other reserved name"),
        pytest.param(pack(["Retry", []]), id="too few items"),
        pytest.param(pack(["Retry", ["a"] * 1025]), id="too many items"),
        pytest.param(pack(["BoxList", [[0, bytes(27)]]]), id="short box"),
        pytest.param(pack(["BoxList", [[0, bytes(28), 0]]]), id="triple for pair"),
        pytest.param(pack(["BoxList", [[0.0, bytes(28)]]]), id="float for int"),
        pytest.param(pack(["BoxList", [[True, bytes(28)]]]), id="bool for int"),
        pytest.param(pack(["Goodbye", "x" * 1001, False]), id="long text"),
        pytest.param(pack(["Goodbye", "x", 0]), id="int for bool"),
        pytest.param(b"\x93\xa7Goodbye\xa2\xff\xfe\xc2", id="not UTF-8"),
        pytest.param(pack(["RollCall"]) + b"\x00", id="trailing byte"),
        pytest.param(b"\x91" * 100_000, id="deep nesting"),
        pytest.param(b"\x92\xa7BoxList\xdd\xff\xff\xff\xff", id="claims 2^32 items"),
        pytest.param(b"\x92\xa4Join\xc6\xff\xff\xff\xff", id="claims 2^32 bytes"),
    ],
)
def test_malformed(raw: bytes) -> None:
    assert "malformed" in refusal(raw).reason


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pack(["Invite", D, D]), id="default left out"),
        pytest.param(b"\xdc\x00\x01\xa8RollCall", id="long array"),
        pytest.param(b"\x91\xd9\x08RollCall", id="long tag"),
        pytest.param(b"\x92\xa4Join\xc5\x00\x20" + D, id="long bytes"),
        pytest.param(b"\x92\xa7BoxList\x91\x92\xcc\x01\xc4\x1c" + bytes(28), id="long int"),
    ],
)
def test_second_spellings(raw: bytes) -> None:
    assert "canonical" in refusal(raw).reason


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1])
def test_second_spellings_around_a_vector(size: int) -> None:
    """Vectors are not encoded again to be compared; all that stands round them still is."""
    raw = encode(MaskedInput(vector=b"\x01" * size))
    assert decode(raw, "peer") == MaskedInput(vector=b"\x01" * size)
    assert "canonical" in refusal(b"\xdc\x00\x02" + raw[1:]).reason
    assert "canonical" in refusal(raw.replace(b"\xabMaskedInput", b"\xd9\x0bMaskedInput", 1)).reason
    for other in (raw + b"\x00", raw[:-1]):
        assert "malformed" in refusal(other).reason


def test_reasons_are_short_and_printable() -> None:
    for tag in ("\x1b[2J\n\x00" * 50_000, "\N{SNOWMAN}" * 1_000):
        reason = refusal(pack([tag])).reason
        assert len(reason) < 250
        assert reason.isascii()
        assert reason.isprintable()


def test_structs_inside_boxes() -> None:
    pair = SharePair(seed_share=bytes(33), key_share=bytes(33), path=(D,))
    assert decode_struct(SharePair, encode(pair), "peer") == pair
    fields: list[Any] = ["SharePair", bytes(33), bytes(33), [D]]
    for other in (fields[:-1], ["Join", *fields[1:]], [*fields, 1], ["SharePair", bytes(33), bytes(34), [D]]):
        with pytest.raises(PeerError, match="peer: malformed SharePair"):
            decode_struct(SharePair, pack(other), "peer")
    with pytest.raises(PeerError, match="canonical"):
        decode_struct(SharePair, b"\xdc\x00\x04" + pack(fields)[1:], "peer")


def test_repr_shows_no_contents() -> None:
    for message in MESSAGES:
        assert repr(D) not in repr(message)
    assert repr(Complaint(accused="a")) == "Complaint(accused='a')"
    assert repr(MaskedInput(vector=b"secret")) == "MaskedInput(vector=6 bytes)"
    assert repr(BoxList(boxes=((0, b"secret" * 5),))) == "BoxList(boxes=1 items)"
