"""An independent, naive oracle: Gaussian elimination over the rationals, and all sets one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction

from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import draw_assignment
from securefl.methods.leakage.ledger import LeakageLedger, UpdateVersion, plan_ledgers
from securefl.methods.leakage.modular import prime_from

PRIME = prime_from(b"tests")
VERSION = UpdateVersion(1)


def rank(rows: Iterable[Sequence[int]]) -> int:
    left = [[Fraction(entry) for entry in row] for row in rows]
    found = 0
    while left:
        row = left.pop()
        pivot = next((k for k, entry in enumerate(row) if entry), None)
        if pivot is None:
            continue
        found += 1
        left = [
            [x - y * other[pivot] / row[pivot] for x, y in zip(other, row, strict=True)] for other in left
        ]
    return found


def contains(rows: Sequence[Sequence[int]], vector: Sequence[int]) -> bool:
    return rank([*rows, vector]) == rank(rows)


def indicator(columns: Iterable[int], width: int) -> list[int]:
    members = set(columns)
    return [int(k in members) for k in range(width)]


def exposed(rows: Sequence[Sequence[int]]) -> set[int]:
    width = len(rows[0])
    return {k for k in range(width) if contains(rows, indicator([k], width))}


def has_support_within(rows: Sequence[Sequence[int]], columns: Iterable[int]) -> bool:
    """Whether a combination that is not 0 vanishes outside: rows lose rank where the columns are deleted."""
    members = set(columns)
    return rank([[x for k, x in enumerate(row) if k not in members] for row in rows]) < rank(rows)


def minimum_support(rows: Sequence[Sequence[int]]) -> int:
    width = len(rows[0])
    return next(
        size
        for size in range(1, width + 1)
        if any(has_support_within(rows, columns) for columns in itertools.combinations(range(width), size))
    )


def exposed_to_any(rows: Sequence[Sequence[int]], colluders: int) -> set[int]:
    width = len(rows[0])
    found = set()
    for known in itertools.combinations(range(width), colluders):
        kept = [k for k in range(width) if k not in known]
        found |= {kept[k] for k in exposed([[row[k] for k in kept] for row in rows])}
    return found


def smallest_group(rows: Sequence[Sequence[int]], below: int) -> int | None:
    width = len(rows[0])
    return next(
        (
            size
            for size in range(1, below)
            for columns in itertools.combinations(range(width), size)
            if contains(rows, indicator(columns, width))
        ),
        None,
    )


def names(count: int) -> list[PartyId]:
    return [PartyId(f"p{i:03}") for i in range(count)]


def ledger_of(rows: Iterable[Iterable[int]], width: int) -> LeakageLedger:
    parties = names(width)
    ledger = LeakageLedger.begin(VERSION, parties, PRIME)
    for row in rows:
        ledger = ledger.open([parties[k] for k in row])
    return ledger


def drawn(parties: int, size: int, reclusterings: int, seed: int) -> LeakageLedger:
    ids = names(parties)
    assignment = draw_assignment(seed.to_bytes(32, "big"), ids, parties, size, reclusterings)
    (ledger,) = plan_ledgers(assignment, ids, 1, PRIME, new_work=False)
    return ledger


@st.composite
def ledgers(draw: st.DrawFn, most: int = 8) -> LeakageLedger:
    """Any sums, or partitions with dropouts that differ from one to the next."""
    width = draw(st.integers(2, most))
    if draw(st.booleans()):
        sums = st.sets(st.integers(0, width - 1), min_size=1)
        return ledger_of(draw(st.lists(sums, min_size=1, max_size=width + 2)), width)
    rows: list[set[int]] = []
    for _ in range(draw(st.integers(1, 4))):
        order = draw(st.permutations(range(width)))
        gone = draw(st.sets(st.integers(0, width - 1), max_size=2))
        size = draw(st.integers(2, 4))
        rows += [set(order[k : k + size]) - gone for k in range(0, width, size)]
    return ledger_of([row for row in rows if row] or [{0}], width)


def rows_of(ledger: LeakageLedger) -> list[list[int]]:
    return [[int(entry) for entry in row] for row in ledger.matrix]
