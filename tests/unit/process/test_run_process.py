"""A process's transcript ends with its run, not with the work that it leaves behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from securefl.protocol.kernel.effects import Aborted
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
