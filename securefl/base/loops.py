"""Coroutines called from synchronous code, also in a notebook."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_LONGEST_WAIT = 0.5
"""Longest time until an interrupt is noticed, s."""


def run_coroutine(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Return a coroutine's result; run it in another thread if this one runs a loop (Jupyter).

    An interrupt cancels it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    result: Future[ResultT] = Future()
    interrupted = threading.Event()

    async def work() -> ResultT:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for mypy
        begun.set_result((asyncio.get_running_loop(), task))
        if interrupted.is_set():
            task.cancel()
        return await coroutine

    def run() -> None:
        try:
            result.set_result(asyncio.run(work()))
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=run, name="run_coroutine")
    try:
        # Not an executor: it loses a thread whose start is interrupted.
        thread.start()
        # Python handles a signal just before a wait only after the wait.
        while not result.done():
            wait([result], timeout=_LONGEST_WAIT)
        return result.result()
    except BaseException:
        interrupted.set()
        if begun.done() and not result.done():
            loop, task = begun.result()
            with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(task.cancel)
        if thread.is_alive():
            thread.join()
        raise
