"""Which cases of heavy tests the fast tier keeps, and that a stale list fails the collection."""

from __future__ import annotations

import pytest

from tests.heavy import HEAVY, kept, mark_heavy
from tests.looped import looped


class Case:
    """What the marking reads and changes of an item."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marks: list[str] = []

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)


def family(name: str, cases: int) -> list[Case]:
    return [Case(f"{name}[{at}]") for at in range(cases)]


@looped("cases, number, places", [(8, 2, {0, 4}), (7, 3, {0, 2, 4}), (5, 0, set()), (1, 1, {0}), (1, 2, {0})])
def test_cases_are_spread_over_the_list(cases: int, number: int, places: set[int]) -> None:
    assert kept(cases, number) == places


def test_all_cases_but_those_kept_are_slow() -> None:
    items = [case for name, number in HEAVY.items() for case in family(name, number + 3)]
    other = Case("tests/unit/test_heavy.py::test_another")
    mark_heavy([*items, other], whole=True)  # type: ignore[list-item]
    assert sum(not item.marks for item in items) == sum(HEAVY.values())
    assert not other.marks


def test_a_test_that_leaves_no_case_out_is_stale() -> None:
    name, number = next((name, number) for name, number in HEAVY.items() if number)
    few = family(name, number)
    with pytest.raises(pytest.UsageError, match=name):
        mark_heavy(few, whole=True)  # type: ignore[arg-type]
    mark_heavy(few, whole=False)  # type: ignore[arg-type]
    assert not any(case.marks for case in few)
