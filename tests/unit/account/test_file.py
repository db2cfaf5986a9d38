"""An account's file: killed at any byte, rolled back, copied, edited."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from securefl.base.crypto.identity import Identity, PublicIdentity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, DecisionError, RunAbortedError
from securefl.base.ids import PartyId
from securefl.runtime.account import head as tips
from securefl.runtime.account.entries import (
    ClosedClusters,
    Entry,
    GroupNamed,
    Kept,
    Missing,
    Run,
    Sums,
    Update,
)
from securefl.runtime.account.file import AccountFile, account_beside, begin_account
from securefl.runtime.account.head import MACHINE_VARIABLE, AccountHead
from tests.tiers import examples

ROOT = InsecureSeededEntropy(17)
OWNER = Identity.generate(PartyId("p00"), ROOT.child("p00")).public
OTHER = Identity.generate(PartyId("p01"), ROOT.child("p01")).public
JOINED = Run(run="r", scenario="s", server="aa", parties=("bb", "cc"), data="dd", samples=3)
MORE: tuple[Entry, ...] = (
    JOINED,
    Update(round=0, count=1),
    Sums(round=0, sums={"ee": ((0, 1),)}),
    Update(round=1, count=1, atom_seed="ff"),
)


class Place:
    """Account and tip of one machine."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "p00.account"
        self.tip = AccountHead(folder / "state" / "p00.tip")
        begin_account(self.path, OWNER)

    def open(self, owner: PublicIdentity = OWNER, *, adopt: bool = False) -> AccountFile:
        return AccountFile(self.path, owner, self.tip, adopt=adopt)

    def write(self, *entries: Entry) -> None:
        with self.open() as file:
            for entry in entries:
                file.append(entry)

    def said(self) -> list[Entry]:
        """Its entries, without where it is kept and without the chain."""
        with self.open() as file:
            return [plain(entry) for entry in file.entries[1:] if not isinstance(entry, Kept)]


def plain(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, before="")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_it_says_what_entered_it(place: Place) -> None:
    place.write(*MORE[:2])
    place.write(*MORE[2:])
    assert place.said() == [plain(entry) for entry in MORE]
    assert place.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o602, 0o666])
def test_one_that_others_can_use_is_refused(place: Place, mode: int) -> None:
    place.path.chmod(mode)
    before = place.path.read_bytes()
    with pytest.raises(ConfigError, match=r"p00.account: can be used by other users \(chmod 600 ") as error:
        place.open()
    assert error.value.exit_code == 2
    assert place.path.read_bytes() == before
    place.path.chmod(0o600)
    assert place.said() == []


def test_it_lies_beside_the_key() -> None:
    assert account_beside(Path("keys/p00.key")) == Path("keys/p00.account")


@settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(cut=st.integers(0, 10_000), ahead=st.booleans())
def test_a_process_killed_at_any_byte_goes_on_where_it_was(
    tmp_path_factory: pytest.TempPathFactory, cut: int, ahead: bool
) -> None:
    """It dies inside the append of the last entry, or after it and before the tip was written."""
    place = Place(tmp_path_factory.mktemp("killed"))
    place.write(*MORE[:-1])
    before, tip = place.path.read_bytes(), place.tip.path.read_bytes()
    place.write(MORE[-1])
    whole = place.path.read_bytes()
    place.tip.path.write_bytes(tip)
    torn = whole if ahead else whole[: len(before) + cut % (len(whole) - len(before))]
    place.path.write_bytes(torn)
    kept = len(MORE) - (0 if ahead else 1)
    assert place.said() == [plain(entry) for entry in MORE[:kept]]
    place.write(Update(round=7, count=1))
    assert place.said() == [plain(entry) for entry in (*MORE[:kept], Update(round=7, count=1))]


@settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(lines=st.integers(0, 4))
def test_one_that_was_rolled_back_is_refused(tmp_path_factory: pytest.TempPathFactory, lines: int) -> None:
    """At a line's end too, where the chain is whole: the tip is not."""
    place = Place(tmp_path_factory.mktemp("back"))
    place.write(*MORE)
    raw = place.path.read_bytes().splitlines(keepends=True)
    place.path.write_bytes(b"".join(raw[: lines + 2]) if lines < 4 else b"".join(raw[:-1]))
    with pytest.raises(ConfigError, match=r"was replaced by an older copy: \d lines?, and it had 6"):
        place.open()
    with place.open(adopt=True) as file:
        assert len(file.entries) >= 3, "its owner says that it is whole"


