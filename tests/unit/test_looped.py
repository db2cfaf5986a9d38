"""A loop in a test reports each case that fails, and runs the others."""

from __future__ import annotations

import pytest

from tests.looped import looped


@looped("number", range(3))
def test_fixtures_are_those_of_the_test(number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert tmp_path_factory.getbasetemp().exists()
    assert number in range(3)


def test_each_case_runs_once() -> None:
    run: list[tuple[int, str]] = []

    @looped("number, name", [(1, "a"), (2, "b")])
    def note(number: int, name: str) -> None:
        run.append((number, name))

    note()
    assert run == [(1, "a"), (2, "b")]


def test_all_failures_are_reported_with_their_cases() -> None:
    @looped("one, other", [(1, 1), (1, 2), (2, 3)])
    def differ(one: int, other: int) -> None:
        assert one == other

    with pytest.raises(ExceptionGroup, match="2 of 3 cases failed") as raised:
        differ()
    assert [error.__notes__ for error in raised.value.exceptions] == [
        ["case: one, other = (1, 2)"],
        ["case: one, other = (2, 3)"],
    ]


def test_one_failure_is_raised_as_it_is() -> None:
    @looped("number", [1, 0, 2])
    def divide(number: int) -> None:
        assert 1 / number

    with pytest.raises(ZeroDivisionError) as raised:
        divide()
    assert raised.value.__notes__ == ["case: number = 0"]


def test_an_expected_error_that_does_not_come_is_a_failure() -> None:
    @looped("number", [0, 1, 2])
    def divide(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            assert 1 / number

    with pytest.raises(ExceptionGroup, match="2 of 3"):
        divide()


def test_no_case_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="no case"):
        looped("number", [])(lambda number: None)()
