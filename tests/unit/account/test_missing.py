"""Missing rounds in an account: counted by the server's key over restarts and runs, until forgiven."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.base.crypto.roster import Roster
from securefl.base.ids import RunId
from securefl.protocol.kernel.effects import ClustersClosed, RoundMissing, UpdateGiven
from securefl.protocol.round.shared.missing import (
    IN_A_ROW,
    WINDOW,
    WITHIN,
    RoundOutcome,
    reason_to_leave,
    with_outcomes,
    without_rounds,
)
from securefl.runtime.account.entries import Entry, Forgiven, Missing, Update
from securefl.runtime.account.summary import closed_entry, key_digest, outcomes_of, update_entry
from tests.simulation.world import RUN, World, scenario
from tests.unit.account.test_account_summary import identities, joined, roster_of
from tests.unit.account.test_unresolved import DRAWN, book_of, closed, enter, opened


def ended(missing: list[bool]) -> tuple[RoundOutcome, ...]:
    return with_outcomes((), [RoundOutcome("run", round_, one) for round_, one in enumerate(missing)])


@pytest.mark.parametrize(
    ("missing", "leaves"),
    [
        ([], False),
        ([True] * (IN_A_ROW - 1), False),
        ([False, *[True] * IN_A_ROW], True),
        ([*[True] * IN_A_ROW, False], False),
        ([True, True, False] * 4 + [True], False),
        ([True, True, False] * 4 + [True, True], True),
        ([*[True, False] * WITHIN, *[False] * (WINDOW - 2 * WITHIN)], True),
        ([*[True, False] * WITHIN, *[False] * (WINDOW - 2 * WITHIN + 1)], False),
    ],
)
def test_three_in_a_row_or_ten_of_thirty(missing: list[bool], leaves: bool) -> None:
    assert bool(reason_to_leave(ended(missing))) is leaves


def test_refunded_rounds_are_taken_out_of_the_row() -> None:
    row = ended([True, True, True])
    assert reason_to_leave(row)
    assert not reason_to_leave(without_rounds(row, {("run", 1)}))
    assert reason_to_leave(without_rounds(row, {("other", 1)}))


@pytest.fixture
def roster() -> Roster:
    return roster_of(identities("p00", "p01", "p02", "p03"))


Found = tuple[list[tuple[str, int, bool]], tuple[int, ...]]


def found(entries: tuple[Entry, ...], roster: Roster, run: str = "first") -> Found:
    outcomes, taken = outcomes_of(entries, RunId(run), key_digest(roster.server))
    return [(one.run, one.round, one.missing) for one in outcomes], taken


def test_outcomes_add_up_over_runs_of_one_server(roster: Roster) -> None:
    other = roster_of(identities("p00", "p01", "p02", "p03", salt=1))
    entries: tuple[Entry, ...] = (
        joined(roster),
        Update(round=0, count=1),
        Update(round=1, count=1),
        Missing(round=1),
        Missing(round=2),
        Update(round=3, count=1),
        joined(other),
        Update(round=0, count=1),
        Missing(round=0),
        joined(roster, "second"),
        Update(round=0, count=1),
    )
    # The last round of a run has no outcome: no link follows it. In round 2 the update waited.
    first = [("first", 0, False), ("first", 1, True), ("first", 2, True)]
    assert found(entries, roster) == (first, (3,))
    assert found(entries, roster, "second") == (first, (0,))
    whole = (*entries, Missing(round=0))
    assert found(whole, roster, "second") == ([*first, ("second", 0, True)], ())
    assert found(entries, other) == ([("first", 0, True)], ())
    assert found((*whole, Forgiven()), roster) == ([], (3,))


def test_refunds_count_as_neither(roster: Roster) -> None:
    update = update_entry(UpdateGiven(0, 1, b"", DRAWN, 1), roster)
    taken: tuple[Entry, ...] = (joined(roster), update, Missing(round=0))
    assert found(taken, roster) == ([("first", 0, True)], ())
    assert found((*taken, closed_entry(closed(DRAWN, refunded=True), taken, roster)), roster) == ([], ())
    kept = closed_entry(closed(DRAWN, refunded=False), taken, roster)
    assert found((*taken, kept), roster) == ([("first", 0, True)], ())


def test_a_book_keeps_them_over_restarts(tmp_path: Path) -> None:
    world = World(scenario(4), length=4)
    rounds = [UpdateGiven(r, 1, b"", DRAWN, 1) for r in range(4)]
    enter(tmp_path, world, (rounds[0], RoundMissing(0), rounds[1], RoundMissing(1), rounds[2]))
    with opened(tmp_path, world) as file:
        book = book_of(file, world)
        assert [one.round for one in book.outcomes] == [0, 1]
        assert book.taken == (2,)
        assert not reason_to_leave(book.outcomes)
    enter(tmp_path, world, (RoundMissing(2),))
    with opened(tmp_path, world) as file:
        assert reason_to_leave(book_of(file, world).outcomes)
        file.append(Forgiven())
        assert not reason_to_leave(book_of(file, world).outcomes)
    enter(tmp_path, world, (ClustersClosed(RUN, 2, DRAWN, refunded=True),))
    with opened(tmp_path, world) as file:
        assert book_of(file, world).taken == ()
