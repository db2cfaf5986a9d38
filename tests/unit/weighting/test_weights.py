from __future__ import annotations

import struct
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.errors import PeerError, UsageError
from securefl.ids import PartyId
from securefl.weighting.weights import MAX_COUNT, Mode, public_weights

A, B, C = PartyId("a"), PartyId("b"), PartyId("c")
COUNTS = st.dictionaries(st.text("abcdef", min_size=1).map(PartyId), st.integers(1, MAX_COUNT), min_size=1)
SETTINGS: list[tuple[Mode, int | None]] = [("equal", None), ("samples", None), ("truncate", 60)]
ALL = pytest.mark.parametrize(("mode", "cap"), SETTINGS)


def test_equal() -> None:
    assert public_weights({A: 1, B: 999}, "equal", None) == {A: 1.0, B: 1.0}


def test_samples_are_relative_to_the_largest() -> None:
    assert public_weights({A: 10, B: 40, C: 20}, "samples", None) == {A: 0.25, B: 1.0, C: 0.5}


def test_truncate_cuts_at_the_cap() -> None:
    assert public_weights({A: 10, B: 40, C: MAX_COUNT}, "truncate", 20) == {A: 0.5, B: 1.0, C: 1.0}


def test_truncate_with_a_cap_that_nobody_reaches() -> None:
    assert public_weights({A: 10, B: 40}, "truncate", 80) == {A: 0.125, B: 0.5}


def test_largest_count() -> None:
    assert public_weights({A: 1, B: MAX_COUNT}, "samples", None) == {A: 2.0**-31, B: 1.0}


@ALL
@settings(deadline=None)
@given(counts=COUNTS)
def test_weights_are_the_rounded_quotients_in_the_unit_interval(
    mode: Mode, cap: int | None, counts: dict[PartyId, int]
) -> None:
    top = {"equal": 1, "samples": max(counts.values()), "truncate": cap or 1}[mode]
    for party, weight in public_weights(counts, mode, cap).items():
        assert 0 < weight <= 1
        assert weight == float(Fraction(min(counts[party], top), top))


@ALL
@settings(deadline=None)
@given(counts=COUNTS, data=st.data())
def test_same_bits_and_order_whatever_the_order_of_the_counts(
    mode: Mode, cap: int | None, counts: dict[PartyId, int], data: st.DataObject
) -> None:
    def packed(weights: Mapping[PartyId, float]) -> list[tuple[PartyId, bytes]]:
        return [(party, struct.pack("<d", weight)) for party, weight in weights.items()]

    shuffled = dict(data.draw(st.permutations(list(counts.items()))))
    assert packed(public_weights(shuffled, mode, cap)) == packed(public_weights(counts, mode, cap))


@ALL
@pytest.mark.parametrize("bad", [0, -1, MAX_COUNT + 1, 1.5, True, "3", None])
def test_a_bad_count_is_its_partys_fault(mode: Mode, cap: int | None, bad: object) -> None:
    with pytest.raises(PeerError, match="declared") as caught:
        public_weights({C: 5, B: cast("int", bad), A: 5}, mode, cap)
    assert caught.value.culprit == B


def test_all_parties_name_the_same_culprit() -> None:
    for counts in ({A: 0, B: 0}, {B: 0, A: 0}):
        with pytest.raises(PeerError) as caught:
            public_weights(counts, "samples", None)
        assert caught.value.culprit == A


@pytest.mark.parametrize(
    ("mode", "cap"), [("equal", 5), ("samples", 5), ("truncate", None), ("truncate", 0), ("truncate", -3)]
)
def test_cap_must_go_with_the_mode(mode: Mode, cap: int | None) -> None:
    with pytest.raises(UsageError, match="cap"):
        public_weights({A: 1}, mode, cap)


def test_refuses_no_party() -> None:
    with pytest.raises(UsageError, match="no party"):
        public_weights({}, "equal", None)
