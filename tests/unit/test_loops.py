"""Coroutines where a loop may run already."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from securefl.base.loops import run_coroutine


async def half(number: int) -> int:
    await asyncio.sleep(0)
    if number % 2:
        raise ValueError(number)
    return number // 2


def test_without_a_loop() -> None:
    assert run_coroutine(half(6)) == 3
    with pytest.raises(ValueError, match="7"):
        run_coroutine(half(7))


def test_while_a_loop_runs() -> None:
    async def notebook() -> int:
        return run_coroutine(half(6))

    async def failing_notebook() -> int:
        return run_coroutine(half(7))

    assert asyncio.run(notebook()) == 3
    with pytest.raises(ValueError, match="7"):
        asyncio.run(failing_notebook())


def test_an_interrupt_does_not_wait_for_its_end() -> None:
    """Jupyter raises KeyboardInterrupt in the main thread, whose loop has started the work."""
    ended = []

    async def endless() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def notebook() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            run_coroutine(endless())

    asyncio.run(notebook())
    assert ended == ["cancelled"]


def test_an_interrupt_while_the_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it can come while ``start`` waits: the work runs already, and still must be cancelled."""
    ended = []
    running = threading.Event()
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "run_coroutine":
            running.wait()
            raise KeyboardInterrupt

    async def endless() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def notebook() -> None:
        with pytest.raises(KeyboardInterrupt):
            run_coroutine(endless())

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    asyncio.run(notebook())
    assert ended == ["cancelled"]
