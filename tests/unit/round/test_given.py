"""What a party enters in its account, and that it does so before anything leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from securefl.base.ids import SERVER, PartyId
from securefl.methods.clustering.assignment import Assignment
from securefl.protocol.kernel.effects import Enter, Send, SumsGiven, UpdateGiven
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Release
from securefl.protocol.round.shared.budget import NO_RELEASES, add_round
from securefl.protocol.round.shared.leakage import sums_by_model
from securefl.protocol.round.shared.reports import RunEffect, SumOpened
from securefl.protocol.round.shared.statement import model_digest
from tests.simulation.world import World, scenario
from tests.unit.round.samples import plan_of
from tests.unit.round.test_budget import private

NEW_WORK = {"reclusterings": "3", "clustering__new_work": "true"}


def done_by(world: World) -> dict[PartyId, list[RunEffect]]:
    """All effects of each party, in order."""
    done: dict[PartyId, list[RunEffect]] = {name: [] for name in world.parties}
    world.observers.append(
        lambda node, _before, _event, _after, effects: (
            None if node.name == SERVER else done[node.name].extend(effects)
        )
    )
    world.run()
    return done


@pytest.mark.parametrize("server", ["curious", "active"])
@pytest.mark.parametrize("more", [{}, NEW_WORK], ids=["one work", "new work"])
def test_updates_and_sums_are_entered_before_they_leave(server: str, more: dict[str, str]) -> None:
    world = World(scenario(6, server=server, **more), length=4)
    done = done_by(world)
    model = model_digest(world.models[0])
    opened = {report.opened.survivors for report in world.reports(SumOpened)}
    for effects in done.values():
        entered = [(at, e.entry) for at, e in enumerate(effects) if isinstance(e, Enter)]
        sent = [(at, e.message) for at, e in enumerate(effects) if isinstance(e, Send)]
        inputs = [at for at, message in sent if isinstance(message, MaskedInput)]
        releases = [at for at, message in sent if isinstance(message, Release)]
        ((update_at, update), (sums_at, sums)) = entered
        assert isinstance(update, UpdateGiven)
        assert update == UpdateGiven(0, len(inputs) if more else 1, b"", update.drawn, update.silent)
        assert {frozenset(row) for row in update.drawn[model]} == {frozenset(row) for row in opened}
        assert update_at < min(inputs)
        assert isinstance(sums, SumsGiven)
        assert {frozenset(row) for row in sums.sums[model]} == {frozenset(row) for row in opened}
        assert sums_at < releases[0]


def test_every_work_of_a_round_is_a_release() -> None:
    """At the server, too, which ends a run when budgets are spent."""
    plan, party = plan_of(private(reclusterings="3", clustering__new_work="true")), PartyId("p00")
    assert dict(add_round(plan, NO_RELEASES, [party])) == {party: 3}


def test_sums_of_task_groups_are_of_the_models_of_their_groups() -> None:
    params = np.arange(8, dtype=np.float32)
    names = tuple(PartyId(f"p0{k}") for k in range(6))
    clusters = ((names[:2], names[2:4], names[4:]),)
    alike = Assignment(names, clusters, tasks=(0, 1, 1))
    plan: Any = SimpleNamespace(length=4)
    given = sums_by_model(plan, params, alike, names[:5], (0,))
    first, second = model_digest(params[:4]), model_digest(params[4:])
    assert given == {first: (names[:2],), second: (names[2:4], names[4:5])}
    assert sums_by_model(plan, params, Assignment(names, clusters), names[1:], (0,)) == {
        model_digest(params): (names[1:2], names[2:4], names[4:])
    }
    assert sums_by_model(plan, params, alike, names, ()) == {}
