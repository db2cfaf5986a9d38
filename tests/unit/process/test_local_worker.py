"""Local work beside other local work, and local work that fails."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.protocol.kernel.effects import Choose, Train
from securefl.protocol.kernel.events import Chosen, Trained
from securefl.runtime.process.local_worker import LocalWorker
from securefl.runtime.process.ports import LocalWork
from securefl.runtime.process.work_thread import any_is_busy
from tests.foreign_errors import all_errors
from tests.looped import looped

MODEL = np.zeros(2, dtype=np.float32)


async def until(event: threading.Event) -> None:
    while not event.is_set():
        await asyncio.sleep(0)


def test_a_choice_does_not_wait_for_a_training_that_has_not_ended() -> None:
    """The time of a hello would tell how long the last round's training takes."""
    began, chosen = threading.Event(), threading.Event()

    def train(_asked: Train) -> F64:
        began.set()
        assert chosen.wait(60), "the choice waits for the training"
        return np.zeros(2)

    async def both() -> tuple[object, object]:
        worker = LocalWorker(LocalWork(train=train, choose=lambda _models: 1))
        training = asyncio.create_task(worker.do(Train(0, 0, MODEL, None, None)))
        await until(began)
        answer = await worker.do(Choose(1, MODEL))
        chosen.set()
        return answer, await training

    answer, ended = asyncio.run(both())
    assert isinstance(answer, Chosen)
    assert (answer.round, answer.group) == (1, 1)
    assert isinstance(ended, Trained)


def raising(error: BaseException) -> Callable[[object], F64]:
    def work(_asked: object) -> F64:
        raise error

    return work


@looped("error", all_errors())
def test_an_exception_of_any_class_is_a_failed_training(error: BaseException) -> None:
    """And the worker takes the next round: ``StopIteration`` once blocked all of them."""
    fail, rounds = raising(error), []

    def train(asked: Train) -> F64:
        rounds.append(asked.round)
        return fail(asked) if asked.round == 0 else np.ones(2)

    async def rounds_of() -> list[object]:
        worker = LocalWorker(LocalWork(train=train, choose=fail))  # type: ignore[arg-type]
        return [
            await worker.do(Train(0, 0, MODEL, None, None)),
            await worker.do(Choose(1, MODEL)),
            await worker.do(Train(1, 0, MODEL, None, None)),
        ]

    failed, unchosen, trained = asyncio.run(rounds_of())
    assert isinstance(failed, Trained)
    assert failed.update is None
    assert failed.failure
    assert "\n" not in failed.failure
    assert isinstance(unchosen, Chosen)
    assert unchosen.group is None
    assert unchosen.failure
    assert isinstance(trained, Trained)
    assert trained.update is not None
    assert rounds == [0, 1]


def test_a_late_training_does_not_hold_up_the_round_after_the_next() -> None:
    """Rounds 1 and 2 are asked for while round 0 trains: only the newest is trained afterwards."""
    began, go, rounds = threading.Event(), threading.Event(), list[int]()

    def train(asked: Train) -> F64:
        rounds.append(asked.round)
        began.set()
        assert asked.round or go.wait(60)
        return np.ones(2)

    async def play() -> list[object]:
        worker = LocalWorker(LocalWork(train=train))
        tasks = [asyncio.create_task(worker.do(Train(0, 0, MODEL, None, None)))]
        await until(began)
        tasks += [asyncio.create_task(worker.do(Train(later, 0, MODEL, None, None))) for later in (1, 2)]
        await asyncio.sleep(0)
        go.set()
        return await asyncio.gather(*tasks)

    first, second, third = asyncio.run(play())
    assert rounds == [0, 2]
    assert isinstance(first, Trained)
    assert second is None
    assert isinstance(third, Trained)


@pytest.mark.parametrize("loop", ["while True: pass", "threading.Event().wait()"])
def test_a_training_that_never_ends_does_not_hold_the_process(loop: str) -> None:
    """Neither the end of the loop nor that of the interpreter waits for it; the exit code stays."""
    code = f"""
import asyncio, sys, threading
import numpy as np
from securefl.cli import app
from securefl.protocol.kernel.effects import Train
from securefl.runtime.process.local_worker import LocalWorker
from securefl.runtime.process.ports import LocalWork
began = threading.Event()
def train(asked):
    began.set()
    {loop}
async def play():
    worker = LocalWorker(LocalWork(train=train))
    task = asyncio.create_task(worker.do(Train(0, 0, np.zeros(1, np.float32), None, None)))
    while not began.is_set():
        await asyncio.sleep(0)
    task.cancel()
def command():
    asyncio.run(play())
    print("ended")
    raise SystemExit(7)
app.app = command
app.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "ended\n", "")


def test_no_thread_is_busy_once_its_work_is_done() -> None:
    async def play() -> object:
        return await LocalWorker(LocalWork(train=lambda _asked: np.ones(2))).do(
            Train(0, 0, MODEL, None, None)
        )

    asyncio.run(play())
    for thread in threading.enumerate():
        assert thread.name != "training" or thread.daemon
    assert not any_is_busy()
