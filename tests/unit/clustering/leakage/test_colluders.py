from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.leakage.colluders import coalitions
from securefl.methods.leakage.ledger import LeakageLedger
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.exact_proofs import prove_coalitions
from tests.unit.clustering.leakage.oracle import drawn, ledger_of, names, rows_of


@given(oracle.ledgers(most=7))
@settings(deadline=None, max_examples=examples(12))
def test_whom_any_colluders_expose_is_what_all_of_them_expose(ledger: LeakageLedger) -> None:
    found = coalitions(ledger)
    width = len(ledger.parties)
    for count in range(min(4, width)):
        expected = oracle.exposed_to_any(rows_of(ledger), count)
        # A set of fewer colluders, padded by others, may have had to take in the party itself.
        assert {ledger.parties[k] for k in expected} <= found.exposed_by(count)
    for party, support in found.supports.items():
        others = [member for member in support if member != party]
        assert party in (ledger.without(others) if others else ledger).exposed
        needed = found.colluders_needed(party)
        assert needed == len(others)
        if needed:
            smaller = itertools.combinations([p for p in ledger.parties if p != party], needed - 1)
            assert not any(party in ledger.without(known).exposed for known in smaller)


@pytest.mark.parametrize(("parties", "size", "reclusterings"), [(12, 3, 2), (12, 4, 3)])
def test_random_reclusterings(parties: int, size: int, reclusterings: int) -> None:
    ledger = drawn(parties, size, reclusterings, seed=2)
    found = coalitions(ledger)
    for count in range(4):
        fallen: set[PartyId] = set()
        for known in itertools.combinations(ledger.parties, count):
            fallen |= ledger.without(known).exposed
        assert found.exposed_by(count) == fallen


def test_proofs_of_coalitions_hold() -> None:
    ledger = drawn(20, 4, 3, seed=2)
    found = coalitions(ledger)
    assert found.supports
    for party, proof in prove_coalitions(ledger, found).items():
        assert proof is not None
        assert proof.holds(ledger)
        support = {ledger.parties[k] for k in proof.support}
        assert party in support
        assert support <= set(found.supports[party])


def test_a_cluster_of_four_falls_to_three() -> None:
    found = coalitions(ledger_of([range(4), range(4, 9)], 9))
    assert [len(found.exposed_by(count)) for count in range(4)] == [0, 0, 0, 4]
    assert found.colluders_needed(names(1)[0]) == 3
    assert found.colluders_needed(names(9)[8]) is None


def test_a_line_of_others_does_not_expose_a_party() -> None:
    """Parties 0, 1, 2 are a sum of three; a party that is in no sum at all is safe from everybody."""
    found = coalitions(ledger_of([{0, 1, 2}, {3, 4, 5, 6, 7}], 10))
    assert set(found.supports) == set(names(3))


def test_more_than_three_unnamed_colluders_are_refused() -> None:
    ledger = ledger_of([{0, 1}], 2)
    with pytest.raises(UsageError, match="from 0 to 3"):
        coalitions(ledger, 4)
    with pytest.raises(UsageError, match="from 0 to 1"):
        coalitions(ledger, 1).exposed_by(2)
