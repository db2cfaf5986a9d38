"""Threads of a process: all from the beginning, and as many as the machine has."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from threading import Barrier, Thread

import pytest

from securefl.protocol.kernel.effects import Finished
from securefl.runtime.launch.process import THREADS, ready_threads, run_process
from securefl.runtime.process.ports import OpenWitness
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.report.witness import News
from tests.unit.process.processes import settings


def started() -> int:
    return sum(thread.name.startswith("securefl_") for thread in threading.enumerate())


def test_all_are_there_before_there_is_anything_to_do_and_all_of_them_do_it() -> None:
    with ready_threads(4) as pool:
        assert started() == 4
        meeting = Barrier(4)
        met = [pool.submit(meeting.wait, 30) for _ in range(4)]
        assert {future.result(30) for future in met} == {0, 1, 2, 3}
        assert started() == 4
    assert started() == 0


def scarce(monkeypatch: pytest.MonkeyPatch, left: int, then: BaseException) -> None:
    """Let so many threads start, and no more."""
    start, started_ = Thread.start, list[Thread]()

    def start_or_not(thread: Thread) -> None:
        if len(started_) == left:
            raise then
        started_.append(thread)
        start(thread)

    monkeypatch.setattr(Thread, "start", start_or_not)


def test_where_the_machine_has_no_more_those_that_are_there_do_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        scarce(patched, 2, RuntimeError("can't start new thread"))
        pool = ready_threads(4)
    with pool:
        assert started() == 2
        assert [future.result(30) for future in [pool.submit(abs, -n) for n in range(20)]] == list(range(20))


def test_a_signal_as_they_start_leaves_none_that_waits_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        scarce(patched, 2, KeyboardInterrupt(signal.SIGTERM.name))
        with pytest.raises(KeyboardInterrupt):
            ready_threads(4)
    for thread in threading.enumerate():
        if thread.name.startswith("securefl_"):
            thread.join(30)
    assert started() == 0


def test_a_process_has_all_its_threads_as_its_run_begins(tmp_path: Path) -> None:
    async def body(_settings: ProcessSettings, witness: OpenWitness) -> Finished:
        witness(None)
        before = started()
        await asyncio.gather(*(asyncio.to_thread(Barrier(1).wait) for _ in range(50)))
        assert (before, started()) == (THREADS, THREADS)
        return Finished("done")

    assert run_process(settings(tmp_path), list[News]().append, body) == Finished("done")
    assert started() == 0
