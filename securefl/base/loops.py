"""Coroutines from code that is not one, in a notebook, too."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def run_coroutine(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Its result, or what it raises. Where a loop runs in this thread, as in Jupyter, in another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
