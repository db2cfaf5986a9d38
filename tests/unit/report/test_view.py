from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import RoundDone, SlotsCounted, SumOpened, SumSeen
from securefl.runtime.report.records import RoundRecord
from securefl.runtime.report.summary import determined_parties, server_view
from tests.unit.report.test_metrics import drive, heard


@pytest.mark.parametrize(
    ("sums", "alone"),
    [
        ([], set()),
        (["abc", "def"], set()),
        (["abc", "d"], {"d"}),
        (["abc", "ab"], {"c"}),
        (["abc", "def", "abd", "cef"], set()),
        (["ab", "bc", "ca"], {"a", "b", "c"}),
        (["ab", "cd", "ac", "bd"], set()),
        (["ab", "cd", "bc", "abcde", "ad"], {"e"}),
        (["abc", "abc"], set()),
    ],
)
def test_single_values_that_follow_from_sums(sums: list[str], alone: set[str]) -> None:
    assert determined_parties(sums) == alone


def test_too_many_to_search_is_said() -> None:
    names = [f"p{i}" for i in range(3000)]
    assert determined_parties([names, names[1:]]) is None
    assert determined_parties([names[:1500], names[1500:]]) == set()


@given(st.lists(st.sets(st.integers(0, 6), min_size=1), min_size=1, max_size=7))
def test_agrees_with_exact_elimination(sums: list[set[int]]) -> None:
    named = [[f"p{i}" for i in members] for members in sums]
    assert determined_parties(named) == {f"p{i}" for i in range(7) if _in_row_space(sums, i)}


def _in_row_space(sums: list[set[int]], party: int) -> bool:
    rows = [[int(i in members) for i in range(7)] for members in sums]
    return _rank([*rows, [int(i == party) for i in range(7)]]) == _rank(rows)


def _rank(rows: list[list[int]]) -> int:
    """By fraction-free elimination on Python integers."""
    rows, rank = [row[:] for row in rows], 0
    for column in range(7):
        pivot = next((row for row in rows if row[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rank += 1
        rows = [
            [r * pivot[column] - p * row[column] for r, p in zip(row, pivot, strict=True)] for row in rows
        ]
    return rank


def test_sums_of_other_updates_are_not_combined() -> None:
    """a + b, a + c and b + c give everybody away, unless each is of other updates."""
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    record = heard().records[0]
    together = replace(record, sums=tuple(seen(r, *names) for r, names in enumerate(pairs)))
    view = server_view([together])
    assert [party for _, party in view.exposed] == ["a", "b", "c"]
    assert view.searched
    view = server_view([together], new_work=True)
    assert view.exposed == ()
    assert not view.searched
    alone = replace(record, sums=(seen(0, "a", "b"), seen(1, "a")))
    assert server_view([alone], new_work=True).exposed == ((record.round, "a"),)


def seen(reclustering: int, *names: str) -> SumSeen:
    members = tuple(PartyId(name) for name in names)
    return SumSeen(reclustering, 0, members, members)


def test_slots_of_hidden_groups_are_as_large_as_counts_say() -> None:
    members = tuple(PartyId(f"p0{i}") for i in range(4))
    told = drive(
        SlotsCounted(0, 0, (3, 1), (0,)),
        SumOpened(0, ClusterSum(1, 0, members, members, np.zeros(2, dtype=np.uint32))),
        RoundDone(0, 0.5, 1.0, members, members, ((1, 0),), (), ((1, 0),), ()),
    ).records
    again = [RoundRecord.from_row(json.loads(json.dumps(record.row()))) for record in told]
    assert server_view(told).by_size == server_view(again).by_size == {3: 1}
    assert server_view(told).exposed == ()
    assert [(record.survivor_count, len(record.counted)) for record in (*told, *again)] == [(3, 4)] * 2


def test_view_of_a_run() -> None:
    view = server_view(heard().records)
    assert view.opened == 15
    assert view.smallest == 2
    assert sum(size * count for size, count in view.by_size.items()) == 12 + 11 + 11 + 10
    assert view.exposed == ()
    assert view.searched
