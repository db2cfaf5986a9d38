"""Operator's folder restored from a backup: no fork is signed, and the history of a site continues it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from securefl.base import files
from securefl.runtime.account import AccountHead, key_digest
from securefl.runtime.provision.authority import Authority
from securefl.runtime.provision.operator_folder import history_of
from tests.unit.cli.programs import call, refusal
from tests.unit.provision.machines import Machines, begun, contents, done

COMMANDS = (("sign",), ("renew", "p00"), ("remove", "p00"), ("revoke", "p00", "--reason", "lost"))


def backed_up(made: Machines) -> Path:
    return shutil.copytree(made.operator, made.folder / "backup")


def restored(made: Machines) -> None:
    shutil.rmtree(made.operator)
    shutil.copytree(made.folder / "backup", made.operator)


def tip(made: Machines) -> Path:
    operator = made.history().operator
    assert operator is not None
    return AccountHead.of(key_digest(operator)).path


def refused(made: Machines, *words: str | Path, code: int = 5) -> str:
    """The reason of a refusal; folder and head stay as they were."""
    before = contents(made.operator), tip(made).read_bytes() if tip(made).exists() else None
    reason = refusal(call("provision", words[0], made.operator, *words[1:]), code=code)
    assert (contents(made.operator), tip(made).read_bytes() if tip(made).exists() else None) == before
    return reason


def test_the_newest_copy_goes_on(kits: Machines) -> None:
    done("remove", kits.operator, "p02")
    backed_up(kits)
    restored(kits)
    done("renew", kits.operator, "p00")
    kits.accept("p00")


@pytest.mark.parametrize("words", COMMANDS)
def test_an_older_copy_signs_nothing(kits: Machines, words: tuple[str, ...]) -> None:
    backed_up(kits)
    done("remove", kits.operator, "p02")
    kits.accept("p00")
    restored(kits)
    reason = refused(kits, *words)
    lines = len(history_of(kits.at("p00") / "history.jsonl").lines)
    assert (
        f"history.jsonl: is an older copy: {len(kits.history().lines)} entries, and it had {lines}" in reason
    )
    assert reason.endswith("(with the newest history of a site: securefl provision restore)")


@pytest.mark.parametrize("name", ["history.jsonl", "kit.toml"])
def test_the_history_of_a_site_continues_an_older_copy(kits: Machines, name: str) -> None:
    backed_up(kits)
    done("remove", kits.operator, "p02")
    kits.accept("p00")
    newest = (kits.at("p00") / "history.jsonl").read_bytes()
    restored(kits)
    told = done("restore", kits.operator, kits.at("p00") / name)
    assert "entries of history" in told
    assert (kits.operator / "history.jsonl").read_bytes() == newest
    done("renew", kits.operator, "p00")
    kits.accept("p00")
    assert set(kits.history().roster().parties) == {"p00", "p01"}


def test_the_history_of_a_site_that_lags_continues_nothing(kits: Machines) -> None:
    backed_up(kits)
    done("remove", kits.operator, "p02")
    done("renew", kits.operator, "p00")
    restored(kits)
    reason = refused(kits, "restore", kits.at("p00") / "history.jsonl")
    assert "is an older copy" in reason
    assert f"move {tip(kits)} away" in reason
    tip(kits).unlink()
    done("restore", kits.operator, kits.at("p00") / "history.jsonl")
    done("sign", kits.operator)


def test_a_longer_own_history_is_kept(kits: Machines) -> None:
    done("remove", kits.operator, "p02")
    before = contents(kits.operator)
    done("restore", kits.operator, kits.at("p00") / "history.jsonl")
    assert contents(kits.operator) == before


@pytest.mark.parametrize("words", COMMANDS)
def test_another_machine_signs_nothing_unasked(
    kits: Machines, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECUREFL_STATE", str(kits.folder / "elsewhere"))
    assert "was not signed on this machine last" in refused(kits, *words)
    done("restore", kits.operator, kits.at("p00") / "kit.toml")
    done(words[0], kits.operator, *words[1:])


def test_a_fork_is_named(kits: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    backed_up(kits)
    done("remove", kits.operator, "p02")
    kits.accept("p00")
    restored(kits)
    monkeypatch.setenv("SECUREFL_STATE", str(kits.folder / "elsewhere"))
    done("restore", kits.operator, kits.operator / "history.jsonl")
    done("remove", kits.operator, "p01")
    at = len(history_of(kits.folder / "backup" / "history.jsonl").lines)
    reason = refused(kits, "restore", kits.at("p00") / "history.jsonl")
    assert f"differs from {kits.operator / 'history.jsonl'} from entry {at} on" in reason


def test_a_history_of_the_same_length_is_compared(kits: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head alone tells both apart: each is signed, whole and as long as the other."""
    backed_up(kits)
    with monkeypatch.context() as there:
        there.setenv("SECUREFL_STATE", str(kits.folder / "elsewhere"))
        done("restore", kits.operator, kits.operator / "history.jsonl")
        done("remove", kits.operator, "p01")
        other = (kits.operator / "history.jsonl").read_bytes()
    restored(kits)
    done("remove", kits.operator, "p02")
    (kits.operator / "history.jsonl").write_bytes(other)
    assert "is not the history that was in use" in refused(kits, "sign")