@pytest.mark.parametrize("writes", [0, 1])
def test_a_process_that_is_killed_at_its_first_use_needs_nobody(
    writes: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the tip is written, or between the account and the tip."""
    written, left = AccountHead.write, [None] * writes

    def killed(tip: AccountHead, lines: int, last: str) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        written(tip, lines, last)

    with monkeypatch.context() as patched:
        patched.setattr(AccountHead, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            place.open()
    place.write(*MORE)
    assert place.said() == [plain(entry) for entry in MORE]


def test_one_from_before_its_first_use_is_refused(place: Place) -> None:
    """As keygen made it: it has no machine yet, and this one knows better."""
    fresh = place.path.read_bytes()
    place.write(*MORE)
    place.path.write_bytes(fresh)
    with pytest.raises(ConfigError, match=r"was replaced by an older copy: \d lines?, and it had 6"):
        place.open()


def test_a_backup_that_went_on_elsewhere_is_refused(place: Place) -> None:
    place.write(*MORE[:2])
    shutil.copy(place.path, place.path.with_suffix(".backup"))
    place.write(*MORE[2:])
    shutil.copy(place.path.with_suffix(".backup"), place.path)
    place.tip.path.unlink()
    with pytest.raises(ConfigError, match=r"was moved \(in use before, and not on this machine\)"):
        place.open()


def test_a_branch_is_refused(place: Place) -> None:
    """As long as it was, with another end."""
    place.write(*MORE[:3])
    base, tip = place.path.read_bytes(), place.tip.path.read_bytes()
    place.write(MORE[3])
    newest = place.tip.path.read_bytes()
    place.path.write_bytes(base)
    place.tip.path.write_bytes(tip)
    place.write(Update(round=9, count=1))
    place.tip.path.write_bytes(newest)
    with pytest.raises(ConfigError, match="is not the file that was in use: it differs from line 6 on"):
        place.open()


def test_a_machine_that_is_named_keeps_its_name_with_another_host_name(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that is started again: the state folder is the same, the host name is not."""
    monkeypatch.setenv(MACHINE_VARIABLE, "north")
    with place.open() as account:
        account.append(JOINED)
    monkeypatch.setattr(socket, "gethostname", lambda: "4f1c0f9a")
    with place.open():
        pass
    for variable in ("south", ""):
        monkeypatch.setenv(MACHINE_VARIABLE, variable)
        with pytest.raises(DecisionError, match=f"on another machine.*set {MACHINE_VARIABLE}"):
            place.open()


def test_a_copy_on_another_machine_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(*MORE)
    monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
    there = AccountHead(place.tip.path.with_name("elsewhere.tip"))
    with pytest.raises(
        ConfigError, match=r"was moved \(last used on another machine\); two copies could"
    ) as refused:
        AccountFile(place.path, OWNER, there)
    assert "securefl account --adopt" in str(refused.value)
    with AccountFile(place.path, OWNER, there, adopt=True) as file:
        assert len(file.entries) == 7
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="on another machine"):
        place.open()


def test_a_second_process_is_refused_while_the_first_one_runs(place: Place) -> None:
    with place.open(), pytest.raises(ConfigError, match="is in use: another process runs with p00's key"):
        place.open()
    place.open().close()


def test_a_second_process_is_refused_that_keeps_its_notes_elsewhere(place: Place, tmp_path: Path) -> None:
    """Another home, or another machine with the same folder mounted: the file itself is held, too."""
    elsewhere = AccountHead(tmp_path / "another" / "p00.tip")
    with place.open(), pytest.raises(ConfigError, match="is in use: another process runs with p00's key"):
        AccountFile(place.path, OWNER, elsewhere)


def test_a_second_process_with_a_copy_of_the_file_is_refused(place: Place, tmp_path: Path) -> None:
    place.write(*MORE)
    copy = tmp_path / "copy.account"
    shutil.copy(place.path, copy)
    with place.open(), pytest.raises(ConfigError, match="is in use: another process runs with p00's key"):
        AccountFile(copy, OWNER, place.tip)
    AccountFile(copy, OWNER, place.tip).close()


def spoil(raw: bytes, number: int, change: Callable[[dict[str, object]], object]) -> bytes:
    lines = raw.splitlines(keepends=True)
    entry = json.loads(lines[number])
    change(entry)
    lines[number] = json.dumps(entry).encode() + b"\n"
    return b"".join(lines)


@pytest.mark.parametrize(
    ("number", "change", "reason"),
    [
        (3, lambda entry: entry.update(count=0), "does not follow from the line before"),
        (3, lambda entry: entry.update(round=5), "does not follow from the line before"),
        (4, lambda entry: entry.update(sums={}), "does not follow from the line before"),
        (2, lambda entry: entry.update(run="other"), "does not follow from the line before"),
        (4, lambda entry: entry.update(before="00"), "does not follow from the line before"),
        (3, lambda entry: entry.update(kind="sleight"), "is no entry of an account"),
        (3, lambda entry: entry.pop("count"), "is no entry of an account"),
    ],
)
def test_an_edited_one_is_refused(
    place: Place, number: int, change: Callable[[dict[str, object]], object], reason: str
) -> None:
    place.write(*MORE)
    place.path.write_bytes(spoil(place.path.read_bytes(), number, change))
    with pytest.raises(ConfigError, match=reason) as refused:
        place.open()
    assert "\n" not in str(refused.value)


@settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(at=st.integers(0, 10_000), value=st.integers(0, 255))
def test_any_changed_byte_but_those_of_the_torn_end_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    place = Place(tmp_path_factory.mktemp("edited"))
    place.write(*MORE)
    raw = bytearray(place.path.read_bytes())
    at %= len(raw)
    if raw[at] == value:
        return
    raw[at] = value
    place.path.write_bytes(bytes(raw))
    with pytest.raises(ConfigError):
        place.open()


def test_lines_that_change_places_or_leave_are_noticed(place: Place) -> None:
    place.write(*MORE)
    lines = place.path.read_bytes().splitlines(keepends=True)
    for changed in (
        [*lines[:3], lines[4], lines[3], *lines[5:]],
        [*lines[:3], *lines[4:]],
        [*lines, lines[-1]],
    ):
        place.path.write_bytes(b"".join(changed))
        with pytest.raises(ConfigError, match="does not follow from the line before"):
            place.open()


def test_what_is_in_no_run_or_of_nobody_is_no_account(place: Place) -> None:
    with place.open() as file:
        file.append(Update(round=0, count=1))
    with pytest.raises(ConfigError, match="belongs to no run"):
        place.open()


@pytest.mark.parametrize(
    "entry",
    [
        Update(round=0, count=1),
        Sums(round=0, sums={}),
        ClosedClusters(of="r", round=0, clusters={}, refunded=True),
        Missing(round=0),
        GroupNamed(round=0, epsilon=1.0, made=1, group=0),
    ],
)
def test_each_entry_of_a_run_stands_behind_one(place: Place, entry: Entry) -> None:
    with place.open() as file:
        file.append(entry)
    with pytest.raises(ConfigError, match="belongs to no run"):
        place.open()


def test_a_cluster_of_a_party_that_is_not_in_the_roster_is_refused(place: Place) -> None:
    place.write(JOINED, Update(round=0, count=1, drawn={"ee": ((0, 1), (0, 2))}))
    with pytest.raises(ConfigError, match="names a member that the roster of its run has not"):
        place.open()


def test_a_sum_of_somebody_who_is_not_in_the_roster_is_refused(place: Place) -> None:
    place.write(JOINED, Sums(round=0, sums={"ee": ((0, 2),)}))
    with pytest.raises(ConfigError, match="names a member that the roster of its run has not"):
        place.open()


def test_a_missing_one_is_refused_with_the_way_to_begin(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="is missing: it records what the key of p00 has released"
    ) as refused:
        AccountFile(tmp_path / "p00.account", OWNER, AccountHead(tmp_path / "tip"))
    assert "securefl account --begin" in str(refused.value)


def test_somebody_elses_is_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="belongs to another key, that of p00"):
        place.open(OTHER)


def test_an_account_is_begun_once(place: Place) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        begin_account(place.path, OWNER)


def test_an_empty_one_is_refused(place: Place) -> None:
    place.path.write_bytes(b"")
    with pytest.raises(ConfigError, match="is empty"):
        place.open()


def test_a_full_disk_leaves_it_as_it_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(*MORE)
    before = place.path.read_bytes()
    with place.open() as file:
        monkeypatch.setattr(os, "write", lambda _handle, _line: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(RunAbortedError, match="nothing was released"):
            file.append(Update(round=2, count=1))
        monkeypatch.undo()
    assert place.path.read_bytes() == before


def test_without_a_tip_that_can_be_written_nothing_leaves(place: Place) -> None:
    place.tip.path.parent.parent.joinpath("file").write_text("")
    blocked = AccountHead(place.path.parent / "file" / "p00.tip")
    with pytest.raises(ConfigError, match=r"state folder: .* cannot be written: .*SECUREFL_STATE"):
        AccountFile(place.path, OWNER, blocked)
    with place.open() as file:
        place.tip.path.with_suffix(".new").mkdir()
        with pytest.raises(RunAbortedError, match=r"state of the account .* SECUREFL_STATE"):
            file.append(Update(round=2, count=1))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"lines": "2", "last": "00"}', "\xff", "[" * 9999])
def test_a_damaged_tip_is_refused(place: Place, text: str) -> None:
    place.write(*MORE)
    place.tip.path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match="is damaged: it is not a state file"):
        place.open()


def test_the_state_folder_is_the_users_unless_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SECUREFL_STATE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert AccountHead.of("ab" * 32).path == tmp_path / "securefl" / f"{'ab' * 16}.tip"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert tips.state_folder() == Path.home() / ".local" / "state" / "securefl"
    monkeypatch.setenv("SECUREFL_STATE", str(tmp_path / "own"))
    assert tips.state_folder() == tmp_path / "own"
