"""What an account's entries mean: sums of all runs under one name, updates, epsilon."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from securefl.base.crypto.identity import Identity
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.methods.leakage.unresolved import NOTHING_GIVEN
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.release import ReleaseEvent
from securefl.protocol.kernel.effects import SumsGiven, UpdateGiven
from securefl.runtime.account.entries import Entry, GroupNamed, Run, Update
from securefl.runtime.account.file import AccountFile, begin_account
from securefl.runtime.account.run_account import OpenAccount, OwnData
from securefl.runtime.account.summary import (
    by_run,
    chosen_epsilon,
    given_of,
    key_digest,
    of_run,
    spent_epsilon,
    sums_entry,
)
from securefl.training.data.shards import Shard
from tests.simulation.world import World, scenario

A, B = b"\x01" * 32, b"\x02" * 32
NOISE = ReleaseEvent(noise_multiplier=2.0, steps=5, unit="record", sampler="poisson", records=100, batch=10)
FAINT = {
    "privacy__unit": '"party"',
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "64.0",
    "encoding__scale_bits": "2",
}
LOUD = FAINT | {"privacy__multiplier": "0.75"}
SHARD = Shard(np.zeros((4, 2), np.float32), np.zeros(4, np.int64), 2, (2,))


def identities(*names: str, salt: int = 0) -> dict[PartyId, Identity]:
    root = InsecureSeededEntropy(salt)
    return {PartyId(n): Identity.generate(PartyId(n), root.child(n)) for n in (*names, SERVER)}


def roster_of(made: dict[PartyId, Identity], **renamed: str) -> Roster:
    parties = {}
    for name, one in made.items():
        if name != SERVER:
            other = PartyId(renamed.get(name, name))
            parties[other] = type(one.public)(other, one.public.verify_key, one.public.seal_key)
    return Roster(made[PartyId(SERVER)].public, parties)


def joined(roster: Roster, run: str = "first", event: ReleaseEvent | None = None, delta: float = 1e-5) -> Run:
    return Run(
        run=run,
        scenario="s",
        server=key_digest(roster.server),
        parties=tuple(key_digest(roster.parties[name]) for name in sorted(roster.parties)),
        data="dd",
        samples=4,
        event=event,
        delta=delta if event else 0.0,
    )


def test_sums_come_back_as_they_were_given() -> None:
    roster = roster_of(identities("p00", "p01", "p02"))
    given = {A: ((PartyId("p00"), PartyId("p02")), (PartyId("p01"),)), B: ((PartyId("p01"), PartyId("p02")),)}
    assert given_of((joined(roster), sums_entry(0, given, roster)), roster) == given


def test_keys_say_who_was_in_a_sum_whatever_they_are_called_now() -> None:
    made = identities("p00", "p01", "p02")
    then = roster_of(made)
    now = roster_of(made, p00="anna", p01="p00", p02="berta")
    entries = (joined(then), sums_entry(0, {A: ((PartyId("p00"), PartyId("p01")),)}, then))
    assert given_of(entries, now) == {A: ((PartyId("anna"), PartyId("p00")),)}


def test_members_of_a_sum_are_those_of_the_roster_that_it_was_given_under() -> None:
    """A party that joins a run once more joins it with the roster of that day: places mean other members."""
    made = identities("p00", "p01", "p02", "p03")
    all_, fewer = roster_of(made), roster_of({n: one for n, one in made.items() if n != "p01"})
    early = {A: ((PartyId("p00"), PartyId("p01")),)}
    late = {B: ((PartyId("p02"), PartyId("p03")),)}
    entries = (joined(all_), sums_entry(0, early, all_), joined(fewer), sums_entry(1, late, fewer))
    assert given_of(entries, all_) == early | late


def test_whoever_left_keeps_a_column_of_its_own() -> None:
    then = roster_of(identities("p00", "p01", "p02"))
    entries = (joined(then), sums_entry(0, {A: ((PartyId("p00"), PartyId("p01"), PartyId("p02")),)}, then))
    ((row,),) = given_of(entries, roster_of(identities("p00", salt=9))).values()
    assert len(set(row)) == 3
    assert PartyId("p00") not in row, "the same name with another key is another party"


def test_a_run_counts_rounds_once_however_often_its_party_was_started() -> None:
    roster = roster_of(identities("p00", "p01"))
    run, other = joined(roster), joined(roster, "second")
    rows: tuple[Entry, ...] = (
        run,
        Update(round=0, count=2),
        run,
        Update(round=0, count=2),
        Update(round=3, count=2, atom_seed="0102"),
        other,
        Update(round=0, count=1),
    )
    first, second = by_run(rows)
    assert (first.run.run, first.rounds, first.updates, first.atom_seed) == ("first", (0, 3), 4, b"\x01\x02")
    assert (second.rounds, second.updates, second.atom_seed) == ((0,), 1, b"")


def test_an_id_that_comes_again_with_another_server_is_another_run() -> None:
    one, other = (joined(roster_of(identities("p00", salt=salt))) for salt in (1, 2))
    assert len(by_run((one, Update(round=0, count=1), other, Update(round=0, count=1)))) == 2


def test_measured_updates_tell_a_bit_for_each_sum_that_was_measured() -> None:
    """Where a run goes on with more sums in a round, each round counts those of its own time."""
    roster = roster_of(identities("p00", "p01"))
    once, thrice = (structs.replace(joined(roster), validated=count) for count in (1, 3))
    rows: tuple[Entry, ...] = (
        once,
        Update(round=0, count=1),
        Update(round=1, count=1),
        thrice,
        Update(round=2, count=1),
    )
    assert [one.bits for one in by_run(rows)] == [2, 3]


class TestSpentEpsilon:
    def test_is_of_all_releases_together(self) -> None:
        roster = roster_of(identities("p00", "p01"))
        rows: list[Entry] = []
        for number, run in enumerate(("a", "b", "c")):
            rows += [joined(roster, run, NOISE), *(Update(round=r, count=1) for r in range(number + 1))]
        assert spent_epsilon(rows, "record") == pytest.approx(epsilon([NOISE.times(6)], 1e-5), rel=1e-6)
        assert spent_epsilon(rows, "record") < 3 * epsilon([NOISE.times(2)], 1e-5)

    def test_does_not_count_the_run_that_goes_on(self) -> None:
        roster = roster_of(identities("p00", "p01"))
        rows = (joined(roster, "a", NOISE), Update(round=0, count=1))
        assert spent_epsilon(rows, "record", but=joined(roster, "a", NOISE)) == 0.0
        assert spent_epsilon(rows, "record", but=joined(roster, "b", NOISE)) > 0.0

    def test_counts_each_release_of_one_run_id_by_its_own_noise(self) -> None:
        roster = roster_of(identities("p00", "p01"))
        loud, faint = joined(roster, "a", NOISE), joined(roster, "a", replace(NOISE, noise_multiplier=0.7))
        rows = (loud, Update(round=0, count=1), faint, Update(round=1, count=1))
        both = epsilon([replace(NOISE, noise_multiplier=0.7), NOISE], 1e-5)
        assert spent_epsilon(rows, "record") == pytest.approx(both, rel=1e-3)
        assert spent_epsilon(rows, "record", but=loud) > epsilon([NOISE.times(2)], 1e-5)

    def test_is_infinite_after_a_run_id_went_on_without_noise(self) -> None:
        roster = roster_of(identities("p00", "p01"))
        rows = (
            joined(roster, "a", NOISE),
            Update(round=0, count=1),
            joined(roster, "a"),
            Update(round=1, count=1),
        )
        assert math.isinf(spent_epsilon(rows, "record"))
        assert math.isinf(spent_epsilon(rows, "record", but=joined(roster, "a", NOISE)))
        both = of_run(rows, RunId("a"), key_digest(roster.server))
        assert both is not None
        assert both.rounds == (0, 1)

    def test_is_infinite_after_a_release_without_noise(self) -> None:
        roster = roster_of(identities("p00", "p01"))
        assert spent_epsilon((joined(roster),), "record") == 0.0
        assert math.isinf(spent_epsilon((joined(roster), Update(round=0, count=1)), "record"))

    def test_of_a_whole_party_is_infinite_where_only_records_were_hidden(self) -> None:
        rows = (joined(roster_of(identities("p00", "p01")), "a", NOISE), Update(round=0, count=1))
        assert math.isinf(spent_epsilon(rows, "party"))

    def test_takes_the_smallest_delta(self) -> None:
        roster = roster_of(identities("p00", "p01"))
        rows = (
            joined(roster, "a", NOISE, 1e-7),
            Update(round=0, count=1),
            joined(roster, "b", NOISE, 1e-5),
            Update(round=0, count=1),
        )
        assert spent_epsilon(rows, "record") == pytest.approx(epsilon([NOISE.times(2)], 1e-7), rel=1e-6)


class TestRunBook:
    def open(self, folder: Path, world: World) -> tuple[AccountFile, OpenAccount]:
        path, owner = folder / "p00.account", world.plan.roster.parties[PartyId("p00")]
        if not path.exists():
            begin_account(path, owner)
        file = AccountFile(path, owner, None)
        return file, OpenAccount(file, world.plan, OwnData.of(SHARD))

    def test_leaves_no_trace_of_a_run_that_it_gave_nothing_to(self, tmp_path: Path) -> None:
        file, book = self.open(tmp_path, World(scenario()))
        assert len(file.entries) == 1
        file.close()
        assert (book.rounds, book.atom_seed, book.given) == (frozenset(), b"", NOTHING_GIVEN)

    def test_knows_when_started_again_what_it_had_entered(self, tmp_path: Path) -> None:
        world = World(scenario())
        file, book = self.open(tmp_path, world)
        rows = {A: ((PartyId("p00"), PartyId("p01")),)}
        book.enter(UpdateGiven(2, 1, b"seed"))
        book.enter(SumsGiven(2, rows))
        file.close()
        file, again = self.open(tmp_path, world)
        again.enter(UpdateGiven(3, 1))
        assert (set(again.rounds), again.atom_seed, dict(again.given)) == ({2}, b"seed", rows)
        assert sum(isinstance(entry, Run) for entry in file.entries) == 1
        assert by_run(file.entries)[0].run.run == RunId("test")
        file.close()

    def test_enters_the_run_again_where_its_noise_is_another(self, tmp_path: Path) -> None:
        """A server that goes on with other noise, or without any, does so under the same run id."""
        entered = []
        worlds = [World(scenario(12, **more), length=16) for more in ({}, FAINT, LOUD)]
        for number, world in enumerate((*worlds, worlds[-1])):
            file, book = self.open(tmp_path, world)
            book.enter(UpdateGiven(number, 1))
            entered = list(file.entries)
            file.close()
        noise = [world.plan.mechanism for world in worlds]
        assert [one.run.event for one in by_run(entered)] == [one and one.event for one in noise]
        assert [one.run.delta for one in by_run(entered)] == [one.delta if one else 0.0 for one in noise]
        assert [one.rounds for one in by_run(entered)] == [(0,), (1,), (2, 3)]
        assert sum(isinstance(entry, Run) for entry in entered) == 3

    def test_names_the_data_by_what_they_are(self, tmp_path: Path) -> None:
        """Another value, label, shape or type is other data; where they lie in memory is not."""
        world, entered = World(scenario()), []
        x = np.arange(8, dtype=np.float32).reshape(4, 2)
        y = np.zeros(4, np.int64)
        turned = np.asfortranarray(x)
        for number, shard in enumerate(
            (
                Shard(x, y, 2, (2,)),
                Shard(turned, y, 2, (2,)),
                Shard(x + 1, y, 2, (2,)),
                Shard(x, y + 1, 2, (2,)),
                Shard(x.reshape(4, 2, 1), y, 2, (2, 1)),
                Shard(x.astype(np.int64), y, 2, (2,)),
            )
        ):
            path = tmp_path / f"{number}.account"
            owner = world.plan.roster.parties[PartyId("p00")]
            begin_account(path, owner)
            with AccountFile(path, owner, None) as file:
                OpenAccount(file, world.plan, OwnData.of(shard)).enter(UpdateGiven(0, 1))
                entered.append(by_run(file.entries)[0].run.data)
        assert entered[0] == entered[1]
        assert len(set(entered)) == 5


def test_choices_count_in_a_budget_whether_or_not_updates_left() -> None:
    """A server that voids every round behind an answer gets another one in the next run."""
    roster = roster_of(identities("a", "b"))
    entries: list[Entry] = []
    for number in range(50):
        entries += [joined(roster, f"run-{number}"), GroupNamed(round=0, epsilon=8.0, made=1, group=1)]
    assert spent_epsilon(entries, "record") == spent_epsilon(entries, "party") == 400.0
    assert spent_epsilon(entries, "party", joined(roster, "run-7")) == 392.0, (
        "the run that goes on has its own"
    )
    noisy: list[Entry] = [joined(roster, "noisy", NOISE), Update(round=0, count=1)]
    alone = spent_epsilon(noisy, "record")
    assert spent_epsilon([*noisy, *entries], "record") == pytest.approx(400.0 + alone)


def test_choices_of_a_run_that_goes_on_are_those_of_its_server() -> None:
    """Another server may take the same run id; a choice that was named to it is spent."""
    here, elsewhere = (joined(roster_of(identities("a", "b", salt=salt))) for salt in (1, 2))
    entries: list[Entry] = []
    for run, epsilon_ in ((here, 1.0), (elsewhere, 8.0)):
        entries += [run, GroupNamed(round=0, epsilon=epsilon_, made=1, group=1)]
    assert chosen_epsilon(entries) == 9.0
    assert chosen_epsilon(entries, but=here) == spent_epsilon(entries, "party", but=here) == 8.0
    assert chosen_epsilon(entries, but=elsewhere) == 1.0
