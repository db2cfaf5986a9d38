"""A process's transcript ends with its run, not with the work that it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from asyncio.selector_events import BaseSelectorEventLoop
from pathlib import Path

import pytest

from securefl.protocol.kernel.effects import Aborted
from securefl.runtime.launch.interrupts import SignalledError, ended_by_signals
from securefl.runtime.launch.process import run_process
from securefl.runtime.process.ports import OpenWitness
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.report.witness import Ending, News
from securefl.runtime.transcript.chain import read_transcript
from tests.unit.process.processes import settings


def test_a_transcript_ends_before_the_training_that_is_left_behind(tmp_path: Path) -> None:
    """Whoever asked the process to end waits some seconds and kills it; training may take minutes."""
    trained, told = threading.Event(), list[News]()

    def tell(news: News) -> None:
        told.append(news)
        if isinstance(news, Ending):
            assert not trained.is_set()
            assert read_transcript(tmp_path / "transcripts" / "p00.jsonl").complete
            trained.set()

    async def body(_settings: ProcessSettings, witness: OpenWitness) -> Aborted:
        witness(None)
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def train() -> None:
            loop.call_soon_threadsafe(begun.set)
            assert trained.wait(60), "the transcript waits for the training"

        training = asyncio.create_task(asyncio.to_thread(train))
        await begun.wait()
        training.cancel()
        return Aborted("stopped by SIGTERM")

    assert run_process(settings(tmp_path), tell, body) == Aborted("stopped by SIGTERM")
    assert sum(isinstance(news, Ending) for news in told) == 1


def test_a_signal_waits_until_there_is_a_whole_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raised in the middle of its making it leaves half a loop, which complains when it is thrown away."""
    make, made = asyncio.new_event_loop, list[asyncio.AbstractEventLoop]()

    def signalled() -> asyncio.AbstractEventLoop:
        os.kill(os.getpid(), signal.SIGTERM)
        made.append(make())
        return made[0]

    async def body(_settings: ProcessSettings, _witness: OpenWitness) -> Aborted:
        raise AssertionError("it was asked to end before")

    monkeypatch.setattr("asyncio.events.new_event_loop", signalled)
    with pytest.raises(SignalledError), ended_by_signals():
        run_process(settings(tmp_path), list[News]().append, body)
    assert made[0].is_closed()


def test_a_signal_as_the_loop_closes_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A second SIGTERM, sent after the loop has closed the descriptor that signals wake it by."""
    close, closed = BaseSelectorEventLoop.close, list[BaseSelectorEventLoop]()

    def signalled(loop: BaseSelectorEventLoop) -> None:
        close(loop)
        closed.append(loop)
        os.kill(os.getpid(), signal.SIGTERM)

    async def body(_settings: ProcessSettings, witness: OpenWitness) -> Aborted:
        witness(None)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
        return Aborted("stopped by SIGTERM")

    monkeypatch.setattr(BaseSelectorEventLoop, "close", signalled)
    assert run_process(settings(tmp_path), list[News]().append, body) == Aborted("stopped by SIGTERM")
    assert closed
    assert capfd.readouterr().err == ""
