"""Number of parties that a step of the server waits for, with those that have answered."""

from __future__ import annotations

import pytest

from securefl.protocol.kernel import Event
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import ServerPhase
from securefl.protocol.round.shared.reports import Effects
from tests.simulation.world import World, scenario


def test_every_step_asks_as_many_as_it_still_waits_for_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a round without dropouts all parties are asked, and a working phase asks no party."""
    seen: dict[str, set[tuple[int, int]]] = {}
    step = ServerMachine.step

    def watched(
        machine: ServerMachine, phase: ServerPhase, event: Event[AnyMessage]
    ) -> tuple[ServerPhase, Effects]:
        after, effects = step(machine, phase, event)
        found = machine.count_asked(after), len(machine.awaited_peers(after))
        seen.setdefault(type(after).__name__, set()).add(found)
        return after, effects

    monkeypatch.setattr(ServerMachine, "step", watched)
    World(scenario(6)).run()
    for asked, awaited in set().union(*seen.values()):
        assert awaited <= asked
        assert asked in {0, 6}
    assert {(6, 6), (6, 1)} <= seen["Joining"] | seen["CollectingHellos"] | seen["Summing"]
    assert {asked for asked, _ in seen["Summing"]} == {6}
    assert seen["Ended"] == {(0, 0)}
