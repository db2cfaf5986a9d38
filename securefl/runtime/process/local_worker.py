"""Local work between machine and libraries: what an effect asks for, done in a worker thread, as an event."""

from __future__ import annotations

import asyncio
import time

from securefl.base.errors import SecureflError, UsageError
from securefl.protocol.kernel import Choose, Chosen, Consult, Consulted, Evaluate, Evaluated, Train, Trained
from securefl.runtime.process.ports import LocalWork

LocalResult = Trained | Chosen | Evaluated | Consulted


class LocalWorker:
    """The worker of one process: trains, tests and consults, one training at a time."""

    def __init__(self, work: LocalWork) -> None:
        """Set up for ``work``."""
        self._work = work
        # A straggler may still be at the last round's training when the next one begins, with the same model.
        self._training = asyncio.Lock()
        # Not the same: how long the last training takes must not tell in when the next hello leaves.
        self._choosing = asyncio.Lock()
        self._newest = -1

    async def do(self, effect: Train | Choose | Evaluate | Consult) -> LocalResult | None:
        """Do what an effect asks for, in a worker thread; None where a newer round has made it pointless.

        Training and choosing that fail, in whatever way, end in an event that says so: on which data they do
        depends on the model, which the server makes, and a process that ended would tell it.

        Raises:
            UsageError: this process has nothing to do it with, or its work was called wrongly: a bug.
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
        if self._work.train is None:
            raise UsageError("this process does not train")
        self._newest = max(self._newest, effect.round)
        try:
            async with self._training:
                if effect.round < self._newest:
                    # A newer round's began to wait behind it, so the machine has left this one: to do it all
                    # the same would keep a party that once was slow behind for good.
                    return None
                update = await asyncio.to_thread(self._work.train, effect)
        except UsageError:
            raise
        except Exception as error:  # whatever a model raises on somebody's data
            return Trained(time.monotonic(), effect.round, effect.work, None, _reason(error))
        return Trained(time.monotonic(), effect.round, effect.work, update)

    async def _choose(self, effect: Choose) -> Chosen | None:
        if self._work.choose is None:
            raise UsageError("this process has no data to choose by")
        self._newest = max(self._newest, effect.round)
        async with self._choosing:
            if effect.round < self._newest:
                return None
            try:
                group = await asyncio.to_thread(self._work.choose, effect.params)
                failure = "no model has a finite loss on its data" if group is None else ""
            except UsageError:
                raise
            except Exception as error:  # whatever a model raises on somebody's data
                group, failure = None, _reason(error)
        return Chosen(time.monotonic(), effect.round, group, failure)

    async def _evaluate(self, effect: Evaluate) -> Evaluated:
        if self._work.evaluate is None:
            raise UsageError("this process does not evaluate")
        tested = await asyncio.to_thread(self._work.evaluate, effect.params)
        if tested is None:
            return Evaluated(time.monotonic(), effect.round, None, None)
        return Evaluated(
            time.monotonic(), effect.round, tested.accuracy, tested.loss, tested.backdoor_success
        )

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
            return Consulted(time.monotonic(), effect.round, None, str(error))
        return Consulted(time.monotonic(), effect.round, gradients)


def _reason(error: Exception) -> str:
    """For the party's own log."""
    return str(error) if isinstance(error, SecureflError) else f"{type(error).__name__}: {error}"
