from __future__ import annotations

import struct
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import PartyId
from securefl.methods.weighting.truncation import mwp
from securefl.methods.weighting.weights import MAX_COUNT, cap_of, public_weights
from securefl.scenario.scenario import Weighting
from tests.tiers import examples

A, B, C = PartyId("a"), PartyId("b"), PartyId("c")
COUNTS = st.dictionaries(st.text("abcdef", min_size=1).map(PartyId), st.integers(1, MAX_COUNT), min_size=2)
IGNORE, PASSTHROUGH = Weighting(mode="ignore"), Weighting(mode="passthrough")
CAPPED = Weighting(mode="truncate", cap=60)
BOUNDED = Weighting(mode="truncate", alpha=0.1)
ALL = pytest.mark.parametrize("weighting", [IGNORE, PASSTHROUGH, CAPPED, BOUNDED], ids=str)


def capped(cap: int) -> Weighting:
    return Weighting(mode="truncate", cap=cap)


def test_ignore() -> None:
    assert public_weights(IGNORE, {A: 1, B: 999}) == {A: 1.0, B: 1.0}
    assert cap_of(IGNORE, {A: 1, B: 999}) is None


def test_passthrough_is_relative_to_the_largest() -> None:
    assert public_weights(PASSTHROUGH, {A: 10, B: 40, C: 20}) == {A: 0.25, B: 1.0, C: 0.5}
    assert public_weights(PASSTHROUGH, {A: 10, B: 40, C: 20}, {A, C}) == {A: 0.5, C: 1.0}, "of those drawn"


def test_truncate_cuts_at_the_cap() -> None:
    assert public_weights(capped(20), {A: 10, B: 40, C: MAX_COUNT}) == {A: 0.5, B: 1.0, C: 1.0}


def test_truncate_with_a_cap_that_nobody_reaches() -> None:
    assert public_weights(capped(80), {A: 10, B: 40}) == {A: 0.125, B: 0.5}


def test_truncate_keeps_to_the_bound_among_all_and_among_those_drawn() -> None:
    counts = {A: 3, B: 4, C: MAX_COUNT}
    assert cap_of(BOUNDED, counts) == 7
    assert public_weights(BOUNDED, counts, {A, C}) == {A: 1.0, C: 1.0}, "C would have 7 of 10"
    many = {PartyId(f"p{n}"): 20 for n in range(99)} | {C: MAX_COUNT}
    assert cap_of(BOUNDED, many) == 1620, "with nine others it has half"
    drawn = [PartyId(f"p{n}") for n in range(9)] + [C]
    weights = public_weights(BOUNDED, many, drawn)
    assert weights[C] == pytest.approx(sum(weights.values()) / 2)
    assert cap_of(BOUNDED, {A: 1, B: 1, C: 50}, {C}) == 2, "the bound among all is the tighter one"


def test_largest_count() -> None:
    assert public_weights(PASSTHROUGH, {A: 1, B: MAX_COUNT}) == {A: 2.0**-31, B: 1.0}


@ALL
@settings(deadline=None, max_examples=examples(50))
@given(counts=COUNTS)
def test_weights_are_the_rounded_quotients_in_the_unit_interval(
    weighting: Weighting, counts: dict[PartyId, int]
) -> None:
    top = cap_of(weighting, counts) or 1
    for party, weight in public_weights(weighting, counts).items():
        assert 0 < weight <= 1
        assert weight == float(Fraction(min(counts[party], top), top))


@settings(deadline=None, max_examples=examples(50))
@given(COUNTS, st.sampled_from([0.1, 0.2, 0.25]))
def test_alpha_of_the_parties_have_alpha_star_of_the_weight_at_most(
    counts: dict[PartyId, int], alpha: float
) -> None:
    weighting = Weighting(mode="truncate", alpha=alpha, alpha_star=0.6)
    cap = cap_of(weighting, counts)
    assert cap is not None
    assert mwp([min(count, cap) for count in counts.values()], alpha) <= Fraction(6, 10)


@ALL
@settings(deadline=None, max_examples=examples(50))
@given(counts=COUNTS, data=st.data())
def test_same_bits_and_order_whatever_the_order_of_the_counts(
    weighting: Weighting, counts: dict[PartyId, int], data: st.DataObject
) -> None:
    def packed(weights: Mapping[PartyId, float]) -> list[tuple[PartyId, bytes]]:
        return [(party, struct.pack("<d", weight)) for party, weight in weights.items()]

    shuffled = dict(data.draw(st.permutations(list(counts.items()))))
    drawn = data.draw(st.permutations(list(counts)))[: data.draw(st.integers(1, len(counts)))]
    assert packed(public_weights(weighting, shuffled, drawn)) == packed(
        public_weights(weighting, counts, set(drawn))
    )


@ALL
@pytest.mark.parametrize("bad", [0, -1, MAX_COUNT + 1, 1.5, True, "3", None])
def test_a_bad_count_is_its_partys_fault(weighting: Weighting, bad: object) -> None:
    with pytest.raises(PeerError, match="declared") as caught:
        public_weights(weighting, {C: 5, B: cast("int", bad), A: 5}, {A, C})
    assert caught.value.culprit == B


def test_all_parties_name_the_same_culprit() -> None:
    for counts in ({A: 0, B: 0}, {B: 0, A: 0}):
        with pytest.raises(PeerError) as caught:
            public_weights(PASSTHROUGH, counts)
        assert caught.value.culprit == A


def test_what_a_scenario_may_not_be() -> None:
    with pytest.raises(UsageError, match="must set cap or alpha"):
        public_weights(Weighting(mode="truncate"), {A: 1, B: 2})


def test_where_no_weights_keep_to_the_bound_all_weigh_the_same() -> None:
    assert public_weights(BOUNDED, {A: 7}) == {A: 1.0}
    tight = Weighting(mode="truncate", alpha=0.4)
    assert public_weights(tight, {A: 7, B: 3, C: MAX_COUNT}) == {A: 1.0, B: 1.0, C: 1.0}


@pytest.mark.parametrize("counts", [{}, {A: 1}])
def test_refuses_no_party(counts: dict[PartyId, int]) -> None:
    with pytest.raises(UsageError, match="no party"):
        public_weights(IGNORE, counts, set())
