from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.methods.leakage.ledger import LeakageLedger
from securefl.methods.leakage.limits import Crossing, LeakageLimits, crossings
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.oracle import drawn, ledger_of, names, rows_of

P = names(60)


def everybody(demand: LeakageLimits) -> dict[PartyId, LeakageLimits]:
    return dict.fromkeys(P, demand)


def who(found: tuple[Crossing, ...]) -> dict[str, str]:
    return {crossing.party: crossing.kind for crossing in found}


def _smallest_support_with(rows: list[list[int]], party: int) -> int:
    """By trying all sets: the rows without them lose rank, and less without the party too."""
    width = len(rows[0])
    others = [k for k in range(width) if k != party]
    for size in range(width):
        for mates in itertools.combinations(others, size):
            left = [[x for k, x in enumerate(row) if k not in mates] for row in rows]
            unit = oracle.indicator([party - sum(k < party for k in mates)], width - size)
            if oracle.contains(left, unit):
                return size + 1
    return sys.maxsize  # in no combination at all


@given(
    oracle.ledgers(most=6),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=6, max_size=6),
)
@settings(max_examples=examples(25))
def test_it_names_exactly_those_whose_limit_is_crossed(
    ledger: LeakageLedger, demanded: list[tuple[int, int]]
) -> None:
    limits = {
        party: LeakageLimits(group=k, colluders=f if k + f <= 5 else 5 - k)
        for party, (k, f) in zip(ledger.parties, demanded, strict=False)
    }
    expected = set()
    for place, party in enumerate(ledger.parties):
        demand = limits[party]
        if demand.group > 1 and _smallest_support_with(rows_of(ledger), place) < demand.support:
            expected.add(party)
    assert set(who(crossings(ledger, limits))) == expected


def test_an_exposed_party_is_named_so() -> None:
    ledger = ledger_of([{0, 1, 2}, {3, 4}, {1, 2}, {0, 3, 4}], 5)
    (found,) = crossings(ledger, everybody(LeakageLimits()))
    assert found == (P[0], "exposed", "its update follows from the sums")


def test_a_difference_of_sums_exposes_two_to_each_other() -> None:
    ledger = ledger_of([{0, 1, 2}, {1, 2, 3}], 4)
    assert not crossings(ledger, everybody(LeakageLimits(group=2)))
    assert who(crossings(ledger, everybody(LeakageLimits(group=3)))) == {P[0]: "group", P[3]: "group"}
    (first, _) = crossings(ledger, everybody(LeakageLimits(group=2, colluders=1)))
    assert first.reason == "a combination of sums has only p003 besides it, fewer than 3 in all"


def test_only_those_who_demand_something_are_looked_at() -> None:
    ledger = ledger_of([{0}, {1}], 2)
    assert who(crossings(ledger, {P[1]: LeakageLimits()})) == {P[1]: "exposed"}
    assert not crossings(ledger, {P[1]: LeakageLimits(group=1)})
    assert not crossings(ledger, {})


def test_leverage_is_capped_between_one_over_h_and_one() -> None:
    ledger = ledger_of([range(4)], 4)
    assert not crossings(ledger, everybody(LeakageLimits(leverage=0.25)))
    assert set(who(crossings(ledger, everybody(LeakageLimits(leverage=0.2499)))).values()) == {"leverage"}
    assert crossings(ledger, everybody(LeakageLimits(colluders=1, leverage=0.25)))


def test_what_cannot_be_searched_counts_as_crossed() -> None:
    ledger = drawn(60, 10, 4, seed=1)
    demand = LeakageLimits(group=9)
    assert who(crossings(ledger, everybody(demand))) == dict.fromkeys(P, "undecided")
    overlapping = ledger_of([{0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6}], 7)
    found = crossings(overlapping, everybody(LeakageLimits(colluders=3, leverage=0.9)))
    assert "undecided" in who(found).values()


@pytest.mark.parametrize("group", [3, 8])
def test_atoms_and_single_clusterings_need_no_search(group: int) -> None:
    """Blocks that are only opened together: their supports are found without trying sets of parties."""
    blocks = [range(k, k + 8) for k in range(0, 56, 8)]
    pairs = [[*one, *two] for one, two in itertools.combinations(blocks, 2)]
    ledger = ledger_of(pairs, 56)
    assert not crossings(ledger, everybody(LeakageLimits(group=group)))
    assert crossings(ledger, everybody(LeakageLimits(group=9)))