def test_another_project_continues_nothing(kits: Machines, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    other = begun(tmp_path / "two")
    reason = refused(kits, "restore", other.operator / "history.jsonl", code=2)
    assert "is of another operator or project" in reason
    assert "is not the folder of an operator" in refused_folder(tmp_path / "two", kits.at("p00"))


def refused_folder(folder: Path, site: Path) -> str:
    return refusal(call("provision", "restore", folder, site / "kit.toml"))


def test_a_settings_file_of_the_backup_is_named(kits: Machines) -> None:
    backed_up(kits)
    scenario = kits.operator / "federation.toml"
    scenario.write_text(scenario.read_text().replace("rounds = 1", "rounds = 2"))
    done("sign", kits.operator)
    kits.accept("p00")
    restored(kits)
    told = done("restore", kits.operator, kits.at("p00") / "kit.toml")
    assert "project, scenario or first weights are not the newest that were signed" in told
    shutil.copy(kits.at("p00") / "federation.toml", kits.operator)
    assert "are not the newest" not in done("restore", kits.operator, kits.at("p00") / "kit.toml")


@pytest.mark.parametrize("text", ["", "{}", '{"lines": "1", "last": "0"}'])
def test_a_damaged_head_is_refused(kits: Machines, text: str) -> None:
    tip(kits).write_text(text)
    assert "is damaged: it is not a state file (restore it; or move it away" in refused(kits, "sign")


def test_two_copies_at_once_are_refused(kits: Machines) -> None:
    copy = backed_up(kits)
    with Authority.open(kits.operator):
        reason = refusal(call("provision", "sign", copy))
    assert "is in use by another command" in reason


def test_a_head_that_cannot_be_written_is_named(kits: Machines) -> None:
    """The history is there, and the next command continues it."""
    tip(kits).with_suffix(".new").mkdir()
    reason = refusal(call("provision", "renew", kits.operator, "p00"), code=3)
    assert "cannot be written: Is a directory (the history is written" in reason
    tip(kits).with_suffix(".new").rmdir()
    done("sign", kits.operator)
    kits.accept("p00")


def test_an_answer_that_cannot_be_written_is_named(kits: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    write = files.write_whole

    def fail(path: Path, content: bytes, **how: bool) -> None:
        if path.suffix == ".answer":
            raise OSError(28, "No space left on device")
        write(path, content, **how)

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_whole", fail)
        reason = refusal(call("provision", "renew", kits.operator, "p00"), code=3)
    assert "No space left on device (the history is written; then: securefl provision sign)" in reason
    done("sign", kits.operator)
    kits.accept("p00")


def test_without_a_state_folder_nothing_begins(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    (machines.folder / "file").write_text("")
    monkeypatch.setenv("SECUREFL_STATE", str(machines.folder / "file" / "state"))
    out = machines.folder / "new"
    reason = refusal(call("provision", "begin", machines.folder / "project.toml", "--out", out))
    assert reason.startswith("state folder: ")
    assert not out.exists()
