"""Standstills of the loop while a site trains in its process, and where they are shown."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.protocol.kernel.effects import Finished, Train
from securefl.protocol.round.shared.reports import LoopStoodStill
from securefl.runtime.process import standstill
from securefl.runtime.process.ports import LocalWork
from securefl.runtime.process.standstill import StandstillWatch
from tests.unit.process.federation import Recorder
from tests.unit.process.test_shell import PARAMS, Line, Script, shell

HELD_MS = 600
"""Milliseconds for which the interpreter lock is held."""
hold_lock: Callable[[int], int] = ctypes.PyDLL(None).usleep


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "NOTED_SECONDS", HELD_MS / 2000)
    monkeypatch.setattr(standstill, "_EVERY", 0.05)


@pytest.mark.parametrize("during", [True, False])
def test_only_standstills_during_a_training_are_reported(during: bool) -> None:
    found: list[tuple[int, float]] = []
    watch = StandstillWatch(lambda round_, seconds: found.append((round_, seconds)))

    async def body() -> None:
        watching = asyncio.create_task(watch.run())
        await asyncio.sleep(0)
        with watch.training(3):
            if during:
                await asyncio.to_thread(hold_lock, 1000 * HELD_MS)
            else:
                await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        if not during:
            hold_lock(1000 * HELD_MS)
        await asyncio.sleep(0.2)
        watching.cancel()

    asyncio.run(body())
    assert [round_ for round_, _ in found] == ([3] if during else [])
    assert all(seconds >= HELD_MS / 2000 for _, seconds in found)


@pytest.mark.parametrize("holds_up", [True, False])
def test_a_shell_reports_it_for_sites_in_its_process(holds_up: bool) -> None:
    def train(_asked: Train) -> F64:
        hold_lock(1000 * HELD_MS)
        return np.zeros(2)

    notes = Recorder()
    script = Script((Train(4, 0, PARAMS),), lambda _event: (Finished("done"),))
    work = LocalWork(train=train, holds_up=holds_up)

    async def body() -> None:
        await shell(script, Line(), work, witness=notes).run()

    asyncio.run(body())
    found = [item for item in notes.facts if isinstance(item, LoopStoodStill)]
    assert [item.round for item in found] == ([4] if holds_up else [])


def test_the_line_names_the_remedy() -> None:
    text = LoopStoodStill(0, 61.2).line()
    assert text is not None
    assert "--site-python" in text
    assert "1 min 01 s" in text
