"""Rounds that took an input and whose opened sums an account does not know: kept, resolved, refunded."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from securefl.base.crypto.roster import Roster
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.leakage.unresolved import Given
from securefl.protocol.kernel.effects import AccountEntry, ClustersClosed, SumsGiven, UpdateGiven
from securefl.runtime.account.entries import Begun, ClosedClusters, Entry, Update
from securefl.runtime.account.file import AccountFile, begin_account
from securefl.runtime.account.run_account import OpenAccount, OwnData
from securefl.runtime.account.summary import (
    by_run,
    by_server,
    closed_entry,
    key_digest,
    sums_entry,
    unresolved_of,
    update_entry,
)
from securefl.training.data.shards import Shard
from tests.simulation.world import World, scenario
from tests.unit.account.test_account_summary import identities, joined, roster_of

MODEL = b"\x01" * 32
ME, P1, P2, P3 = (PartyId(f"p{k:02}") for k in range(4))
MINE, OTHERS = (ME, P1), (P2, P3)
DRAWN: Given = {MODEL: (MINE, OTHERS)}
SHARD = Shard(np.zeros((4, 2), np.float32), np.zeros(4, np.int64), 2, (2,))


def begun(roster: Roster) -> Begun:
    return Begun(name=ME, key=key_digest(roster.parties[ME]))


def given(round_: int = 0) -> UpdateGiven:
    return UpdateGiven(round_, 1, b"", DRAWN, 1)


def closed(rows: Given, *, refunded: bool, round_: int = 0) -> ClustersClosed:
    return ClustersClosed("first", round_, rows, refunded)


@pytest.fixture
def roster() -> Roster:
    return roster_of(identities("p00", "p01", "p02", "p03"))


@pytest.fixture
def taken(roster: Roster) -> tuple[Entry, ...]:
    """An account whose owner's input has left in round 0."""
    return begun(roster), joined(roster), update_entry(given(), roster)


def test_an_input_is_unresolved_until_its_sums_are_given(roster: Roster, taken: tuple[Entry, ...]) -> None:
    (one,) = unresolved_of(taken, roster)
    assert (one.run, one.round, one.silent) == ("first", 0, 1)
    assert (dict(one.drawn), set(one.stated)) == (DRAWN, {ME})
    assert by_run(taken)[0].unreleased == (0,)
    released = (*taken, sums_entry(0, {MODEL: (MINE,)}, roster))
    assert unresolved_of(released, roster) == ()
    assert by_run(released)[0].unreleased == ()


def test_closed_clusters_are_resolved_and_refunded(roster: Roster, taken: tuple[Entry, ...]) -> None:
    mine = (*taken, closed_entry(closed({MODEL: (MINE,)}, refunded=True), taken, roster))
    (left,) = unresolved_of(mine, roster)
    assert dict(left.drawn) == {MODEL: (OTHERS,)}
    (part,) = by_run(mine)
    assert (part.rounds, part.updates, set(part.refunded)) == ((0,), 0, {0})
    others = (*taken, closed_entry(closed({MODEL: (OTHERS,)}, refunded=False), taken, roster))
    assert by_run(others)[0].updates == 1
    both = (*mine, closed_entry(closed({MODEL: (OTHERS,)}, refunded=False), mine, roster))
    assert unresolved_of(both, roster) == ()


def test_a_refund_is_of_its_round_run_and_server_only(roster: Roster, taken: tuple[Entry, ...]) -> None:
    elsewhere = roster_of(identities("p00", "p01", "p02", "p03", salt=1))
    entries: tuple[Entry, ...] = (
        *taken,
        update_entry(given(1), roster),
        closed_entry(closed(DRAWN, refunded=True), taken, roster),
        joined(elsewhere),
        update_entry(given(), elsewhere),
    )
    assert [part.updates for part in by_run(entries)] == [1, 1]
    here, there = unresolved_of(entries, roster)
    assert (here.run, here.round) == ("first", 1)
    # No statement to this server is about a round of another one, whatever its run is called.
    assert there.run == ""


