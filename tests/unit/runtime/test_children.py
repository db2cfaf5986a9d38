"""The launcher's view of its processes: what they say, how they end, and that none is left."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from securefl.errors import EXIT_ABORTED, EXIT_REFUSED, UsageError
from securefl.ids import PartyId
from securefl.runtime.children import PRELOAD, Children, Died, Fatal, Main, Said
from tests.unit.runtime import processes

P00 = PartyId("p00")
LIBRARIES = (*PRELOAD, "tests.unit.runtime.processes")
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
        (processes.is_refused, Fatal("data.set: is missing (make one)", refused=True), EXIT_REFUSED),
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
    with pytest.raises(UsageError, match="p00 was started already"):
        children.start(processes.waits, processes.settings(tmp_path))


def test_leaving_ends_all_and_leaves_no_orphan(tmp_path: Path) -> None:
    with Children(preload=LIBRARIES) as children:
        for name in ("p00", "p01", "p02"):
            children.start(processes.waits, processes.settings(tmp_path, name))
        pids = children.pids
        heard = 0
        while heard < 3:
            heard += len(children.wait(60))
    assert len(set(pids.values())) == 3
    assert not any(psutil.pid_exists(pid) for pid in pids.values())
    assert not children.running
    children.end()


def test_waiting_returns_at_its_limit(children: Children, tmp_path: Path) -> None:
    children.start(processes.waits, processes.settings(tmp_path))
    children.wait(60)
    before = time.monotonic()
    assert children.wait(0.01) == []
    assert time.monotonic() > before
