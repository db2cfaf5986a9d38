"""An account's bytes: on the disk before anything leaves, never half a line, never somewhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.runtime.account.entries import Begun, Update, hash_of, line_of
from securefl.runtime.account.summary import key_digest
from tests.unit.account.test_file import JOINED, MORE, OWNER, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_account_and_tip_are_synced_before_an_entry_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(JOINED)
    synced: list[tuple[int, int]] = []
    really = os.fsync

    def fsync(handle: int) -> None:
        really(handle)
        synced.append((os.fstat(handle).st_ino, os.fstat(handle).st_size))

    with place.open() as file:
        monkeypatch.setattr(os, "fsync", fsync)
        file.append(Update(round=0, count=1))
        monkeypatch.undo()
    for path in (place.path, place.tip.path):
        now = path.stat()
        assert (now.st_ino, now.st_size) in synced, f"{path.name} is not on the disk"


def test_a_line_that_is_cut_off_by_a_full_disk_is_taken_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(*MORE)
    before = place.path.read_bytes()
    really, calls = os.write, list[int]()

    def write(handle: int, line: bytes) -> int:
        calls.append(len(line))
        if len(calls) > 1:
            raise OSError(28, "full")
        return really(handle, line[: len(line) // 2])

    with place.open() as file:
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(RunAbortedError, match="nothing was released"):
            file.append(Update(round=2, count=1))
        monkeypatch.undo()
    assert len(calls) == 2
    assert place.path.read_bytes() == before


def test_a_link_is_not_followed(place: Place, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.account"
    place.path.rename(elsewhere)
    place.path.symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="cannot be opened"):
        place.open()


def test_a_second_beginning_is_refused_although_its_chain_fits(place: Place) -> None:
    last = hash_of(place.path.read_bytes().splitlines(keepends=True)[-1])
    with place.path.open("ab") as file:
        file.write(line_of(Begun(name=OWNER.name, key=key_digest(OWNER)), last))
    with pytest.raises(ConfigError, match="an account begins once"):
        place.open()
