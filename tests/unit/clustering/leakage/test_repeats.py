"""Sums on models that come again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given as holds_for
from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.methods.leakage.limits import LeakageLimits
from securefl.methods.leakage.unresolved import (
    NOTHING_GIVEN,
    REPEATED_LEVERAGE,
    Given,
    crossed_together,
    join_releases,
    repeated_sums,
)

P = [PartyId(f"p{number:02d}") for number in range(6)]
FIRST, OTHER = b"a model", b"another"
EXPOSED = LeakageLimits(group=2)
WHOLE = ((P[0], P[1], P[2]), (P[3], P[4], P[5]))
WITHOUT_ONE = ((P[1], P[2]), (P[3], P[4], P[5]))


def test_the_same_cluster_without_one_party_is_its_update_if_the_model_is_the_same() -> None:
    before: Given = {FIRST: WHOLE}
    (crossing,) = crossed_together(before, {FIRST: WITHOUT_ONE}, EXPOSED, b"seed")
    assert (crossing.party, crossing.kind) == (P[0], "exposed")
    assert crossed_together(before, {OTHER: WITHOUT_ONE}, EXPOSED, b"seed") == ()


def test_the_same_sums_again_say_nothing_new() -> None:
    before: Given = {FIRST: WHOLE}
    assert repeated_sums(before, {FIRST: WHOLE}) == {}
    assert crossed_together(before, {FIRST: WHOLE}, EXPOSED, b"seed") == ()
    assert join_releases(before, {FIRST: WHOLE}) == before


def test_who_demands_nothing_withholds_nothing() -> None:
    nothing = LeakageLimits(group=1)
    assert crossed_together({FIRST: WHOLE}, {FIRST: WITHOUT_ONE}, nothing, b"seed") == ()


def test_works_of_one_round_are_one_update_once_the_model_repeats() -> None:
    """A round's works alone are never judged together: they are updates of their own."""
    two_works: Given = {FIRST: (*WHOLE, *WITHOUT_ONE)}
    assert crossed_together(NOTHING_GIVEN, two_works, EXPOSED, b"seed") == ()
    assert crossed_together({FIRST: WHOLE[1:]}, two_works, EXPOSED, b"seed")


@st.composite
def rounds(draw: st.DrawFn) -> list[tuple[tuple[PartyId, ...], ...]]:
    found = []
    for _ in range(draw(st.integers(2, 4))):
        order = draw(st.permutations(P))
        cut = draw(st.integers(2, 4))
        gone = draw(st.sets(st.sampled_from(P), max_size=1))
        rows = (tuple(sorted(set(part) - gone)) for part in (order[:cut], order[cut:]))
        found.append(tuple(row for row in rows if row))
    return found


@holds_for(rounds())
def test_exactly_the_exposed_are_found(sums: list[tuple[tuple[PartyId, ...], ...]]) -> None:
    """Against ranks in floating point, which are exact for matrices as small as these."""
    given: Given = NOTHING_GIVEN
    for row in sums:
        found = crossed_together(given, {FIRST: row}, EXPOSED, b"seed")
        together = join_releases(given, {FIRST: row})
        if repeated_sums(given, {FIRST: row}):
            matrix = np.array([[float(p in one) for p in P] for one in together[FIRST]])
            rank = np.linalg.matrix_rank(matrix)
            exposed = {
                p
                for p, unit in zip(P, np.eye(len(P)), strict=True)
                if np.linalg.matrix_rank(np.vstack([matrix, unit])) == rank
            }
            assert {one.party for one in found if one.kind == "exposed"} == exposed
            if not exposed:
                leverage = np.diag(np.linalg.pinv(matrix) @ matrix)
                over = {p for p, share in zip(P, leverage, strict=True) if share > REPEATED_LEVERAGE + 1e-9}
                assert {one.party for one in found} == over
        given = together


@holds_for(rounds())
def test_joining_forgets_nothing_and_keeps_the_order(sums: list[tuple[tuple[PartyId, ...], ...]]) -> None:
    given: Given = NOTHING_GIVEN
    for number, rows in enumerate(sums):
        given = join_releases(given, {FIRST: rows, bytes([number]): rows})
    assert set(given[FIRST]) == set(itertools.chain.from_iterable(sums))
    assert len(given[FIRST]) == len(set(given[FIRST]))
    assert set(given) == {FIRST, *(bytes([number]) for number in range(len(sums)))}


@holds_for(
    st.lists(st.dictionaries(st.integers(0, 20), st.integers(0, 3), max_size=5), max_size=12),
    st.integers(0, 6),
)
def test_joining_is_that_of_plain_tables_however_many_models_there_are(
    added: list[dict[int, int]], latest: int
) -> None:
    """And leaves what it joins as it was: phases of a machine hold both."""
    given, plain = NOTHING_GIVEN, dict[bytes, tuple[tuple[PartyId, ...], ...]]()
    for row in added:
        more = {bytes([number]): ((P[who],),) for number, who in row.items()}
        former = dict(given)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("securefl.methods.leakage.unresolved._LATEST", latest)
            after = join_releases(given, more)
        assert dict(given) == former
        for model, sums in more.items():
            plain[model] = tuple(dict.fromkeys((*plain.get(model, ()), *sums)))
        given = after
        assert given == plain
        assert len(given) == len(list(given)) == len(plain)
        assert all(model in given for model in plain)


def test_a_thousand_rounds_are_not_copied_in_each() -> None:
    """Bytes that a round leaves behind do not depend on how many came before."""
    given: Given = NOTHING_GIVEN
    for number in range(1000):
        given = join_releases(given, {number.to_bytes(32, "big"): WHOLE})
    former = getattr(given, "former", None)
    again = join_releases(given, {b"one more": WHOLE})
    assert getattr(again, "former", None) is former
    assert len(again) == 1001
