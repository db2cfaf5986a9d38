"""A server killed while it tests a model: the next one ends the round, with the sums that were opened."""

from __future__ import annotations

from typing import Any

import pytest

from securefl.base.ids import SERVER
from securefl.protocol.kernel.effects import Evaluate
from securefl.protocol.round.shared.reports import RoundDone, StepRestored, SumOpened
from securefl.runtime.report.draft import RoundDraft
from tests.simulation.test_resumed_server import HIDDEN
from tests.simulation.world import Node, Op, World, scenario


def killed_at_test(world: World) -> World:
    """Run it; its first server is killed as it tests its first model, with the checkpoint written."""
    killed: list[bool] = []
    perform = world._perform

    def dying(node: Node, effects: tuple[Any, ...]) -> None:
        tests = [one for one in effects if isinstance(one, Evaluate)]
        if node.name != SERVER or not tests or killed:
            perform(node, effects)
            return
        killed.append(True)
        perform(node, tuple(one for one in effects if not isinstance(one, Evaluate)))
        world.kill_server()

    world._perform = dying  # type: ignore[method-assign]
    return world.run()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, Op("crash", "p01", "MaskedInput")),
        ({"reclusterings": "2", "leakage__mode": '"report"'}, Op("drop", "p01", "ShareBoxes")),
        ({"server": "active"}, Op("spoil", "p01", "ShareBoxes")),
        ({"secure_sum__kind": '"crypten"'}, Op("drop", "p01", "ShareBoxes")),
        ({"secure_sum__kind": '"plain"'}, Op("crash", "p01", "MaskedInput")),
    ],
)
def test_the_next_server_reports_the_opened_sums(fields: dict[str, str], fault: Op) -> None:
    """As the killed one reported them, with all that was lost, left out or retried."""
    world = killed_at_test(World(scenario(9, rounds="2", **fields), length=4, ops=[fault]))
    opened = [(*one.opened.key, one.opened.survivors) for one in world.reports(SumOpened) if one.round == 0]
    (restored,) = world.reports(StepRestored)
    assert [(one.reclustering, one.cluster, one.counted) for one in restored.sums] == opened
    assert opened
    draft = RoundDraft(0.0)
    draft.take(0.0, restored)
    (done,) = (one for one in world.reports(RoundDone) if one.round == 0)
    record = draft.close(1.0, done, frozenset(world.parties))
    assert [(one.reclustering, one.cluster, one.counted) for one in record.sums] == opened
    assert set(record.counted) == {party for *_, counted in opened for party in counted}


def test_of_hidden_groups_it_knows_no_sums() -> None:
    """The number of updates in each was known to the killed server only; the row still counts survivors."""
    world = killed_at_test(World(scenario(8, rounds="2", **HIDDEN), length=4))
    (restored,) = world.reports(StepRestored)
    assert restored.sums == ()
    (done,) = (one for one in world.reports(RoundDone) if one.round == 0)
    draft = RoundDraft(0.0)
    draft.take(0.0, restored)
    record = draft.close(1.0, done, frozenset(world.parties))
    assert (record.sums, record.counted) == ((), done.survivors)
