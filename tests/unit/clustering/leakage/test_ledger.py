from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import UsageError
from securefl.methods.clustering.assignment import Assignment, draw_assignment
from securefl.methods.leakage.ledger import LeakageLedger, UpdateVersion, plan_ledgers
from securefl.methods.leakage.proofs import decide
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.clustering.leakage.oracle import PRIME, VERSION, drawn, ledger_of, names, rows_of


@given(oracle.ledgers(most=7))
@settings(deadline=None, max_examples=examples(40))
def test_exposed_and_kernel_are_those_of_the_rationals(ledger: LeakageLedger) -> None:
    rows = rows_of(ledger)
    assert ledger.exposed == {ledger.parties[k] for k in oracle.exposed(rows)}
    assert ledger.kernel_dimension == len(ledger.parties) - oracle.rank(rows)
    assert ledger.doubt < 1e-12


@given(oracle.ledgers(most=7), st.data())
@settings(deadline=None, max_examples=examples(40))
def test_colluders_are_deleted_columns(ledger: LeakageLedger, data: st.DataObject) -> None:
    width = len(ledger.parties)
    known = data.draw(st.sets(st.sampled_from(range(width)), max_size=width - 1))
    kept = [k for k in range(width) if k not in known]
    rest = ledger.without([ledger.parties[k] for k in known])
    rows = [[row[k] for k in kept] for row in rows_of(ledger)]
    assert rows_of(rest) == rows
    assert rest.exposed == {ledger.parties[kept[k]] for k in oracle.exposed(rows)}
    assert ledger.exposed - {ledger.parties[k] for k in known} <= rest.exposed


def test_overlapping_pairs_expose_all_three() -> None:
    ledger = ledger_of([{0, 1}, {1, 2}], 4)
    assert ledger.exposed == frozenset()
    assert ledger.open([*names(3)[::2]]).exposed == set(names(3))


def test_two_sums_that_differ_by_a_dropout_expose_it() -> None:
    ledger = ledger_of([{0, 1, 2, 3}, {0, 1, 3}], 5)
    assert ledger.exposed == {"p002"}


def test_one_partition_exposes_nobody_and_its_colluders_only_their_last_mate() -> None:
    ledger = ledger_of([{0, 1, 2}, {3, 4, 5}], 6)
    assert ledger.exposed == frozenset()
    assert ledger.kernel_dimension == 4
    assert ledger.without(names(2)).exposed == {"p002"}
    assert ledger.without([names(6)[0], names(6)[3]]).exposed == frozenset()


