"""What per-example momentum goes on from: public vectors, the same in a run and a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from securefl.base.arrays import F32, F64
from securefl.base.ids import PartyId
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.kernel.effects import Train
from securefl.protocol.kernel.events import Place
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.rounds import ModelAnnounce
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.carrying import last_global_step
from securefl.protocol.round.party.draw import on_model
from securefl.protocol.round.party.phases import Idle, PartyContext, PartyHistory
from securefl.protocol.round.shared.reports import RunEffect, SumOpened
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.runtime.simulation.trainers import Carries, TrainingTask
from tests.simulation.world import Node, World, scenario
from tests.unit.misbehaviour.lab import Lab
from tests.unit.round.samples import plan_of
from tests.unit.simulation.test_against_machines import Recorder, evaluate, federation_of

GLOBAL = {"training__dp_sgd": "{momentum=0.1, carry='global'}", "server_optimiser__learning_rate": "0.5"}
OWN = {
    "training__dp_sgd": "{momentum=0.1, carry='own'}",
    "size": "1",
    "threshold": "1",
    "min_survivors": "1",
    "secure_sum__k_anonymity": "1",
    "leakage__mode": "report",
}
NOISY = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "64.0",
    "encoding__scale_bits": "2",
}


class Carried:
    """Notes what each training was told to go on from."""

    def __init__(self, world: World) -> None:
        self.seen: dict[tuple[PartyId, int], F64 | None] = {}
        world.observers.append(self)

    def __call__(
        self,
        node: Node,
        _b: object,
        _e: Event[AnyMessage],
        _a: object,
        effects: tuple[RunEffect, ...],
    ) -> None:
        for effect in effects:
            if isinstance(effect, Train):
                self.seen[node.name, effect.round] = effect.carry


def test_the_global_models_last_step_uphill_and_over_the_learning_rate() -> None:
    world = World(scenario(6, rounds="4", **GLOBAL))
    carried = Carried(world)
    world.run()
    for party in world.parties:
        assert carried.seen[party, 0] is None
        for round_ in (1, 2, 3):
            found = carried.seen[party, round_]
            assert found is not None
            assert found.tolist() == ((world.models[round_ - 1] - world.models[round_]) / 0.5).tolist()
            assert (found < 0).all(), "the models grow, so uphill is down"


def test_a_party_that_missed_a_model_begins_with_zeros() -> None:
    plan = plan_of(scenario(6, rounds="9", **GLOBAL))
    ctx = PartyContext(plan, PartyId("p00"), 10, None)  # type: ignore[arg-type]
    one, two = (ModelAnnounce(params=np.full(4, value, "<f4").tobytes()) for value in (1.0, 3.0))
    phase = on_model(ctx, Idle(PartyHistory(-1)), Place(1), one)
    assert phase.past.carry is None  # type: ignore[union-attr]
    follows = on_model(ctx, phase, Place(2), two)
    assert follows.past.carry.tolist() == [-4.0] * 4  # type: ignore[union-attr]
    missed = on_model(ctx, phase, Place(3), two)
    assert missed.past.carry is None  # type: ignore[union-attr]


def test_a_model_that_is_not_finite_carries_nothing() -> None:
    plan = plan_of(scenario(6, **GLOBAL))
    fine: F32 = np.ones(4, np.float32)
    for bad in (np.inf, -np.inf, np.nan):
        assert last_global_step(plan, fine, np.full(4, bad, np.float32)) is None
        assert last_global_step(plan, np.full(4, bad, np.float32), np.full(4, bad, np.float32)) is None
    world = World(scenario(6, rounds="3", **GLOBAL), initial=np.full(8, np.inf, np.float32))
    carried = Carried(world)
    world.run()
    assert set(carried.seen.values()) == {None}


@pytest.mark.parametrize("noise", [False, True])
def test_the_own_upload_as_it_was_opened_noise_included(noise: bool) -> None:
    world = World(scenario(4, rounds="3", **OWN, **(NOISY if noise else {})))
    carried = Carried(world)
    world.run()
    opened = {(r.opened.survivors[0], r.round): r.opened for r in world.reports(SumOpened)}
    for party in world.parties:
        assert carried.seen[party, 0] is None
        for round_ in (1, 2):
            found = carried.seen[party, round_]
            assert found is not None
            total = from_ring(opened[party, round_ - 1].ring)
            assert found.tolist() == (-total / 2.0**world.scenario.encoding.scale_bits).tolist()
    last = carried.seen[world.parties[0], 2]
    assert last is not None
    assert (np.unique(last).size > 1) == noise, "noise differs from coordinate to coordinate"


@pytest.mark.parametrize("kind", ["global", "own"])
@pytest.mark.parametrize("server", ["curious", "active"])
def test_a_simulation_goes_on_from_the_same(kind: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = GLOBAL if kind == "global" else {**OWN, **NOISY}
    lab = Lab(scenario(6, rounds="4", server=server, **sets), {})
    carried = Carried(lab)
    lab.run()
    federation = federation_of(lab, {})
    told: dict[int, Carries] = {}
    train = federation.trainings._train

    def trained(task: TrainingTask) -> Iterator[tuple[PartyId, F64 | None]]:
        told[task.round] = dict(task.carries)
        return train(task)

    monkeypatch.setattr(federation.trainings, "_train", trained)
    SimulatedRounds(federation, [Recorder()]).run(evaluate)
    assert len(told) == 4
    for (party, round_), expected in carried.seen.items():
        found = told[round_].get(party)
        assert (found is None) == (expected is None) == (round_ == 0)
        if found is not None and expected is not None:
            assert found.tobytes() == expected.tobytes()


def test_transfer_scales_the_servers_learning_rate_and_so_the_step() -> None:
    plan = plan_of(
        scenario(
            6, **GLOBAL, **{**NOISY, "privacy__multiplier": "2", "privacy__transfer": "{multiplier=0.8}"}
        )
    )
    assert plan.optimiser.learning_rate == pytest.approx(0.5 * 0.8 / 2)
    step = last_global_step(plan, np.zeros(4, np.float32), np.ones(4, np.float32))
    assert step is not None
    assert step.tolist() == pytest.approx([-5.0] * 4)
    silent = replace(plan, scenario=scenario(6, **GLOBAL))
    assert silent.optimiser.learning_rate == 0.5
