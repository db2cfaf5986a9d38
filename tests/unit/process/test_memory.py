"""What a party knows when it starts again: by its journal, and where that is lost by its account."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import PartyId
from securefl.methods.privacy.accountant import epsilon
from securefl.protocol.kernel.effects import (
    CHOSE,
    ChoiceGiven,
    Enter,
    Finished,
    Journal,
    RoundMissing,
    SumsGiven,
    UpdateGiven,
)
from securefl.protocol.round.party.phases import PartyContext
from securefl.protocol.round.shared.choices import NO_CHOICE, LastChoice
from securefl.runtime.account.file import AccountFile, begin_account
from securefl.runtime.account.head import AccountHead
from securefl.runtime.account.run_account import OpenAccount, OwnData
from securefl.runtime.account.summary import key_digest
from securefl.runtime.process.journal import FileJournal
from securefl.runtime.process.memory import open_memory
from securefl.runtime.process.privacy import own_releases
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.transport.base import parse_broker_url
from tests.simulation.world import RUN, World, scenario
from tests.unit.account.test_account_summary import SHARD
from tests.unit.privacy.scenarios import PARTY
from tests.unit.process.test_privacy import plan
from tests.unit.process.test_shell import Line, Script, play, shell

ME = PartyId("p00")
SEED = b"\x07" * 32


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[World, ProcessSettings]:
    """A party that has submitted in rounds 0 and 2 of a run, by its account."""
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "state"))
    world = World(scenario())
    settings = ProcessSettings(
        scenario=world.scenario,
        run=RUN,
        name=ME,
        identity=world.identities[ME],
        roster_file=tmp_path / "roster",
        broker=parse_broker_url("mqtt://localhost"),
        data_file=tmp_path / "data",
        out=tmp_path,
        account=tmp_path / "p00.account",
    )
    assert settings.account is not None
    owner = world.identities[ME].public
    begin_account(settings.account, owner)
    with AccountFile(settings.account, owner, AccountHead.of(key_digest(owner))) as file:
        book = OpenAccount(file, world.plan, OwnData.of(SHARD))
        book.enter(UpdateGiven(0, 1, SEED))
        book.enter(UpdateGiven(2, 1, SEED))
    return world, settings


def test_a_lost_journal_forgets_nothing_that_the_account_knows(
    made: tuple[World, ProcessSettings],
) -> None:
    world, settings = made
    with open_memory(settings, world.identities[ME], world.plan, OwnData.of(SHARD)) as memory:
        assert memory.journal.spent == -1
        assert (memory.spent, memory.releases, memory.atom_seed) == (2, 2, SEED)


def test_rounds_that_both_know_count_once(made: tuple[World, ProcessSettings]) -> None:
    world, settings = made
    journal = FileJournal(settings.out / "p00.journal", RUN)
    for round_ in (2, 3):
        journal.note(round_, "submitted")
    with open_memory(settings, world.identities[ME], world.plan, OwnData.of(SHARD)) as memory:
        assert (memory.spent, memory.releases) == (3, 3)


def test_the_last_group_that_was_named_is_kept_without_a_journal(made: tuple[World, ProcessSettings]) -> None:
    """By the account alone, and by whichever of the two has seen more choices."""
    world, settings = made
    with open_memory(settings, world.identities[ME], world.plan, OwnData.of(SHARD)) as memory:
        assert memory.choice == NO_CHOICE
        assert memory.account is not None
        memory.account.enter(ChoiceGiven(0, 2.0, 1, 0))
        memory.account.enter(ChoiceGiven(1, 2.0, 2, 3))
    with open_memory(settings, world.identities[ME], world.plan, OwnData.of(SHARD)) as memory:
        assert memory.choice == LastChoice(2, 3)
        memory.journal.note(2, f"{CHOSE}3 1")
    with open_memory(settings, world.identities[ME], world.plan, OwnData.of(SHARD)) as memory:
        assert memory.choice == LastChoice(3, 1)


def test_a_server_whose_chain_lacks_three_rounds_in_a_row_is_left_before_a_connection(
    made: tuple[World, ProcessSettings],
) -> None:
    world, settings = made
    for round_ in (3, 4, 5):
        with open_memory(settings, world.identities[ME], world.plan, OwnData.of(SHARD)) as memory:
            assert memory.account is not None
            memory.account.enter(UpdateGiven(round_, 1, SEED))
            memory.account.enter(RoundMissing(round_))
    refused = pytest.raises(ConfigError, match="3 rounds in a row took its updates and are missing")
    with refused, open_memory(settings, world.identities[ME], world.plan, OwnData.of(SHARD)):
        pass


def test_the_shell_enters_what_is_given_in_the_account_and_stops_where_it_cannot() -> None:
    class Book:
        def __init__(self, left: int) -> None:
            self.left = left
            self.entered: list[UpdateGiven | SumsGiven] = []

        def enter(self, entry: UpdateGiven | SumsGiven) -> None:
            if not self.left:
                raise RunAbortedError("account: full")
            self.left -= 1
            self.entered.append(entry)

    update, sums = UpdateGiven(0, 1), SumsGiven(0, {})
    effects = (Enter(update), Enter(sums), Finished("done"))
    book = Book(2)
    assert play(lambda: shell(Script(effects), Line(), account=book, me=ME)) == Finished("done")
    assert book.entered == [update, sums]

    class Notes:
        def __init__(self) -> None:
            self.noted: list[int] = []

        def note(self, round_: int, _step: str) -> None:
            self.noted.append(round_)

    full, notes = Book(1), Notes()
    after = (Enter(update), Enter(sums), Journal(0, "released"))
    with pytest.raises(RunAbortedError, match="full"):
        play(lambda: shell(Script(after), Line(), account=full, journal=notes, me=ME))
    assert notes.noted == []


class TestOwnBudget:
    def test_epsilon_in_the_account_comes_off_it(self) -> None:
        made = plan(*PARTY, "privacy.multiplier=2", "privacy.budget=20", "stop.rounds=8")
        mechanism = made.mechanism
        assert mechanism is not None
        three = epsilon((mechanism.event.times(3),), mechanism.delta) + 0.01
        assert own_releases(made, three, 0.0, lambda _unit: 0.0) == 3
        for limit, budget in ((None, 20.0), (three + 9.0, three + 9.0)):
            earlier = budget - three
            assert own_releases(made, limit, 0.0, lambda _unit, e=earlier: e) == 3  # type: ignore[misc]
            assert own_releases(made, limit, 1.0, lambda _unit, e=earlier: e - 1) == 3  # type: ignore[misc]

    def test_nothing_is_left_after_a_release_without_noise(self) -> None:
        made = plan(*PARTY, "privacy.multiplier=2", "privacy.budget=20")
        with pytest.raises(ConfigError, match="without noise that hides a whole party: no epsilon can"):
            own_releases(made, None, 0.0, lambda _unit: math.inf)


@pytest.mark.parametrize("own_account", [True, False])
def test_a_context_has_every_field_that_outlasts_a_process(
    own_account: bool,
    made: tuple[World, ProcessSettings],
) -> None:
    """A field that is left out begins empty: the party would forget what it has released."""
    world, settings = made
    at_start = {"plan", "me", "samples", "entropy", "seams", "identity", "first", "prepared", "software"}
    at_start |= {"trains_last"}
    of_account = {"released_sums", "unresolved", "rounds_without_release", "outcomes", "unknown_outcomes"}
    known = settings if own_account else replace(settings, account=None)
    with open_memory(known, world.identities[ME], world.plan, OwnData.of(SHARD)) as memory:
        found = memory.context(world.plan)
    missing = {one.name for one in fields(PartyContext)} - at_start - found.keys()
    assert missing == (set() if own_account else of_account)
    assert (found["last_spent_round"], found["releases"]) == ((2, 2) if own_account else (-1, 0))
    assert bool(found.get("rounds_without_release")) == own_account