@pytest.mark.parametrize(
    ("parties", "size", "enough"), [(100, 5, 6), (60, 3, 4), (40, 5, 6), (100, 10, 11), (20, 4, 6)]
)
def test_the_measured_table_of_random_reclusterings(parties: int, size: int, enough: int) -> None:
    """Privacy-notes, section 1: in ten draws all are exposed at R*, and nobody just below; fixed seeds."""
    ids, clusters = names(parties), parties // size
    for seed in range(10):
        rows = draw_assignment(seed.to_bytes(32, "big"), ids, parties, size, enough).clusters
        ledger = LeakageLedger.begin(VERSION, ids, PRIME)
        found = []
        for row in rows:
            for members in row:
                ledger = ledger.open(members)
            found.append((len(ledger.exposed), ledger.kernel_dimension))
        assert found[-1] == (parties, 0)
        if parties > 20:
            assert found[-2] == (0, parties - 1 - (enough - 1) * (clusters - 1))
            assert enough == -(-(parties - 1) // (clusters - 1))


@pytest.mark.parametrize(("seed", "exposed"), [(0, 20), (4, 0), (29, 16), (57, 14)])
def test_20_parties_in_fours_are_sometimes_partly_exposed_at_five(seed: int, exposed: int) -> None:
    """21 sums of 20 parties that are nearly independent: it depends on the draw. The seeds are fixed."""
    assert len(drawn(20, 4, 4, seed).exposed) == 0
    ledger = drawn(20, 4, 5, seed)
    assert len(ledger.exposed) == len(decide(ledger).exposed) == exposed
    assert len(drawn(20, 4, 6, seed).exposed) == 20


def test_two_colluders_expose_most_of_60_in_threes_at_three() -> None:
    """R = 3 is below R*, and the kernel has dimension 2: 54.5 of 58 over 2,000 draws (docs/leakage.md)."""
    falls = [len(drawn(60, 3, 3, seed).without(names(60)[:2]).exposed) for seed in range(6)]
    assert 40 < sum(falls) / len(falls) <= 58


@pytest.mark.parametrize("seed", range(3))
def test_atoms_are_never_split(seed: int) -> None:
    """Eight blocks of three, opened only together: nothing below three is ever determined."""
    blocks = draw_assignment(seed.to_bytes(32, "big"), names(24), 24, 3, 1).clusters[0]
    ledger = LeakageLedger.begin(VERSION, names(24), PRIME)
    for one, two in itertools.combinations(blocks, 2):
        ledger = ledger.open(one + two)
    assert ledger.exposed == frozenset()
    assert ledger.kernel_dimension == 24 - 8
    assert ledger.without([block[0] for block in blocks]).exposed == frozenset()
    assert ledger.without(blocks[0][:2]).exposed == {blocks[0][2]}


def test_a_ledger_is_a_value() -> None:
    before = ledger_of([{0, 1}, {1, 2}], 3)
    after = before.open(names(3)[::2])
    assert (before.openings, before.exposed) == (((0, 1), (1, 2)), frozenset())
    assert before == ledger_of([{0, 1}, {1, 2}], 3)
    assert after != before
    assert after.independent == (0, 1, 2)
    assert after.open(names(3)).independent == (0, 1, 2)


def test_another_prime_says_the_same() -> None:
    ledger = drawn(20, 4, 5, seed=3)
    other = ledger.modulo(2**61 - 1)
    assert (other.exposed, other.openings) == (ledger.exposed, ledger.openings)


def test_the_doubt_grows_with_the_minors_and_stays_small() -> None:
    assert ledger_of([{0, 1}], 2).doubt == 0
    assert 0 < drawn(100, 5, 5, seed=1).doubt < 1e-13


def test_a_rounds_ledgers_count_survivors_only() -> None:
    assignment = draw_assignment(bytes(32), names(12), 12, 3, 2)
    gone = set(assignment.clusters[0][0]) | {assignment.clusters[0][1][0]}
    (ledger,) = plan_ledgers(assignment, set(names(12)) - gone, 4, PRIME, new_work=False)
    assert ledger.version == UpdateVersion(4)
    members = [{ledger.parties[k] for k in row} for row in ledger.openings]
    assert members == [
        alive for row in assignment.clusters for cluster in row if (alive := set(cluster) - gone)
    ]


def test_new_work_makes_a_version_of_each_reclustering() -> None:
    assignment: Assignment = draw_assignment(bytes(32), names(20), 20, 4, 6)
    ledgers = plan_ledgers(assignment, names(20), 2, PRIME, new_work=True)
    assert [ledger.version for ledger in ledgers] == [UpdateVersion(2, work) for work in range(6)]
    assert all(ledger.exposed == frozenset() and ledger.kernel_dimension == 15 for ledger in ledgers)
    (together,) = plan_ledgers(assignment, names(20), 2, PRIME, new_work=False)
    assert together.exposed == set(names(20))


def test_refusals() -> None:
    ledger = ledger_of([{0, 1}], 2)
    stranger = names(3)[2]
    with pytest.raises(UsageError, match="1 or more parties of the ledger, found 0"):
        ledger.open([])
    with pytest.raises(UsageError, match="of which it has 1"):
        ledger.open([names(1)[0], stranger])
    with pytest.raises(UsageError, match="must be parties of the ledger"):
        ledger.without([stranger])
    with pytest.raises(UsageError, match="0 parties"):
        ledger.without(names(2))
    for number in (2**61 + 1, 2**60 + 1, 97):
        with pytest.raises(UsageError, match="and prime a prime"):
            LeakageLedger.begin(VERSION, names(2), number)
