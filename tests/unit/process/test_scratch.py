"""The folder of a launcher: private, and gone with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from securefl.runtime.process.parent_death import scratch_folder

OWNER = """
import time
from securefl.runtime.process.parent_death import scratch_folder
with scratch_folder() as folder:
    (folder / "below").mkdir()
    (folder / "below" / "data").write_text("private")
    print(folder, flush=True)
    time.sleep(600)
"""


def test_it_is_private_and_goes_with_its_block() -> None:
    with scratch_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "data").write_text("private")
    assert not folder.exists()


def test_it_goes_when_the_block_fails() -> None:
    def fails() -> None:
        with scratch_folder() as folder:
            seen.append(folder)
            raise KeyError

    seen: list[Path] = []
    with pytest.raises(KeyError):
        fails()
    assert not seen[0].exists()


def test_it_goes_when_its_owner_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert (folder / "below" / "data").read_text() == "private"
        owner.send_signal(signal.SIGKILL)
    while folder.exists():
        time.sleep(0.01)
