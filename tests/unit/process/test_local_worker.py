"""Local work beside other local work."""

from __future__ import annotations

import asyncio
import threading

import numpy as np

from securefl.base.arrays import F64
from securefl.protocol.kernel.effects import Choose, Train
from securefl.protocol.kernel.events import Chosen, Trained
from securefl.runtime.process.local_worker import LocalWorker
from securefl.runtime.process.ports import LocalWork

MODEL = np.zeros(2, dtype=np.float32)


def test_a_choice_does_not_wait_for_a_training_that_has_not_ended() -> None:
    """The time of a hello would tell how long the last round's training takes."""
    chosen = threading.Event()

    def train(_asked: Train) -> F64:
        assert chosen.wait(60), "the choice waits for the training"
        return np.zeros(2)

    async def both() -> tuple[object, object]:
        worker = LocalWorker(LocalWork(train=train, choose=lambda _models: 1))
        training = asyncio.create_task(worker.do(Train(0, 0, MODEL, None, None)))
        await asyncio.sleep(0)
        answer = await worker.do(Choose(1, MODEL))
        chosen.set()
        return answer, await training

    answer, ended = asyncio.run(both())
    assert isinstance(answer, Chosen)
    assert (answer.round, answer.group) == (1, 1)
    assert isinstance(ended, Trained)
