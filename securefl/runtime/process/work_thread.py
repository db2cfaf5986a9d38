"""Thread for code that may fail in any way, or never end."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Failure:
    """Exception of any class that the code raised.

    A value: futures and event loops treat ``StopIteration``, ``CancelledError`` and others specially.
    """

    error: BaseException


class WorkThread:
    """Daemon thread that runs calls in order.

    The interpreter does not wait for it (:func:`any_is_busy`). It starts at once: no later call makes the
    process larger.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[_Call[Any]] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def run(self, call: Callable[[], ResultT]) -> ResultT | Failure:
        """Return the result of ``call``, or its failure.

        Cancelling the caller does not stop the call.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ResultT | Failure] = loop.create_future()
        self._calls.put(_Call(call, loop, done))
        return await done

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            _BUSY.add(call)
            result = outcome_of(call.function)
            _BUSY.discard(call)
            # The loop may have ended.
            with suppress(RuntimeError):
                call.loop.call_soon_threadsafe(call.finish, result)


def outcome_of(function: Callable[[], ResultT]) -> ResultT | Failure:
    """Return the result of ``function``, or its failure."""
    try:
        return function()
    except BaseException as error:
        return Failure(error)


def any_is_busy() -> bool:
    """Return True if code still runs in a work thread of this process.

    Then leave by ``os._exit``: the interpreter's shutdown would end it inside a library call, which aborts
    the process.
    """
    return bool(_BUSY)


@dataclass(frozen=True, slots=True, eq=False)
class _Call(Generic[ResultT]):
    function: Callable[[], ResultT]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[ResultT | Failure]

    def finish(self, result: ResultT | Failure) -> None:
        """Set the result in the loop's thread, unless the caller was cancelled."""
        if not self.done.done():
            self.done.set_result(result)


_BUSY: set[_Call[Any]] = set()
