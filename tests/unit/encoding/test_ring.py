from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import PeerError, UsageError
from securefl.methods.encoding.ring import add_wire, from_ring, from_wire, ring_dtype, to_ring, to_wire

BITS = pytest.mark.parametrize("bits", [32, 64])
I64_VALUES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


def i64(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_dtypes() -> None:
    assert ring_dtype(32) is np.uint32
    assert ring_dtype(64) is np.uint64


@pytest.mark.parametrize("bits", [0, 8, 16, 31, 33, 128, -32])
def test_refuses_other_rings(bits: int) -> None:
    with pytest.raises(UsageError, match="32 or 64"):
        ring_dtype(bits)


@BITS
@settings(deadline=None)
@given(values=I64_VALUES)
def test_to_ring_reduces_and_from_ring_lifts_to_the_centre(bits: int, values: list[int]) -> None:
    ring = to_ring(i64(*values), bits)
    assert ring.tolist() == [v % 2**bits for v in values]
    half = 2 ** (bits - 1)
    assert from_ring(ring).tolist() == [(v + half) % 2**bits - half for v in values]


@BITS
def test_ends_of_the_centred_lift(bits: int) -> None:
    half = 2 ** (bits - 1)
    values = i64(-half, -1, 0, 1, half - 1)
    np.testing.assert_array_equal(from_ring(to_ring(values, bits)), values)


@BITS
def test_conversions_share_no_memory_with_their_input(bits: int) -> None:
    values = i64(1, 2)
    ring = to_ring(values, bits)
    lifted = from_ring(ring)
    values[:] = 9
    assert ring.tolist() == [1, 2]
    ring[:] = 9
    assert lifted.tolist() == [1, 2]


@BITS
@pytest.mark.parametrize("members", [1, 2, 3, 7, 60, 1000])
@pytest.mark.parametrize("sign", [1, -1])
def test_sum_of_extremes_is_right_at_the_bound_and_wraps_one_past_it(
    bits: int, members: int, sign: int
) -> None:
    bound = (2 ** (bits - 1) - 1) // members
    for steps, fits in ((bound, True), (bound + 1, False)):
        exact = sign * members * steps
        total = to_ring(i64(0), bits)
        if steps < 2**63:
            for _ in range(members):
                total += to_ring(i64(sign * steps), bits)
            # -2^(bits-1) itself still decodes; the bound is symmetric and gives that one value away.
            decodes_right = int(from_ring(total)[0]) == exact
            assert decodes_right is (fits or exact == -(2 ** (bits - 1)))


@BITS
@settings(deadline=None)
@given(values=I64_VALUES)
def test_wire_round_trip(bits: int, values: list[int]) -> None:
    ring = to_ring(i64(*values), bits)
    raw = to_wire(ring)
    for form in (raw, memoryview(raw), memoryview(b"x" + raw)[1:]):
        back = from_wire(form, len(values), bits, "p1")
        assert back.dtype == ring_dtype(bits)
        assert back.dtype.isnative
        np.testing.assert_array_equal(back, ring)


def test_wire_is_little_endian() -> None:
    assert to_wire(to_ring(i64(1, -2), 32)) == bytes.fromhex("01000000feffffff")
    assert to_wire(to_ring(i64(-2), 64)) == bytes.fromhex("feffffffffffffff")
    assert from_wire(bytes.fromhex("0102000000000080"), 1, 64, "p1").tolist() == [0x8000000000000201]


@BITS
def test_from_wire_is_writable_and_owns_its_memory(bits: int) -> None:
    frame = bytearray(bits // 8)
    ring = from_wire(memoryview(frame), 1, bits, "p1")
    frame[0] = 1
    assert ring.tolist() == [0]
    ring += ring.dtype.type(5)
    assert ring.tolist() == [5]


@BITS
@pytest.mark.parametrize("change", [-8, -4, -1, 1, 4, 8])
def test_wrong_length_is_the_peers_fault(bits: int, change: int) -> None:
    raw = bytes(10 * bits // 8 + change)
    with pytest.raises(PeerError, match="bytes") as caught:
        from_wire(raw, 10, bits, "p7")
    assert caught.value.culprit == "p7"


def test_length_of_a_memoryview_is_counted_in_bytes() -> None:
    words = memoryview(bytes(16)).cast("Q")
    assert from_wire(words, 4, 32, "p1").shape == (4,)
    with pytest.raises(PeerError):
        from_wire(words, 2, 32, "p1")


def test_negative_length_is_our_fault() -> None:
    with pytest.raises(UsageError, match="-1"):
        from_wire(b"", -1, 32, "p1")


def test_refuses_wrong_dtypes_and_shapes() -> None:
    with pytest.raises(UsageError, match="dtype"):
        to_ring(np.zeros(2), 32)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="shape"):
        to_ring(np.zeros((2, 2), dtype=np.int64), 32)
    for function in (from_ring, to_wire):
        with pytest.raises(UsageError, match="dtype"):
            function(np.zeros(2, dtype=np.int64))  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="shape"):
            function(np.zeros((2, 2), dtype=np.uint32))


@BITS
@settings(deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63 - 1)), max_size=20))
def test_adding_from_the_wire_is_adding_what_was_read(bits: int, pairs: list[tuple[int, int]]) -> None:
    total, other = (to_ring(i64(*values), bits) for values in ([a for a, _ in pairs], [b for _, b in pairs]))
    expected = total + from_wire(to_wire(other), other.size, bits, "p1")
    # One byte in front: the words are not aligned.
    add_wire(total, memoryview(b"x" + to_wire(other))[1:], "p1")
    assert total.tolist() == expected.tolist()


@BITS
@pytest.mark.parametrize("change", [-1, 1, 4])
def test_adding_a_vector_of_another_length_changes_nothing(bits: int, change: int) -> None:
    total = to_ring(i64(1, 2, 3), bits)
    with pytest.raises(PeerError, match="p7"):
        add_wire(total, bytes(3 * bits // 8 + change), "p7")
    assert total.tolist() == [1, 2, 3]


def test_adds_to_ring_vectors_only() -> None:
    with pytest.raises(UsageError):
        add_wire(np.zeros((1, 2), dtype=np.uint32), bytes(8), "p1")
