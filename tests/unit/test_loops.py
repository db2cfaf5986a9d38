"""Coroutines where a loop may run already."""

from __future__ import annotations

import asyncio

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
