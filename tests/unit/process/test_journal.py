"""The party's durable memory: what was noted stays, what cannot be noted stops the party."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import PartyId, RunId
from securefl.protocol.kernel.effects import ANNOUNCED, ATOMS, DREW, ROOT
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import Idle, PartyHistory
from securefl.runtime.process.journal import FileJournal
from tests.simulation.world import World, scenario

RUN = RunId("r1")


def entry(round_: int, run: str = "r1") -> str:
    return f'{{"run": "{run}", "round": {round_}, "step": "submitted"}}\n'


def test_what_was_noted_is_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "p00.journal"
    journal = FileJournal(path, RUN)
    assert journal.spent == -1
    assert not path.exists(), "a party that has done nothing leaves nothing"
    for round_, step in ((0, "submitted"), (0, "released"), (3, "submitted")):
        journal.note(round_, step)
    assert FileJournal(path, RUN).spent == 3
    assert FileJournal(path, RunId("another")).spent == -1


def test_another_runs_entries_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "p00.journal"
    FileJournal(path, RunId("first")).note(7, "released")
    FileJournal(path, RUN).note(1, "submitted")
    assert FileJournal(path, RunId("first")).spent == 7
    assert FileJournal(path, RUN).spent == 1


def test_the_last_root_of_a_run_is_kept_and_is_no_round(tmp_path: Path) -> None:
    path = tmp_path / "p00.journal"
    journal = FileJournal(path, RUN)
    journal.note(0, "submitted")
    for round_, root in enumerate((b"\1" * 32, b"\2" * 32)):
        journal.note(round_, ROOT + root.hex())
    again = FileJournal(path, RUN)
    assert (again.root, again.rooted) == (b"\2" * 32, 1)
    assert (again.spent, again.submitted) == (0, frozenset({0})), "to follow a model is not to submit"
    another = FileJournal(path, RunId("another"))
    assert (another.root, another.rooted) == (b"", -1)


def test_the_atoms_of_a_run_are_kept(tmp_path: Path) -> None:
    path, seed = tmp_path / "p00.journal", bytes(range(32))
    FileJournal(path, RUN).note(1, ATOMS + seed.hex())
    FileJournal(path, RUN).note(1, "submitted")
    assert FileJournal(path, RUN).atom_seed == seed
    assert FileJournal(path, RUN).submitted == {1}
    assert FileJournal(path, RunId("another")).atom_seed == b""


def test_a_restarted_party_sits_out_the_round_it_had_begun(tmp_path: Path) -> None:
    path = tmp_path / "p00.journal"
    FileJournal(path, RUN).note(4, "submitted")
    FileJournal(path, RUN).note(4, "released")
    FileJournal(path, RUN).note(2, "submitted")
    journal = FileJournal(path, RUN)
    assert journal.submitted == {2, 4}

    machine = World(scenario(6)).nodes[PartyId("p00")].machine
    assert isinstance(machine, PartyMachine)
    phase, _ = PartyMachine(replace(machine._ctx, last_spent_round=journal.spent, releases=2)).start(0.0)
    assert phase == Idle(PartyHistory(4, 2))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (entry(0).encode() + b'{"run": "r1", "round": 1, "step": "atoms xyz"}\n', 2),
        (b'{"run": "r1", "round": 1}\n', 1),
        (b"nonsense\n", 1),
        (entry(0).encode() + b"\n", 2),
        (entry(0).encode() + b'{"run": "r1"}\n', 2),
        (b'{"run": "r1", "round": "two"}\n', 1),
        (b"[1, 2]\n", 1),
        (b"null\n", 1),
        (b"\xff\xfe\n" + entry(0).encode(), 1),
        (b"[" * 100_000 + b"\n", 1),
    ],
)
def test_a_corrupt_journal_is_refused_with_its_line(content: bytes, line: int, tmp_path: Path) -> None:
    path = tmp_path / "p00.journal"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        FileJournal(path, RUN)
    assert caught.value.path == f"{path}:{line}"
    assert "join a new run" in str(caught.value)
    assert path.read_bytes() == content


def test_a_journal_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        FileJournal(tmp_path, RUN)


@pytest.mark.parametrize("cut", [1, 5, len(entry(2)) - 1])
def test_an_entry_cut_off_by_a_crash_is_dropped_and_the_next_one_is_whole(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "p00.journal"
    path.write_text(entry(1) + entry(2)[:cut])
    journal = FileJournal(path, RUN)
    assert journal.spent == 1
    journal.note(5, "submitted")
    assert path.read_text() == entry(1) + entry(5)
    assert FileJournal(path, RUN).spent == 5


def test_a_full_disk_aborts_and_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p00.journal"
    journal = FileJournal(path, RUN)
    journal.note(0, "submitted")
    before = path.read_bytes()

    def no_space(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("securefl.runtime.process.journal.os.fsync", no_space)
        with pytest.raises(RunAbortedError, match=r"p00\.journal: No space left on device") as caught:
            journal.note(1, "submitted")
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    journal.note(1, "submitted")
    assert FileJournal(path, RUN).spent == 1


def test_a_missing_folder_aborts(tmp_path: Path) -> None:
    with pytest.raises(RunAbortedError, match="No such file"):
        FileJournal(tmp_path / "gone" / "p00.journal", RUN).note(0, "submitted")


class TestOfAServer:
    """Only the last round counts, so that the file need not grow with the rounds."""

    BOUND = 1000

    def said(self, path: Path, run: RunId = RUN) -> tuple[int, object, bytes]:
        """What a server that goes on takes from a journal."""
        journal = FileJournal(path, run)
        return journal.spent, journal.drew, journal.atom_seed

    def rounds(self, count: int, seed: int = 0) -> list[tuple[int, str]]:
        """Entries of so many rounds; now and then one draws again, and the fifth forms atoms."""
        rng, found = random.Random(seed), []
        for round_ in range(count):
            for _draw in range(rng.choice((1, 1, 2))):
                found.append((round_, ANNOUNCED))
                if round_ == 5:
                    found.append((round_, ATOMS + bytes([seed] * 32).hex()))
                found.append((round_, f"{DREW}p00,p{rng.randrange(10, 99)}/p01,p02"))
        return found[: len(found) - rng.choice((0, 1))]

    @pytest.mark.parametrize("seed", range(8))
    def test_it_says_after_each_entry_what_one_that_drops_nothing_says(
        self, seed: int, tmp_path: Path
    ) -> None:
        short, long = tmp_path / "short", tmp_path / "long"
        bounded, unbounded = FileJournal(short, RUN, self.BOUND), FileJournal(long, RUN)
        for round_, step in self.rounds(40, seed):
            bounded.note(round_, step)
            unbounded.note(round_, step)
            assert self.said(short) == self.said(long)
            assert short.stat().st_size < self.BOUND + 200
        assert long.stat().st_size > 3 * self.BOUND

    def test_the_last_round_is_the_highest_one_whatever_came_after_it(self, tmp_path: Path) -> None:
        """A disk that was rolled back a little says so; a party has heard of the later one."""
        path = tmp_path / "server.journal"
        for round_, step in ((7, ANNOUNCED), (3, ANNOUNCED), (3, f"{DREW}p00,p01"), (3, ANNOUNCED)):
            FileJournal(path, RUN, bound=1).note(round_, step)
        assert self.said(path) == (7, (), b"")

    def test_a_journal_of_before_goes_on_and_entries_of_other_runs_stay(self, tmp_path: Path) -> None:
        path, other = tmp_path / "server.journal", RunId("another")
        for run in (other, RUN):
            for round_, step in self.rounds(30):
                FileJournal(path, run).note(round_, step)
        theirs = self.said(path, other)
        FileJournal(path, RUN, self.BOUND).note(30, ANNOUNCED)
        lines = path.read_text().splitlines()
        assert sum('"another"' in line for line in lines) == len(self.rounds(30))
        assert sum('"r1"' in line for line in lines) < 10
        assert self.said(path, other) == theirs
        assert self.said(path) == (30, (), bytes(32))

    def test_an_entry_that_a_crash_cut_off_is_dropped(self, tmp_path: Path) -> None:
        path = tmp_path / "server.journal"
        path.write_text(entry(1) + entry(2)[:20])
        journal = FileJournal(path, RUN, bound=1)
        journal.note(2, "submitted")
        assert path.read_text() == entry(1) + entry(2)
        journal.note(3, "submitted")
        assert path.read_text() == entry(2) + entry(3)

    @pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace"])
    def test_a_disk_that_fails_leaves_it_as_it_was(
        self, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "server.journal"
        for round_, step in self.rounds(20):
            FileJournal(path, RUN).note(round_, step)
        journal, before = FileJournal(path, RUN, self.BOUND), path.read_bytes()

        def no_space(*_arguments: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(where, no_space)
            with pytest.raises(RunAbortedError, match="No space left on device"):
                journal.note(20, ANNOUNCED)
        assert [one.name for one in tmp_path.iterdir()] == [path.name]
        assert path.read_bytes() == before
        journal.note(20, ANNOUNCED)
        assert self.said(path)[0] == 20
        assert len(path.read_bytes()) < len(before)

    @pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace"])
    def test_who_is_killed_as_it_is_written_anew_has_the_one_before(
        self, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "server.journal"
        for round_, step in self.rounds(20):
            FileJournal(path, RUN).note(round_, step)
        before, said = path.read_bytes(), self.said(path)

        class Killed(BaseException):
            pass

        def kill(*_arguments: object) -> None:
            raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(where, kill)
            with pytest.raises(Killed):
                FileJournal(path, RUN, self.BOUND).note(20, ANNOUNCED)
        assert path.read_bytes() == before
        assert self.said(path) == said

    def test_a_line_that_is_none_is_not_written_over(self, tmp_path: Path) -> None:
        path = tmp_path / "server.journal"
        journal = FileJournal(path, RUN, bound=1)
        path.write_text("nonsense\n")
        with pytest.raises(ConfigError, match="is not a journal entry"):
            journal.note(0, ANNOUNCED)
        assert path.read_text() == "nonsense\n"
