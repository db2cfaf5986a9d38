"""One process of a name in a folder, and one run of a server for ever."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.runtime.process.folder import claim_folder

P00, P01 = PartyId("p00"), PartyId("p01")
HOLDER = """
import sys, time
from pathlib import Path
from securefl.base.ids import PartyId
from securefl.runtime.process.folder import claim_folder
with claim_folder(Path(sys.argv[1]), PartyId(sys.argv[2])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_of_a_name_is_refused_while_the_first_one_runs(tmp_path: Path) -> None:
    with claim_folder(tmp_path, P00):
        words = rf"a process of p00 runs there \(process {os.getpid()}\)"
        with pytest.raises(ConfigError, match=words), claim_folder(tmp_path, P00):
            pytest.fail("two at a time")
        with claim_folder(tmp_path, P01), claim_folder(tmp_path, SERVER):
            assert len(list(tmp_path.iterdir())) == 3
    assert not list(tmp_path.iterdir())
    with claim_folder(tmp_path, P00):
        pass


def test_a_killed_process_keeps_nobody_out(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path), "p00"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(ConfigError, match=rf"in use.*\(process {holder.pid}\)"),
            claim_folder(tmp_path, P00),
        ):
            pytest.fail("two at a time")
        holder.send_signal(signal.SIGKILL)
    assert (tmp_path / ".p00.lock").exists()
    with claim_folder(tmp_path, P00):
        pass
    assert not list(tmp_path.iterdir())


def test_a_lock_whose_file_was_taken_away_is_not_held_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last owner removes the file between our opening it and our locking it: another is made."""
    opened: list[int] = []
    real = os.open

    def late(path: Path, flags: int, mode: int) -> int:
        lock = real(path, flags, mode)
        if not opened:
            Path(path).unlink()
        opened.append(lock)
        return lock

    monkeypatch.setattr("securefl.runtime.process.folder.os.open", late)
    with claim_folder(tmp_path, P00):
        assert len(opened) == 2
        assert os.fstat(opened[1]).st_ino == (tmp_path / ".p00.lock").stat().st_ino
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[1])


@pytest.mark.parametrize(
    "left",
    ["model.safetensors", "model-1.safetensors", "transcripts/server.jsonl", "transcripts/server.2.jsonl"],
)
def test_a_server_leads_one_run_in_a_folder(left: str, tmp_path: Path) -> None:
    path = tmp_path / left
    path.parent.mkdir(exist_ok=True)
    path.write_text("precious")
    with (
        pytest.raises(ConfigError, match=rf"holds an ended run \({left}\)"),
        claim_folder(tmp_path, SERVER),
    ):
        pytest.fail("a second run")
    with claim_folder(tmp_path, P00):
        assert path.read_text() == "precious"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("os.open", errno.EROFS, "Read-only file system (choose another --out)"),
        ("os.open", errno.ENOSPC, "No space left on device (choose another --out)"),
        ("fcntl.flock", errno.ENOLCK, "cannot be locked: No locks available"),
    ],
)
def test_a_folder_that_cannot_be_held_is_refused(
    call: str, code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(f"securefl.runtime.process.folder.{call}", fails)
    with pytest.raises(ConfigError) as refused, claim_folder(tmp_path, P00):
        pytest.fail("held")
    assert words in str(refused.value)


def test_a_full_disk_does_not_unlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("securefl.runtime.process.folder.os.pwrite", full)
    with (
        claim_folder(tmp_path, P00),
        pytest.raises(ConfigError, match="a process of p00 runs there"),
        claim_folder(tmp_path, P00),
    ):
        pytest.fail("two at a time")


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / ".p00.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be written"), claim_folder(tmp_path, P00):
        pytest.fail("held")
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_a_forked_child_keeps_the_lock_of_its_parent(tmp_path: Path) -> None:
    claim = claim_folder(tmp_path, P00)
    claim.__enter__()
    child = os.fork()
    if child == 0:
        claim.__exit__(None, None, None)
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(ConfigError, match="is in use"), claim_folder(tmp_path, P00):
        pytest.fail("two at a time")
    claim.__exit__(None, None, None)
    assert not list(tmp_path.iterdir())
