"""Local work between machine and libraries: what an effect asks for, done in a worker thread, as an event."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from securefl.base.errors import SecureflError, UsageError
from securefl.base.foreign import describe
from securefl.protocol.kernel import Choose, Chosen, Consult, Consulted, Evaluate, Evaluated, Train, Trained
from securefl.runtime.process.ports import LocalWork
from securefl.runtime.process.work_thread import Failure, WorkThread

LocalResult = Trained | Chosen | Evaluated | Consulted


class _Lane:
    """A thread for one kind of work, and the lock of the work that it is at."""

    def __init__(self, name: str) -> None:
        self.free = asyncio.Lock()
        self.thread = WorkThread(name)


class LocalWorker:
    """The worker of one process: trains, tests and consults, one training at a time."""

    def __init__(self, work: LocalWork, clock: Callable[[], float] = time.monotonic) -> None:
        """Set up for ``work``; events have the time of ``clock``."""
        self._work = work
        self._clock = clock
        # A late training may still run when the next one begins, with the same model: one after the other.
        self._training = _Lane("training") if work.train else None
        # Another lane: the time that the last training takes must not show in when the next hello leaves.
        self._choosing = _Lane("choosing") if work.choose else None
        self._newest = -1

    async def do(self, effect: Train | Choose | Evaluate | Consult) -> LocalResult | None:
        """Do what an effect asks for, in a worker thread; None if a newer round has made it pointless.

        Training and choosing that fail, with any exception, end in an event that says so. On which data they
        fail depends on the model, which the server makes: a process that ended, or stopped answering, would
        answer the server's question about the data.

        Raises:
            UsageError: this process has nothing to do it with: a bug.
            Exception: a bug in evaluating or consulting.
        """
        match effect:
            case Train():
                return await self._train(effect)
            case Choose():
                return await self._choose(effect)
            case Evaluate():
                return await self._evaluate(effect)
            case Consult():
                return await self._consult(effect)

    async def _train(self, effect: Train) -> Trained | None:
        train = self._work.train
        if train is None or self._training is None:
            raise UsageError("this process does not train")
        self._newest = max(self._newest, effect.round)
        async with self._training.free:
            if effect.round < self._newest:
                # A newer round's training began to wait behind this one: the machine has left this round. To
                # train all the same would keep a party that once was slow behind for good.
                return None
            ended = await self._training.thread.run(lambda: train(effect))
        if isinstance(ended, Failure):
            return Trained(self._clock(), effect.round, effect.work, None, _reason(ended.error))
        return Trained(self._clock(), effect.round, effect.work, ended)

    async def _choose(self, effect: Choose) -> Chosen | None:
        choose = self._work.choose
        if choose is None or self._choosing is None:
            raise UsageError("this process has no data to choose by")
        self._newest = max(self._newest, effect.round)
        async with self._choosing.free:
            if effect.round < self._newest:
                return None
            ended = await self._choosing.thread.run(lambda: choose(effect.params))
        if isinstance(ended, Failure):
            return Chosen(self._clock(), effect.round, None, _reason(ended.error))
        failure = "no model has a finite loss on its data" if ended is None else ""
        return Chosen(self._clock(), effect.round, ended, failure)

    async def _evaluate(self, effect: Evaluate) -> Evaluated:
        if self._work.evaluate is None:
            raise UsageError("this process does not evaluate")
        tested = await asyncio.to_thread(self._work.evaluate, effect.params)
        if tested is None:
            return Evaluated(self._clock(), effect.round, None, None)
        return Evaluated(self._clock(), effect.round, tested.accuracy, tested.loss, tested.backdoor_success)

    async def _consult(self, effect: Consult) -> Consulted:
        if self._work.consult is None:
            raise UsageError("this process does not consult data of its own")
        try:
            gradients = await asyncio.to_thread(
                self._work.consult, effect.round, effect.params, effect.reclusterings
            )
        except UsageError:
            raise
        except SecureflError as error:
            return Consulted(self._clock(), effect.round, None, str(error))
        return Consulted(self._clock(), effect.round, gradients)


def _reason(error: BaseException) -> str:
    """Return a line for the party's own log."""
    return str(error) if isinstance(error, SecureflError) else describe(error)
