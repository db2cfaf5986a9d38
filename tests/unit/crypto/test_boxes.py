from __future__ import annotations

import pytest
from Crypto.Cipher import AES
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.crypto.boxes import NONCE_BYTES, OVERHEAD, TAG_BYTES, BoxError, open_box, seal_box
from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.errors import UsageError
from tests.looped import looped

KEY = bytes(range(32))
BOX = seal_box(KEY, b"share", b"place", InsecureSeededEntropy(7))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=200), st.binary(max_size=40))
def test_round_trip_and_a_second_implementation(key: bytes, plaintext: bytes, associated: bytes) -> None:
    box = seal_box(key, plaintext, associated, OsEntropy())
    assert len(box) == len(plaintext) + OVERHEAD
    assert open_box(key, box, associated) == plaintext
    second = AES.new(key, AES.MODE_GCM, nonce=box[:NONCE_BYTES])
    second.update(associated)
    assert second.decrypt_and_verify(box[NONCE_BYTES:-TAG_BYTES], box[-TAG_BYTES:]) == plaintext


@looped("bit", range(8 * len(BOX)))
def test_every_flipped_bit_is_refused(bit: int) -> None:
    flipped = (int.from_bytes(BOX, "big") ^ 1 << bit).to_bytes(len(BOX), "big")
    with pytest.raises(BoxError):
        open_box(KEY, flipped, b"place")


@looped("size", range(len(BOX)))
def test_every_cut_is_refused(size: int) -> None:
    with pytest.raises(BoxError):
        open_box(KEY, BOX[:size], b"place")


def test_other_key_context_or_length_is_refused() -> None:
    assert open_box(KEY, BOX, b"place") == b"share"
    for key, box, associated in (
        (bytes(32), BOX, b"place"),
        (KEY, BOX, b"plac"),
        (KEY, BOX + b"\0", b"place"),
    ):
        with pytest.raises(BoxError):
            open_box(key, box, associated)


@given(st.binary(max_size=100))
def test_garbage_is_refused_in_one_way_only(garbage: bytes) -> None:
    with pytest.raises(BoxError, match=r"^cannot decrypt: another key, another context, or altered bytes$"):
        open_box(KEY, garbage, b"place")


def test_equal_plaintexts_give_unrelated_boxes() -> None:
    assert len({seal_box(KEY, b"share", b"", OsEntropy())[:NONCE_BYTES] for _ in range(100)}) == 100


@pytest.mark.parametrize("size", [0, 16, 24, 31, 33])
def test_short_keys_are_our_own_mistake(size: int) -> None:
    with pytest.raises(UsageError):
        seal_box(bytes(size), b"", b"", OsEntropy())
    with pytest.raises(UsageError):
        open_box(bytes(size), BOX, b"place")
