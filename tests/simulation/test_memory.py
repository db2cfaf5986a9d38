"""Memory of machines and inboxes over many rounds: what is left of a round does not add up.

Processes, brokers and files are left to ``make soak``.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import pytest

from securefl.base.ids import SERVER
from securefl.protocol.kernel.effects import Report
from securefl.protocol.round.shared.reports import RoundStarted, RunEffect
from tests.simulation import rosters
from tests.simulation.world import Node, World, scenario

BEGIN = 20
"""Round from which memory is compared: each inbox is as full as it gets."""
A_ROUND = 1000
"""Bytes."""
_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


class Nowhere(list[Any]):
    """Keeps nothing of what a world notes down for its tests."""

    def append(self, item: object) -> None:
        pass

    def __iadd__(self, items: Iterable[object]) -> Nowhere:  # type: ignore[misc]
        return self


def held_by(node: Node) -> int:
    """Bytes of everything that a node's phase, machine, inbox and outbox lead to."""
    seen = {id(None)}
    waiting: list[object] = [node.phase, node.machine, node.inbox, node.outbox]
    total = 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _CODE):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        waiting += gc.get_referents(one)
    return total


def memory_at(rounds: tuple[int, ...], parties: int, **overrides: str) -> dict[int, dict[str, int]]:
    """Bytes at the beginning of these rounds, by node, and in all (``*``)."""
    world = World(scenario(parties, rounds=str(max(rounds) + 1), **overrides))
    world.sent = world.frames = Nowhere()
    for node in world.nodes.values():
        node.reports = node.rejects = node.journal = Nowhere()
    found: dict[int, dict[str, int]] = {}

    def look(node: Node, _b: object, _e: object, _a: object, effects: tuple[RunEffect, ...]) -> None:
        began = [
            one.item.round
            for one in effects
            if isinstance(one, Report) and isinstance(one.item, RoundStarted)
        ]
        if node.name == SERVER and began and began[0] in rounds:
            world.models.clear()
            rosters._holds.cache_clear()
            gc.collect()
            here = {"*": tracemalloc.get_traced_memory()[0]}
            found[began[0]] = here | {name: held_by(each) for name, each in world.nodes.items()}

    world.observers.append(look)
    tracemalloc.start()
    try:
        world.run()
    finally:
        tracemalloc.stop()
    return found


VERIFIED = {
    "size": "4",
    "threshold": "3",
    "min_survivors": "3",
    "server": "active",
    "secure_sum__verify": '"committee"',
    "secure_sum__colluders": "1",
    "secure_sum__colluders_per_cluster": "1",
}


@pytest.mark.parametrize(
    ("parties", "end", "overrides"),
    [
        pytest.param(6, 30, {}, id="curious"),
        pytest.param(6, 50, {}, id="curious, longer", marks=pytest.mark.slow),
        pytest.param(8, 50, VERIFIED, id="verified", marks=pytest.mark.slow),
    ],
)
def test_a_round_leaves_less_than_a_kilobyte_behind(
    parties: int, end: int, overrides: dict[str, str]
) -> None:
    found = memory_at((BEGIN, end), parties, **overrides)
    names = found[BEGIN].keys() - {"*"}
    assert len(names) == parties + 1
    growth = {name: (found[end][name] - found[BEGIN][name]) / (end - BEGIN) for name in found[BEGIN]}
    assert max(growth[name] for name in names) < A_ROUND
    assert growth["*"] < A_ROUND * len(names)
