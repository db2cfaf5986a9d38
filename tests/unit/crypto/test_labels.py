from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.crypto.labels import digest, digest_with, encode
from securefl.base.errors import UsageError
from tests.looped import looped

FIELDS = st.lists(st.one_of(st.binary(max_size=9), st.text(max_size=6), st.integers()), max_size=4)


def decode(raw: bytes) -> list[bytes | str | int]:
    """An independent reading of the documented layout; its existence shows that the encoding is injective."""
    count, rest = int.from_bytes(raw[:4], "big"), raw[4:]
    fields: list[bytes | str | int] = []
    for _ in range(count):
        tag, size = rest[:1], int.from_bytes(rest[1:9], "big")
        body, rest = rest[9 : 9 + size], rest[9 + size :]
        assert len(body) == size
        if tag == b"b":
            fields.append(body)
        elif tag == b"s":
            fields.append(body.decode())
        else:
            assert tag == b"i"
            fields.append(int.from_bytes(body, "big", signed=True))
    assert rest == b""
    return fields


@given(FIELDS)
def test_encoding_can_be_read_back(fields: list[bytes | str | int]) -> None:
    back = decode(encode(*fields))
    assert back == fields
    assert [type(field) for field in back] == [type(field) for field in fields]


@looped("number", [0, 1, 127, 128, 255, 256, 1022, 1023, 1024, 1025, -1, -128, -129, 2**64])
def test_integers_are_alike_whether_or_not_they_are_in_the_table(number: int) -> None:
    size = next(size for size in range(1, 10) if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1)
    assert encode(number)[4:] == b"i" + size.to_bytes(8, "big") + number.to_bytes(size, "big", signed=True)


@given(FIELDS, FIELDS)
def test_no_encoding_is_a_proper_prefix_of_another(
    one: list[bytes | str | int], other: list[bytes | str | int]
) -> None:
    assert one == other or not encode(*other).startswith(encode(*one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("a",), (b"a",)),
        ((1,), ("1",)),
        ((1,), (b"\x01",)),
        ((), ("",)),
        (("a", ""), ("a",)),
        ((255,), (-1,)),
        ((0,), (b"",)),
    ],
)
def test_likely_collisions_differ(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert encode(*one) != encode(*other)


def test_layout_is_fixed() -> None:
    expected = "000000037300000000000000026162620000000000000000690000000000000002ff7f"
    assert encode("ab", b"", -129).hex() == expected


def test_digest_is_sha256_of_the_labelled_encoding() -> None:
    assert digest("model", b"x", 3) == hashlib.sha256(encode("securefl/1", "model", b"x", 3)).digest()
    assert digest("model", b"x") != digest("config", b"x")


@pytest.mark.parametrize("field", [True, False, None, 1.5, bytearray(b"x"), ("a",), "\ud800"])
def test_other_fields_are_our_own_mistake(field: Any) -> None:
    with pytest.raises(UsageError):
        encode(field)


@given(st.text(max_size=4), FIELDS, FIELDS)
def test_a_digest_in_two_steps_is_the_digest_in_one(
    label: str, fixed: list[bytes | str | int], rest: list[bytes | str | int]
) -> None:
    finish = digest_with(label, *fixed, more=len(rest))
    assert finish(*rest) == finish(*rest) == digest(label, *fixed, *rest)


def test_a_digest_in_two_steps_takes_the_announced_number_of_fields() -> None:
    finish = digest_with("label", more=2)
    for fields in ((), (1,), (1, 2, 3)):
        with pytest.raises(UsageError):
            finish(*fields)
    with pytest.raises(UsageError):
        finish(1, bool(1))