def test_rounds_of_another_server_are_apart_whatever_its_run_is_called(
    roster: Roster, taken: tuple[Entry, ...]
) -> None:
    """Sums that were given to it resolve none of this server's rounds, and it closes none of its clusters."""
    elsewhere = roster_of(identities("p00", "p01", "p02", "p03", salt=1))
    turned = UpdateGiven(0, 1, b"", {MODEL: (OTHERS, MINE)}, 1)
    entries = (
        *taken,
        joined(elsewhere),
        update_entry(turned, elsewhere),
        sums_entry(0, {MODEL: (MINE,)}, elsewhere),
    )
    (left,) = unresolved_of(entries, roster)
    assert (left.run, left.round, dict(left.drawn)) == ("first", 0, DRAWN)
    entry = closed_entry(closed({MODEL: (MINE,)}, refunded=True), entries, roster)
    assert entry.clusters == {MODEL.hex(): (0,)}
    here, there = (by_server(entries, key_digest(one.server)) for one in (roster, elsewhere))
    assert [part.unreleased for part in here] == [(0,)]
    assert [part.unreleased for part in there] == [()]


def test_members_are_found_by_their_keys(roster: Roster, taken: tuple[Entry, ...]) -> None:
    renamed = roster_of(identities("p00", "p01", "p02", "p03"), p00="anna", p01="p00")
    (one,) = unresolved_of(taken, renamed)
    assert one.drawn[MODEL][0] == ("anna", "p00")
    assert one.stated == {"anna"}


def test_accounts_of_earlier_versions_are_read() -> None:
    line = b'{"kind":"update","before":"%s","round":3,"count":1,"atom_seed":""}' % (b"0" * 64)
    old = msgspec.json.decode(line, type=Update)
    roster = roster_of(identities("p00", "p01"))
    assert unresolved_of((begun(roster), joined(roster), old), roster) == ()


def opened(folder: Path, world: World) -> AccountFile:
    owner = world.plan.roster.parties[ME]
    path = folder / "p00.account"
    if not path.exists():
        begin_account(path, owner)
    return AccountFile(path, owner, None)


def book_of(file: AccountFile, world: World) -> OpenAccount:
    return OpenAccount(file, world.plan, OwnData.of(SHARD))


def enter(folder: Path, world: World, entries: Iterable[AccountEntry]) -> None:
    with opened(folder, world) as file:
        book = book_of(file, world)
        for entry in entries:
            book.enter(entry)


def test_a_book_keeps_them_over_restarts(tmp_path: Path) -> None:
    world = World(scenario(4), length=4)
    run = world.plan.run
    enter(tmp_path, world, (given(0), given(1), given(2), SumsGiven(1, DRAWN)))
    with opened(tmp_path, world) as file:
        book = book_of(file, world)
        assert [(one.run, one.round) for one in book.unresolved] == [(run, 0), (run, 2)]
        assert book.unreleased == ((run, 0), (run, 2))
        assert book.refunded == frozenset()
    enter(tmp_path, world, (ClustersClosed(run, 0, DRAWN, refunded=True),))
    with opened(tmp_path, world) as file:
        book = book_of(file, world)
        assert [one.round for one in book.unresolved] == [2]
        assert book.refunded == {0}
        # Statements stay true, and mates may have missed them; and no round is begun twice.
        assert book.unreleased == ((run, 0), (run, 2))
        assert book.rounds == {0, 1, 2}


def test_clusters_that_no_line_has_drawn_cannot_be_closed(tmp_path: Path) -> None:
    world = World(scenario(4), length=4)
    enter(tmp_path, world, (given(0),))
    with opened(tmp_path, world) as file:
        file.append(ClosedClusters(of=world.plan.run, round=0, clusters={MODEL.hex(): (2,)}, refunded=True))
    with pytest.raises(ConfigError, match="closes clusters of a round that the account does not have"):
        opened(tmp_path, world)
