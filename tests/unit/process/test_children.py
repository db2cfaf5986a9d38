"""The launcher's view of its processes: what they say, how they end, and that none is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from securefl.base.crypto.keyfiles import write_roster
from securefl.base.crypto.roster import make_identities
from securefl.base.entropy import OsEntropy
from securefl.base.errors import EXIT_ABORTED, EXIT_REFUSED, UsageError
from securefl.base.ids import PartyId
from securefl.runtime.process.children import PRELOAD, Children, Died, Fatal, Main, Said
from tests.unit.process import processes

P00 = PartyId("p00")
LIBRARIES = (*PRELOAD, "tests.unit.process.processes")
"""Those of runs, too: whoever comes first decides, and live tests share the fork server of this process."""


@pytest.fixture
def children() -> Iterator[Children]:
    with Children(preload=LIBRARIES) as started:
        yield started


def everything(children: Children) -> list[Said | Died]:
    """All news until the last process has ended."""
    news: list[Said | Died] = []
    while children.running:
        news += children.wait(60)
    return news


def test_a_process_speaks_and_ends(children: Children, tmp_path: Path) -> None:
    children.start(processes.speaks, processes.settings(tmp_path))
    assert everything(children) == [Said(P00, "p00 speaks"), Said(P00, "twice"), Died(P00, 0)]
    assert not children.running


@pytest.mark.parametrize(
    ("main", "last_words", "code"),
    [
        (
            processes.is_refused,
            Fatal("data.set: is missing (make one)", refused=True, field="data.set"),
            EXIT_REFUSED,
        ),
        (processes.aborts, Fatal("disk full", refused=False), EXIT_ABORTED),
    ],
)
def test_a_failure_on_purpose_is_told_in_one_line(
    main: Main, last_words: Fatal, code: int, children: Children, tmp_path: Path
) -> None:
    children.start(main, processes.settings(tmp_path))
    assert everything(children) == [Said(P00, last_words), Died(P00, code)]
    assert list(tmp_path.iterdir()) == []


def test_a_bug_leaves_its_traceback_in_a_file(children: Children, tmp_path: Path) -> None:
    children.start(processes.has_a_bug, processes.settings(tmp_path))
    said, died = everything(children)
    assert isinstance(said, Said)
    assert isinstance(said.item, Fatal)
    log = tmp_path / "p00.crash.log"
    assert said.item.reason == f"internal error (ZeroDivisionError: oops); please report {log}"
    assert "has_a_bug" in log.read_text()
    assert died == Died(P00, EXIT_ABORTED)


def test_a_bug_is_told_even_if_nothing_can_be_written(children: Children, tmp_path: Path) -> None:
    children.start(processes.has_a_bug, processes.settings(tmp_path / "gone"))
    said, died = everything(children)
    assert isinstance(said, Said)
    assert isinstance(said.item, Fatal)
    assert "cannot be written" in said.item.reason
    assert died == Died(P00, EXIT_ABORTED)


def test_a_killed_process_is_seen_to_die(children: Children, tmp_path: Path) -> None:
    children.start(processes.waits, processes.settings(tmp_path))
    children.start(processes.waits, processes.settings(tmp_path, "p01"))
    children.wait(60)
    children.kill(P00)
    news: list[Said | Died] = []
    while not any(isinstance(one, Died) for one in news):
        news += children.wait(60)
    assert Died(P00, -signal.SIGKILL) in news
    assert children.running


def test_death_in_the_middle_of_a_sentence_is_a_death(children: Children, tmp_path: Path) -> None:
    children.start(processes.dies_in_mid_sentence, processes.settings(tmp_path))
    assert everything(children) == [Died(P00, -signal.SIGKILL)]


def test_a_second_process_of_one_name_is_refused(children: Children, tmp_path: Path) -> None:
    children.start(processes.waits, processes.settings(tmp_path))
    with pytest.raises(UsageError, match="cannot start process p00"):
        children.start(processes.waits, processes.settings(tmp_path))


def test_leaving_ends_all_and_leaves_no_orphan(tmp_path: Path) -> None:
    with Children(preload=LIBRARIES) as children:
        for name in ("p00", "p01", "p02"):
            children.start(processes.waits, processes.settings(tmp_path, name))
        pids = [process.pid for process in children._processes.values()]
        heard = 0
        while heard < 3:
            heard += len(children.wait(60))
    assert len(set(pids)) == 3
    assert not any(pid is None or psutil.pid_exists(pid) for pid in pids)
    assert not children.running
    children.end()


def test_waiting_returns_at_its_limit(children: Children, tmp_path: Path) -> None:
    children.start(processes.waits, processes.settings(tmp_path))
    children.wait(60)
    before = time.monotonic()
    assert children.wait(0.01) == []
    assert time.monotonic() > before


LAUNCHER = """
import sys, time
from pathlib import Path
from securefl.runtime.process.children import Children
from tests.unit.process import processes
if __name__ == "__main__":
    with Children(preload=("tests.unit.process.processes",)) as children:
        children.start(processes.outlives_its_parents, processes.settings(Path(sys.argv[1])))
        (said,) = children.wait(60)
        print(said.item, flush=True)
        time.sleep(600)
"""


def test_a_child_ends_with_its_launcher_where_the_kernel_does_not_see_to_it(tmp_path: Path) -> None:
    """Nor does the fork server end by itself, whose children keep open what it watches."""
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as launcher:
        assert launcher.stdout is not None
        child = psutil.Process(int(launcher.stdout.readline()))
        server = child.parent()
        launcher.kill()
    assert server is not None
    _, alive = psutil.wait_procs((child, server), timeout=60)
    assert not alive


def test_a_child_that_is_ended_before_it_has_begun_ends(tmp_path: Path) -> None:
    """Whatever of it is there already: nobody waits for the patience of the launcher to be over."""
    for _ in range(5):
        with Children(preload=LIBRARIES) as children:
            children.start(processes.waits, processes.settings(tmp_path))
            process = children._processes[P00]
            process.terminate()
            process.join(60)
            assert process.exitcode == -signal.SIGTERM


def test_children_heed_what_the_launcher_sends_and_no_terminal(children: Children, tmp_path: Path) -> None:
    children.start(processes.says_what_it_heeds, processes.settings(tmp_path))
    assert everything(children)[0] == Said(P00, [True, True, False])


def test_a_key_reaches_its_process_without_a_file(children: Children, tmp_path: Path) -> None:
    made, roster = make_identities([P00], OsEntropy())
    write_roster(tmp_path / "roster.toml", roster)
    before = made[P00].public
    children.start(processes.is_told_its_key, processes.settings(tmp_path, identity=made[P00]))
    assert everything(children)[0] == Said(P00, before)
    assert [path.name for path in tmp_path.iterdir()] == ["roster.toml"]
