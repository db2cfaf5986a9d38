from __future__ import annotations

from collections.abc import Mapping, Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment, draw_assignment
from securefl.methods.leakage import admission
from securefl.methods.leakage.admission import Admission, admit
from securefl.methods.leakage.ledger import LeakageLedger, UpdateVersion
from securefl.methods.leakage.limits import Crossing, LeakageLimits, crossings
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.oracle import names

P = names(100)
SEED = b"public"


def assigned(*reclusterings: Sequence[Sequence[int]]) -> Assignment:
    rows = tuple(tuple(tuple(P[k] for k in members) for members in row) for row in reclusterings)
    return Assignment(tuple(sorted({p for row in rows for members in row for p in members})), rows)


def decided(
    assignment: Assignment,
    gone: Sequence[PartyId] = (),
    demand: LeakageLimits | None = None,
    new_work: bool = False,
) -> Admission:
    limits = dict.fromkeys(assignment.participants, demand or LeakageLimits())
    alive = [party for party in assignment.participants if party not in gone]
    return admit(assignment, alive, limits, round_=3, seed=SEED, new_work=new_work)


PAIRS = assigned([[0, 1], [2, 3]], [[1, 2], [0, 3]], [[0, 2], [1, 3]])


def test_the_third_pairing_is_withheld() -> None:
    found = decided(PAIRS)
    assert found.admitted == (0, 1)
    assert [crossing.party for crossing in found.withheld[2]] == P[:4]
    assert {crossing.kind for crossing in found.withheld[2]} == {"exposed"}


def test_a_harmless_reclustering_after_a_withheld_one_is_opened() -> None:
    again = Assignment(PAIRS.participants, (*PAIRS.clusters, PAIRS.clusters[0]))
    assert decided(again).admitted == (0, 1, 3)


def test_survivors_count_and_not_the_plan() -> None:
    """Nobody is exposed while p005 is there; without it p000 is what the two clusters differ by."""
    assignment = assigned([[0, 1, 2], [3, 4, 5]], [[1, 2, 5], [0, 3, 4]])
    assert decided(assignment).admitted == (0, 1)
    without = decided(assignment, gone=[P[5]])
    assert without.admitted == (0,)
    assert [crossing.party for crossing in without.withheld[1]] == [P[0]]


def test_new_work_in_each_reclustering_makes_a_ledger_each() -> None:
    found = decided(PAIRS, new_work=True)
    assert found.admitted == (0, 1, 2)
    assert list(found.openings) == [UpdateVersion(3, r) for r in range(3)]


def test_nobody_who_demands_anything_withholds_nothing() -> None:
    found = admit(PAIRS, PAIRS.participants, {}, round_=0, seed=SEED, new_work=False)
    assert found.admitted == (0, 1, 2)
    assert [len(sums) for sums in found.openings.values()] == [6]
    assert admit(PAIRS, (), {}, round_=0, seed=SEED, new_work=False).openings == {UpdateVersion(0): ()}


def test_one_party_that_demands_is_enough() -> None:
    limits = {P[2]: LeakageLimits()}
    found = admit(PAIRS, PAIRS.participants, limits, round_=0, seed=SEED, new_work=False)
    assert found.admitted == (0, 1)


@pytest.mark.parametrize(("gone", "round_", "clusters"), [((P[0],), 0, 3), ((), 1, 3), ((), 0, 2)])
def test_heads_differ_where_sums_do(gone: tuple[PartyId, ...], round_: int, clusters: int) -> None:
    def head(gone: Sequence[PartyId], round_: int, clusters: int, seed: bytes) -> bytes:
        taken = Assignment(PAIRS.participants, PAIRS.clusters[:clusters])
        alive = [party for party in taken.participants if party not in gone]
        return admit(taken, alive, {}, round_=round_, seed=seed, new_work=False).head()

    assert head((), 0, 3, b"one") == head((), 0, 3, b"other")
    assert head(gone, round_, clusters, SEED) != head((), 0, 3, SEED)


def test_a_prime_that_misleads_does_not_decide_alone() -> None:
    """One clustering twice: the rank is below what its sums could have, and does not vouch for the prime."""
    assignment = assigned(*[[[*range(k, k + 10)] for k in range(0, 100, 10)]] * 5)
    shuffled = draw_assignment(SEED, P, 100, 10, 3)
    both = Assignment(tuple(P), assignment.clusters[:2] + shuffled.clusters)
    asked: list[int] = []

    def spied(ledger: LeakageLedger, limits: Mapping[PartyId, LeakageLimits]) -> tuple[Crossing, ...]:
        asked.append(ledger.prime)
        return crossings(ledger, limits)

    with patch.object(admission, "crossings", spied):
        assert not decided(both).certain
        assert len(set(asked)) == 2
        asked.clear()
        assert decided(Assignment(tuple(P), shuffled.clusters)).certain
        assert len(asked) == 1


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 2), st.sampled_from([1.0, 0.5, 0.34, 0.2]))
@settings(max_examples=examples(30))
def test_single_clusterings_are_decided_as_by_the_ledger(seed: int, k: int, f: int, leverage: float) -> None:
    """Without any algebra: in sums that have no party in common only their sizes count."""
    assignment = draw_assignment(seed.to_bytes(32, "big"), P[:11], 11, 3, 1)
    gone, demand = P[seed % 11 : seed % 11 + seed % 4], LeakageLimits(k, f, leverage)
    with patch.object(admission, "_harmless", lambda *_args: False):
        expected = decided(assignment, gone, demand)
    assert decided(assignment, gone, demand) == expected


@given(st.integers(0, 2**32), st.sampled_from([(5, 2), (6, 3), (7, 3), (9, 3), (9, 2)]), st.integers(0, 2))
@settings(max_examples=examples(12))
def test_no_draw_ever_exposes_anybody(seed: int, shape: tuple[int, int], dropouts: int) -> None:
    """Many reclusterings and dropouts, against an elimination over the rationals."""
    parties, size = shape
    assignment = draw_assignment(seed.to_bytes(32, "big"), P[:parties], parties, size, 5)
    gone = P[:dropouts]
    if any(len(set(m) - set(gone)) < 2 for row in assignment.clusters for m in row):
        return
    (sums,) = decided(assignment, gone).openings.values()
    rows = [oracle.indicator([P.index(name) for name in members], parties) for members in sums]
    assert not oracle.exposed(rows)
    assert len(rows) >= len(assignment.clusters[0])
