"""A simulated run whose reports the tests replay."""

from __future__ import annotations

from functools import cache

from securefl.base.ids import SERVER
from securefl.protocol.kernel.effects import Report
from securefl.protocol.round.shared.reports import AnyReport, RunEffect
from securefl.scenario.scenario import Scenario
from tests.simulation.world import Node, Op, World, scenario


class _Watched(World):
    """Notes when the server reports what."""

    def __init__(self, plan: Scenario, ops: tuple[Op, ...]) -> None:
        self.log: list[tuple[float, AnyReport]] = []
        super().__init__(plan, ops=ops)

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        if node.name == SERVER:
            self.log += [(self.now, effect.item) for effect in effects if isinstance(effect, Report)]
        super()._perform(node, effects)


@cache
def eventful() -> tuple[Scenario, tuple[tuple[float, AnyReport], ...]]:
    """Twelve parties, four rounds.

    In round 1 p03 stays silent, in round 2 p05 dies, in round 3 the hello of p07 is damaged on its way.
    """
    plan = scenario(12, rounds="4", deadlines__training="9")
    ops = (
        Op("drop", "p03", "MaskedInput", 1),
        Op("crash", "p05", "ShareBoxes", 2),
        Op("corrupt", "p07", "Hello", 3),
    )
    world = _Watched(plan, ops)
    world.run()
    return plan, tuple(world.log)
