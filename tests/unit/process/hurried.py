"""An event loop that waits for nothing but work: when only a deadline is left, its clock goes on to that."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar, TypeVarTuple
from unittest.mock import patch

from securefl.runtime.process.work_thread import Failure, WorkThread

ResultT = TypeVar("ResultT")
Ts = TypeVarTuple("Ts")


class HurriedLoop(asyncio.SelectorEventLoop):
    """For what happens in this process: nobody may be expected to come from outside.

    ``time`` is the monotonic clock and what was skipped; who compares times with it must read it here.
    """

    def __init__(self) -> None:
        self._skipped = 0.0
        self._working = 0
        super().__init__(_Hurried(self._skip))

    def time(self) -> float:
        return super().time() + self._skipped

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], ResultT], *args: *Ts
    ) -> asyncio.Future[ResultT]:
        self._working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._worked)
        return future

    @contextmanager
    def waiting_for_threads(self) -> Iterator[None]:
        """Wait for the calls of work threads, too: they return by no executor."""
        honest = WorkThread.run

        async def run(thread: WorkThread, call: Callable[[], ResultT]) -> ResultT | Failure:
            self._working += 1
            try:
                return await honest(thread, call)
            finally:
                self._working -= 1

        with patch.object(WorkThread, "run", run):
            yield

    def _worked(self, _future: asyncio.Future[Any]) -> None:
        self._working -= 1

    def _skip(self, seconds: float) -> bool:
        """Whether so much time may pass at once."""
        if self._working:
            return False
        self._skipped += seconds
        return True


class _Hurried(selectors.DefaultSelector):
    def __init__(self, skip: Callable[[float], bool]) -> None:
        super().__init__()
        self._skip = skip

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and (timeout <= 0 or self._skip(timeout))):
            return ready
        return super().select(timeout)
