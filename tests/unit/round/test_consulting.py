"""The server between opening and aggregating: rules that need a gradient of its own data."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from securefl.base.arrays import F32, F64
from securefl.base.errors import UsageError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import (
    Aborted,
    Consult,
    Evaluate,
    Finished,
    Keep,
    Reject,
    Report,
    WakeAt,
)
from securefl.protocol.kernel.events import (
    Consulted,
    DeadlinePassed,
    Evaluated,
    Place,
    PresenceHint,
    Received,
    Trained,
)
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.control import WIRE_VERSION, JoinRun
from securefl.protocol.messages.rounds import Release
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import Consulting, Evaluating, ServerPhase
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import (
    ConsultingFailed,
    ModelStepped,
    RoundDone,
    RunEffect,
    StepReached,
)
from securefl.protocol.round.walk import reclusterings_to_consult
from securefl.scenario.scenario import Scenario
from tests.simulation.world import Node, Op, World, scenario


def with_rule(rule: str = '{ type = "zeno++" }', parties: int = 6, **more: str) -> Scenario:
    return scenario(parties, aggregation__rule=rule, data__server_fraction="0.1", **more)


class Asked:
    """Remembers what the server asked its data, and answers with one vector or a failure."""

    def __init__(self, *answers: float | None) -> None:
        self._answers = answers
        self.calls: list[tuple[int, F32, tuple[int, ...]]] = []

    def __call__(self, round_: int, params: F32, asked: tuple[int, ...]) -> tuple[F64, ...] | None:
        answer = self._answers[len(self.calls) % len(self._answers)]
        self.calls.append((round_, params, asked))
        return None if answer is None else (np.full(len(params), answer),) * len(asked)


def stepped(world: World) -> list[float | None]:
    return [report.update_norm for report in world.reports(ModelStepped)]


def test_a_gradient_for_each_reclustering_is_asked_for_once_all_is_opened() -> None:
    asked = Asked(-1.0)
    world = World(with_rule(reclusterings="2", rounds="2"), consult=asked).run()
    assert isinstance(world.server.outcome, Finished)
    assert [(round_, wanted) for round_, _, wanted in asked.calls] == [(0, (0, 1)), (1, (0, 1))]
    assert [params.tolist() for _, params, _ in asked.calls] == [[0.0] * 8, [1.0] * 8]
    first = [type(r).__name__ if not isinstance(r, StepReached) else r.step for r in world.server.reports]
    first = first[: first.index("RoundDone") + 1]
    assert first[first.index("release") :] == [
        "release",
        *["SumOpened"] * 4,
        "consult",
        "ModelStepped",
        "RoundDone",
    ]
    assert world.models[1].tolist() == [1.0] * 8


def test_uphill_sums_are_left_out() -> None:
    world = World(with_rule(), consult=Asked(1.0)).run()
    (report,) = world.reports(ModelStepped)
    assert (report.kept, report.rejected) == ((), ((0, 0), (0, 1)))
    assert report.update_norm == 0.0


def test_each_reclustering_has_its_own_gradient() -> None:
    world = World(
        with_rule(reclusterings="2"),
        consult=lambda _round, params, _asked: (np.full(len(params), -1.0), np.full(len(params), 1.0)),
    ).run()
    (report,) = world.reports(ModelStepped)
    assert (report.kept, report.rejected) == (((0, 0), (0, 1)), ((1, 0), (1, 1)))
    assert report.update_norm == pytest.approx(np.sqrt(8) / 2)


def test_fltrust_takes_the_length_of_the_servers_update() -> None:
    world = World(with_rule('{ type = "fltrust" }'), consult=Asked(-0.25)).run()
    assert stepped(world) == [pytest.approx(0.25 * np.sqrt(8))]


def test_other_rules_ask_nothing() -> None:
    asked = Asked(None)
    world = World(scenario(data__server_fraction="0.1"), consult=asked).run()
    assert asked.calls == []
    assert "consult" not in [report.step for report in world.reports(StepReached)]
    assert isinstance(world.server.outcome, Finished)


def test_nothing_is_asked_where_nothing_was_opened() -> None:
    asked = Asked(-1.0)
    silent = [Op("drop", f"p0{i}", "Release") for i in range(6)]
    world = World(with_rule(), ops=silent, consult=asked).run()
    assert asked.calls == []
    assert stepped(world) == [None]


def test_only_reclusterings_with_enough_clusters_are_asked_for() -> None:
    plan = World(
        with_rule(
            parties=9,
            reclusterings="3",
            aggregation__pre_aggregation='[{ type = "arc", byzantine = 1 }]',
        )
    ).plan
    empty = np.zeros(8, dtype=np.uint32)
    sums = [ClusterSum(r, j, (), (), empty) for r, j in ((0, 0), (0, 1), (2, 0), (2, 1), (2, 2))]
    assert reclusterings_to_consult(plan, sums) == (2,)
    assert reclusterings_to_consult(plan, sums[:2]) == reclusterings_to_consult(plan, []) == ()


def test_without_gradients_the_model_stays_and_the_run_goes_on() -> None:
    world = World(with_rule(rounds="3"), consult=Asked(-1.0, None, -1.0)).run()
    assert [norm is None for norm in stepped(world)] == [False, True, False]
    assert world.reports(ConsultingFailed) == [ConsultingFailed(1, "no gradient")]
    done = world.reports(RoundDone)[1]
    assert (done.opened, done.lost, done.kept, done.rejected) == (((0, 0), (0, 1)), (), (), ())
    assert world.models[2].tolist() == world.models[1].tolist()
    assert isinstance(world.server.outcome, Finished)


def test_three_rounds_without_gradients_end_the_run() -> None:
    world = World(with_rule(rounds="9"), consult=Asked(None)).run()
    ended = world.server.outcome
    assert isinstance(ended, Aborted)
    assert ended.reason.startswith("no sum could be used in 3 rounds in a row")
    assert all(isinstance(world.nodes[name].outcome, Aborted) for name in world.parties)


@pytest.fixture(scope="module")
def moment() -> tuple[World, Consulting]:
    """A server that waits for gradients of both reclusterings."""
    world, found = World(with_rule(reclusterings="2")), []

    def watch(
        node: Node,
        _b: object,
        _e: Event[AnyMessage],
        after: object,
        _f: tuple[RunEffect, ...],
    ) -> None:
        if node.name == SERVER and isinstance(after, Consulting):
            found.append(after)

    world.observers.append(watch)
    world.run()
    return world, found[0]


def take(
    moment: tuple[World, Consulting], event: Event[AnyMessage]
) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
    world, phase = moment
    assert isinstance(world.server.machine, ServerMachine)
    return world.server.machine.step(phase, event)


def gradients(number: int, length: int = 8) -> tuple[F64, ...]:
    return (np.full(length, -1.0),) * number


def test_it_waits_without_a_deadline_for_its_own_result_only(moment: tuple[World, Consulting]) -> None:
    world, phase = moment
    assert phase.verifiers == (0, 1)
    assert len(phase.opened.sums) == 4
    others: tuple[Event[AnyMessage], ...] = (
        Consulted(9.0, 7, gradients(2)),
        Evaluated(9.0, 0, 0.5, 1.0),
        Trained(9.0, 0, 0, np.zeros(8, dtype=np.float32)),
        DeadlinePassed(1e9),
    )
    for event in others:
        after, effects = take(moment, event)
        assert after is phase
        assert effects == (WakeAt(None),)
    after, effects = take(moment, Consulted(9.0, 0, gradients(2)))
    assert isinstance(after, Evaluating)
    assert [type(effect) for effect in effects] == [Report, Evaluate, WakeAt, Keep]
    assert after.standing.params.tolist() == [1.0] * 8
    again, effects = world.server.machine.step(after, Consulted(9.0, 0, gradients(2)))
    assert again is after
    assert effects == (WakeAt(None),)


def values_of(phase: Any) -> tuple[object, ...]:
    """The phase's fields, and those of its standing. Identical arrays are equal in a tuple.

    Dataclasses compare their fields one by one from Python 3.13 on, which has no answer for arrays.
    """
    own = {one.name: getattr(phase, one.name) for one in fields(phase)}
    standing = own.pop("standing")
    return (*own.values(), *(getattr(standing, one.name) for one in fields(standing)))


def test_messages_come_too_late_but_who_joins_is_heard(moment: tuple[World, Consulting]) -> None:
    world, phase = moment
    party = PartyId("p01")
    late: Received[AnyMessage] = Received(9.0, party, Place(0), Release(sealed=b"x"))
    after, effects = take(moment, late)
    assert after is phase
    assert effects[0] == Reject(party, "late: Release of round 0, the server is consulting")
    early: Received[AnyMessage] = Received(9.0, party, Place(5), Release(sealed=b"x"))
    _, effects = take(moment, early)
    assert effects[0] == Reject(party, "Release of round 5 arrived too early: the server is consulting")
    gone, _ = take(moment, PresenceHint(9.0, party))
    assert values_of(gone) == values_of(
        replace(
            phase,
            standing=replace(
                phase.standing, session=replace(phase.standing.session, disconnected={party: 9.0})
            ),
        )
    )
    known = JoinRun(config_digest=world.plan.config_digest(), version=WIRE_VERSION, leader=b"", round=-1)
    join: Received[AnyMessage] = Received(9.0, party, Place(-1), known)
    back, effects = world.server.machine.step(gone, join)
    assert values_of(back) == values_of(phase)
    assert effects == (WakeAt(None),)


def test_a_failure_says_why_and_changes_nothing(moment: tuple[World, Consulting]) -> None:
    after, effects = take(moment, Consulted(9.0, 0, None, "it is not finite"))
    assert isinstance(after, Evaluating)
    assert effects[0] == Report(ConsultingFailed(0, "it is not finite"))
    assert effects[1] == Report(ModelStepped(0, (), (), None))
    assert after.standing.params is moment[1].standing.params
    assert (after.standing.rounds_without_update, after.standing.updates) == (1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        gradients(1),
        gradients(3),
        gradients(2, length=7),
        (*gradients(1), np.full(8, np.nan)),
        (np.zeros(8, dtype=np.float32),) * 2,
    ],
)
def test_gradients_that_do_not_fit_are_a_bug(
    moment: tuple[World, Consulting], wrong: tuple[F64, ...]
) -> None:
    with pytest.raises(UsageError):
        take(moment, Consulted(9.0, 0, wrong))


def test_the_effect_names_the_reclusterings_and_hides_the_model() -> None:
    effect = Consult(0, np.full(3, 12345, dtype=np.float32), (0, 1))
    assert "12345" not in repr(effect) + repr(Consulted(0.0, 0, (np.full(3, 12345.0),)))
    assert "(0, 1)" in repr(effect)
