"""A training that keeps its process from sending begins when only the inputs are still due."""

from __future__ import annotations

from typing import Any

import pytest

from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Send, Train
from securefl.protocol.kernel.events import Received, Trained
from securefl.protocol.messages.masking import KeyAdvert, KeyList
from securefl.protocol.round.shared.reports import NothingLearned, RoundDone, RunEffect
from tests.simulation.world import Node, World, scenario

P1 = PartyId("p01")
LONG = 100.0
"""Seconds of p01's training, beyond the deadlines of keys and shares."""
Log = list[tuple[float, str, int]]

KINDS: dict[str, dict[str, Any]] = {
    "masking": {},
    "reclustered": {"reclusterings": "2"},
    "new-work": {"reclusterings": "2", "clustering__new_work": "true"},
    "crypten": {"secure_sum__kind": "crypten", "threshold": "3", "min_survivors": "3"},
    "active": {"server": "active", "threshold": "4", "min_survivors": "5", "size": "6"},
}


def run(*, trains_last: bool = True, **sets: Any) -> tuple[World, Log]:
    """All that p01 sends and trains: when, what, of which round. Its training takes LONG."""
    log: Log = []
    world = World(scenario(6, **{"rounds": "2"} | sets), trains_last=trains_last)
    world.working[P1] = LONG

    def note(node: Node, _was: object, event: Any, _is: object, effects: tuple[RunEffect, ...]) -> None:
        if node.name == P1 and isinstance(event, Trained):
            log.append((event.now, "Trained", event.round))
        for effect in effects if node.name == P1 else ():
            if isinstance(effect, Send) and effect.place.round >= 0:
                log.append((event.now, type(effect.message).__name__, effect.place.round))
            elif isinstance(effect, Train):
                log.append((event.now, "Train", effect.round))

    world.observers.append(note)
    world.run()
    return world, log


def asked_during_training(log: Log) -> list[str]:
    """Messages of p01 between the beginning of a round's first training and its end."""
    found, training = list[str](), False
    for _, what, _ in log:
        if what == "Train":
            training = True
        elif what == "Trained":
            training = False
        elif training:
            found.append(what)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_due_while_it_trains(kind: str) -> None:
    world, log = run(**KINDS[kind])
    assert not asked_during_training(log)
    assert any(what == "Train" for _, what, _ in log)
    assert all(P1 in done.survivors for done in world.reports(RoundDone))
    assert len(world.reports(RoundDone)) == 2
    assert not world.reports(NothingLearned, P1)


def test_other_processes_train_at_once() -> None:
    """Where messages pass during training, keys and shares take none of its time."""
    _, log = run(trains_last=False)
    assert set(asked_during_training(log)) >= {"ShareBoxes"}


def test_a_sum_that_is_lost_delays_it_for_a_bounded_time() -> None:
    """The server does not tell members that it has lost a sum: the key list of one does not come."""
    world = World(scenario(6, rounds="1", reclusterings="2"), trains_last=True)
    times: dict[str, float] = {}

    def note(node: Node, _was: object, event: Any, _is: object, effects: tuple[RunEffect, ...]) -> None:
        for effect in effects if node.name == P1 else ():
            if isinstance(effect, Train):
                times["begun"] = event.now
            elif isinstance(effect, Send) and isinstance(effect.message, KeyAdvert):
                times.setdefault("drawn", event.now)

    machine = world.nodes[P1].machine
    step = machine.step

    def deaf(phase: Any, event: Any) -> Any:
        if isinstance(event, Received) and isinstance(event.message, KeyList) and event.place.reclustering:
            return phase, ()
        return step(phase, event)

    vars(machine)["step"] = deaf
    world.observers.append(note)
    world.run()
    deadlines = world.scenario.deadlines
    assert times["begun"] == pytest.approx(times["drawn"] + deadlines.keys + deadlines.shares)
