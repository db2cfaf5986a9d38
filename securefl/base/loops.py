"""Coroutines from code that is not one, in a notebook, too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def run_coroutine(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Its result, or what it raises. Where a loop runs in this thread, as in Jupyter, in another thread.

    An interrupt cancels it there, too.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def work() -> ResultT:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for mypy
        begun.set_result((asyncio.get_running_loop(), task))
        return await coroutine

    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(asyncio.run, work())
        try:
            return found.result()
        except BaseException:
            if not found.done():
                loop, task = begun.result()
                with contextlib.suppress(RuntimeError):  # it has ended meanwhile
                    loop.call_soon_threadsafe(task.cancel)
            raise
