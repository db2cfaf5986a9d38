"""Local work in worker threads, with events as results."""

import asyncio
import time
from collections.abc import Callable

from securefl.base import foreign
from securefl.base.errors import SecureflError, UsageError
from securefl.protocol import kernel
from securefl.runtime.process import work_thread
from securefl.runtime.process.ports import LocalWork

LocalResult = kernel.Trained | kernel.Chosen | kernel.Evaluated | kernel.Consulted


class _Lane:
    def __init__(self, name: str) -> None:
        self.free = asyncio.Lock()
        self.thread = work_thread.WorkThread(name)


class LocalWorker:
    """Worker that trains, evaluates and consults."""

    def __init__(self, work: LocalWork, clock: Callable[[], float] = time.monotonic) -> None:
        self._work = work
        self._clock = clock
        # A late training may still use the model when the next begins.
        self._training = _Lane("training") if work.train else None
        # Another lane: the last training's time must not affect the next hello's.
        self._choosing = _Lane("choosing") if work.choose else None
        self._newest = -1

    async def do(
        self, effect: kernel.Train | kernel.Choose | kernel.Evaluate | kernel.Consult
    ) -> LocalResult | None:
        """Perform an effect in a worker thread; return None if a newer round has superseded it.

        Training and choosing turn any exception into an event: a process that ended or hung would reveal how
        its data react to the model.

        Raises:
            UsageError: this process cannot perform the effect: a bug.
            Exception: a bug in evaluating or consulting.
        """
        match effect:
            case kernel.Train():
                return await self._train(effect)
            case kernel.Choose():
                return await self._choose(effect)
            case kernel.Evaluate():
                return await self._evaluate(effect)
            case kernel.Consult():
                return await self._consult(effect)

    async def _train(self, effect: kernel.Train) -> kernel.Trained | None:
        train = self._work.train
        if train is None or self._training is None:
            raise UsageError("cannot train: this process was started without training data")
        self._newest = max(self._newest, effect.round)
        async with self._training.free:
            if effect.round < self._newest:
                # Training although a newer round waits keeps a slow party behind for good.
                return None
            ended = await self._training.thread.run(lambda: train(effect))
        if isinstance(ended, work_thread.Failure):
            return kernel.Trained(self._clock(), effect.round, effect.work, None, _reason(ended.error))
        return kernel.Trained(self._clock(), effect.round, effect.work, ended)

    async def _choose(self, effect: kernel.Choose) -> kernel.Chosen | None:
        choose = self._work.choose
        if choose is None or self._choosing is None:
            raise UsageError("cannot choose a task group: this process was started without data to choose by")
        self._newest = max(self._newest, effect.round)
        async with self._choosing.free:
            if effect.round < self._newest:
                return None
            ended = await self._choosing.thread.run(lambda: choose(effect.params))
        if isinstance(ended, work_thread.Failure):
            return kernel.Chosen(self._clock(), effect.round, None, _reason(ended.error))
        failure = "no model has a finite loss on its data" if ended is None else ""
        return kernel.Chosen(self._clock(), effect.round, ended, failure)

    async def _evaluate(self, effect: kernel.Evaluate) -> kernel.Evaluated:
        if self._work.evaluate is None:
            raise UsageError("cannot evaluate the model: this process was started without an evaluation")
        tested = await asyncio.to_thread(self._work.evaluate, effect.params)
        if tested is None:
            return kernel.Evaluated(self._clock(), effect.round, None, None)
        return kernel.Evaluated(
            self._clock(), effect.round, tested.accuracy, tested.loss, tested.backdoor_success
        )

    async def _consult(self, effect: kernel.Consult) -> kernel.Consulted:
        if self._work.consult is None:
            raise UsageError(
                "cannot apply the rule to own data: this process was started without data of the server"
            )
        try:
            gradients = await asyncio.to_thread(
                self._work.consult, effect.round, effect.params, effect.reclusterings
            )
        except UsageError:
            raise
        except SecureflError as error:
            return kernel.Consulted(self._clock(), effect.round, None, str(error))
        return kernel.Consulted(self._clock(), effect.round, gradients)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, SecureflError) else foreign.describe(error)
