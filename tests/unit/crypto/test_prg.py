from __future__ import annotations

import math
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from Crypto.Cipher import AES
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import Ring
from securefl.base.crypto import prg
from securefl.base.crypto.prg import CHUNK_BYTES, Sign, add_masks, expand
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from tests.looped import looped
from tests.tiers import examples

KEY = st.binary(min_size=32, max_size=32)
RingType = type[np.uint32] | type[np.uint64]
DTYPES: tuple[RingType, ...] = (np.uint32, np.uint64)
CHUNK_WORDS = CHUNK_BYTES // 4
SIZES = (
    0,
    1,
    3,
    4,
    5,
    CHUNK_WORDS // 2 + 1,
    CHUNK_WORDS - 1,
    CHUNK_WORDS,
    CHUNK_WORDS + 1,
    3 * CHUNK_WORDS + 7,
)


def second_keystream(key: bytes, size: int) -> bytes:
    return AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(size))


def some_key(name: str | int) -> bytes:
    return InsecureSeededEntropy(20).child(name).draw(32)


def ramp(words: int, dtype: RingType) -> Ring:
    values = np.arange(words, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return values.astype(np.uint32) if dtype == np.uint32 else values


@looped("words, dtype", product(SIZES, DTYPES))
def test_a_mask_is_the_little_endian_keystream(words: int, dtype: RingType) -> None:
    little = np.dtype(dtype).newbyteorder("<")
    expected = np.frombuffer(second_keystream(some_key(0), words * little.itemsize), dtype=little)
    mask = expand(some_key(0), words, dtype)
    assert mask.dtype == dtype
    assert mask.shape == (words,)
    assert np.array_equal(mask, expected)


@looped("sign, words, dtype", product([1, -1], SIZES, DTYPES))
def test_a_mask_is_added_modulo_the_ring(words: int, dtype: RingType, sign: Literal[1, -1]) -> None:
    target, mask = ramp(words, dtype), expand(some_key(1), words, dtype)
    expected = target + mask if sign == 1 else target - mask
    add_masks(target, [(some_key(1), sign)])
    assert np.array_equal(target, expected)
    add_masks(target, [(some_key(1), -1 if sign == 1 else 1)])
    assert np.array_equal(target, ramp(words, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_masks_equal_one_after_the_other(dtype: RingType) -> None:
    terms: list[tuple[bytes, Sign]] = [(some_key(n), -1 if n % 3 else 1) for n in range(9)]
    together, apart = ramp(CHUNK_WORDS + 5, dtype), ramp(CHUNK_WORDS + 5, dtype)
    add_masks(together, iter(terms))
    for key, sign in terms:
        add_masks(apart, [(key, sign)])
    assert np.array_equal(together, apart)


def test_pairwise_masks_of_a_cluster_cancel() -> None:
    size, words = 5, 1000
    vectors = [ramp(words, np.uint32) * np.uint32(n) for n in range(size)]
    expected = np.sum(vectors, axis=0, dtype=np.uint32)
    for own in range(size):
        add_masks(
            vectors[own],
            [
                (some_key(f"{min(own, mate)}-{max(own, mate)}"), 1 if own < mate else -1)
                for mate in range(size)
                if mate != own
            ],
        )
    assert np.array_equal(np.sum(vectors, axis=0, dtype=np.uint32), expected)


def test_no_mask_leaves_the_vector() -> None:
    target = ramp(10, np.uint32)
    add_masks(target, [])
    assert np.array_equal(target, ramp(10, np.uint32))


@given(KEY, st.integers(0, 255))
@settings(max_examples=examples(200))
def test_any_flipped_key_bit_gives_an_unrelated_mask(key: bytes, bit: int) -> None:
    flipped = (int.from_bytes(key, "big") ^ 1 << bit).to_bytes(32, "big")
    difference = expand(key, 64, np.uint64) - expand(flipped, 64, np.uint64)
    # Chance of a single zero word: 2^-64.
    assert np.count_nonzero(difference) == 64
    assert np.unique(difference).size == 64


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_16_bit_value_occurs_at_every_place(dtype: RingType) -> None:
    # 2^21 draws of 2^16 values: 32 of each expected; a place misses one by chance with probability < 1e-9.
    mask = expand(some_key("cover"), 2**21, dtype).view(np.uint16).reshape(2**21, -1)
    for place in range(mask.shape[1]):
        counts = np.bincount(mask[:, place], minlength=2**16)
        assert counts.min() > 0, f"{np.argmin(counts):#06x} never occurs"


@looped("shift, seed", product([0, 5, 24], range(4)))
def test_words_are_uniform(seed: int, shift: int) -> None:
    # Chi-square over 256 equal cells; Wilson and Hilferty's cube root is standard normal. |z| > 5 has
    # probability 6e-7 for uniform words, 7e-6 over the 12 fixed cases.
    words = expand(some_key(f"uniform {seed}"), 2**20, np.uint32)
    counts = np.bincount((words >> np.uint32(shift)) & np.uint32(255), minlength=256)
    statistic = float(np.sum((counts - 2**12) ** 2) / 2**12)
    freedom = 255
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    assert abs(z) < 5


def test_differences_of_coordinates_and_of_keys_are_uniform() -> None:
    # One scalar mask for all coordinates, or one mask for two rounds, would give constant differences.
    one, other = expand(some_key("round 1"), 2**16, np.uint32), expand(some_key("round 2"), 2**16, np.uint32)
    for difference in (np.diff(one), one - other):
        ones = float(np.mean([int(word).bit_count() for word in difference[:4096]]))
        # 4096 * 32 fair bits: the mean count per word is 16 with deviation 0.044.
        assert abs(ones - 16) < 0.25


def read_only() -> npt.NDArray[np.uint32]:
    array = np.zeros(4, dtype=np.uint32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "target",
    [
        np.zeros(4, dtype=np.int32),
        np.zeros(4, dtype=np.uint16),
        np.zeros(4, dtype=np.float64),
        np.zeros(4, dtype=">u4"),
        np.zeros((2, 2), dtype=np.uint32),
        np.zeros(8, dtype=np.uint32)[::2],
        read_only(),
    ],
    ids=["int32", "uint16", "float64", "big-endian", "matrix", "strided", "read-only"],
)
def test_other_targets_are_our_own_mistake(target: Any) -> None:
    with pytest.raises(UsageError):
        add_masks(target, [(bytes(32), 1)])
    assert not target.any()


def test_other_terms_are_our_own_mistake_and_change_nothing() -> None:
    wrong: list[Any] = [(bytes(31), 1), (bytes(33), 1), (b"", 1), (bytes(32), 0), (bytes(32), 2)]
    for term in wrong:
        target = ramp(10, np.uint32)
        with pytest.raises(UsageError):
            add_masks(target, [(some_key(0), 1), term])
        assert np.array_equal(target, ramp(10, np.uint32))


def test_a_key_that_occurs_twice_is_our_own_mistake() -> None:
    for second in (1, -1):
        with pytest.raises(UsageError):
            add_masks(np.zeros(4, dtype=np.uint32), [(bytes(32), 1), (bytes(32), second)])


def test_expand_refuses_other_dtypes_and_negative_lengths() -> None:
    other: Any = np.int64
    with pytest.raises(UsageError):
        expand(bytes(32), 4, other)
    with pytest.raises(UsageError):
        expand(bytes(32), -1, np.uint32)


def test_the_keystream_buffer_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers: list[bytearray] = []

    def remember(size: int) -> bytearray:
        buffers.append(bytearray(size))
        return buffers[-1]

    monkeypatch.setattr(prg, "bytearray", remember, raising=False)
    for words in (1, 10, CHUNK_WORDS + 3):
        add_masks(np.zeros(words, dtype=np.uint32), [(some_key(0), 1)])
    assert len(buffers) == 3
    assert not any(any(buffer) for buffer in buffers)
