"""New local work per reclustering: every sum of a round holds another update of each party."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.methods.clustering.sizes import work_of, works_of
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.kernel.effects import Journal, Send, Train
from securefl.protocol.kernel.events import Trained
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyPhase, Working
from securefl.protocol.round.party.sums import on_trained
from securefl.protocol.round.shared.randomness import training_entropy, update_entropy
from securefl.protocol.round.shared.reports import (
    Effects,
    NothingLearned,
    RoundDone,
    SumOpened,
    UpdateEncoded,
)
from securefl.protocol.secure_sum.masking.client import Submitted
from securefl.runtime.misbehaviour.seam import Action
from securefl.scenario.scenario import Scenario
from tests.simulation.world import Node, Op, scenario
from tests.unit.misbehaviour.lab import ROUNDING, Lab

P1 = PartyId("p01")
NEW_WORK = {"reclusterings": "3", "clustering__new_work": "true"}


class Diary(Lab):
    """A lab that writes down what each process does, in order."""

    def __init__(self, config: Scenario) -> None:
        super().__init__(config, {})
        self.done: list[tuple[PartyId, Action]] = []

    def _perform(self, node: Node, effects: tuple[Action, ...]) -> None:
        self.done += [(node.name, effect) for effect in effects]
        super()._perform(node, effects)


def assert_each_sum_has_its_own_update(lab: Lab) -> int:
    """Work w of the lab is worth 1 + w times as much, and reclustering r sums work r."""
    opened = lab.reports(SumOpened)
    for report in opened:
        decoded = from_ring(report.opened.ring) / 2.0**16
        worth = sum(lab.worth[party] for party in report.opened.survivors)
        np.testing.assert_allclose(decoded, (1 + report.opened.reclustering) * worth, atol=3 * ROUNDING)
    return len(opened)


def test_how_many_works_there_are_and_which_one_is_summed() -> None:
    same, new = scenario(6, reclusterings="3"), scenario(6, **NEW_WORK)
    assert (works_of(same.clustering), [work_of(same.clustering, r) for r in range(3)]) == (1, [0, 0, 0])
    assert (works_of(new.clustering), [work_of(new.clustering, r) for r in range(3)]) == (3, [0, 1, 2])


@pytest.mark.parametrize("server", ["curious", "active"])
def test_every_reclustering_sums_an_update_of_its_own(server: str) -> None:
    lab = Lab(scenario(6, rounds="2", server=server, **NEW_WORK), {})
    lab.run()
    assert assert_each_sum_has_its_own_update(lab) == 2 * 3 * 2
    encoded = [(r.round, r.work) for r in lab.reports(UpdateEncoded, P1)]
    assert encoded == [(round_, work) for round_ in range(2) for work in range(3)]


def test_without_it_a_party_trains_once() -> None:
    lab = Diary(scenario(6, reclusterings="3"))
    lab.run()
    assert Counter(name for name, e in lab.done if isinstance(e, Train)) == dict.fromkeys(lab.parties, 1)
    lab.assert_sums_right(0)


def test_the_journal_is_written_once_and_before_any_masked_input_leaves() -> None:
    lab = Diary(scenario(6, **NEW_WORK))
    lab.run()
    for party in lab.parties:
        done = [effect for name, effect in lab.done if name == party]
        noted = [i for i, e in enumerate(done) if isinstance(e, Journal) and e.step == "submitted"]
        left = [i for i, e in enumerate(done) if isinstance(e, Send) and isinstance(e.message, MaskedInput)]
        assert len(noted) == 1
        assert len(left) == 3
        assert noted[0] < min(left)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_one_work_that_fails_sends_zeros_and_the_others_go_on(failing: int) -> None:
    lab = Lab(scenario(9, size="4", **NEW_WORK), {})
    honest, begun = lab.train, Counter[PartyId]()

    def train(party: PartyId, round_: int, params: F32) -> F32 | None:
        begun[party] += 1
        return None if party == P1 and begun[party] == failing + 1 else honest(party, round_, params)

    lab.train = train
    lab.run()
    (done,) = lab.reports(RoundDone)
    assert set(done.survivors) == set(lab.parties)
    worth = lab.worth[P1]
    for report in lab.reports(SumOpened):
        work = report.opened.reclustering
        lab.worth[P1] = 0.0 if work == failing else worth
        told = sum(lab.worth[party] for party in report.opened.survivors)
        np.testing.assert_allclose(
            from_ring(report.opened.ring) / 2.0**16, (1 + work) * told, atol=3 * ROUNDING
        )
    assert begun[P1] == 3, "it trains as often as any other"
    assert [(r.work, r.reason) for r in lab.reports(NothingLearned, P1)] == [(failing, "training failed")]


def test_a_retry_masks_the_same_work_again() -> None:
    lab = Lab(scenario(10, size="5", **NEW_WORK), {})
    lab.ops = [Op("spoil", "p04", "ShareBoxes", 1)]
    lab.run()
    assert any(reject.culprit == "p04" for reject in lab.server.rejects)
    assert assert_each_sum_has_its_own_update(lab) == 6


def test_only_the_work_that_was_asked_for_last_is_taken() -> None:
    lab = Lab(scenario(6, **NEW_WORK), {})
    caught: list[Working] = []
    machine = lab.nodes[P1].machine
    assert isinstance(machine, PartyMachine)
    step, context = machine.step, machine._ctx

    def watched(phase: PartyPhase, event: Event[AnyMessage]) -> tuple[PartyPhase, Effects]:
        if isinstance(phase, Working) and isinstance(event, Trained):
            caught.append(phase)
        return step(phase, event)

    machine.step = watched  # type: ignore[method-assign]
    lab.run()
    assert [len(phase.uploads) for phase in caught] == [0, 1, 2]
    for phase in caught:
        update = np.ones(phase.params.size)
        due = len(phase.uploads)
        for event in (Trained(9.0, 0, due + 1, update), Trained(9.0, 1, due, update)):
            assert on_trained(context, phase, event) == (phase, ())
        if due:
            assert on_trained(context, phase, Trained(9.0, 0, due - 1, update)) == (phase, ())
        after, _ = on_trained(context, phase, Trained(9.0, 0, due, update))
        assert isinstance(after, Working)
        assert len(after.uploads) == due + 1
        empty, _ = on_trained(context, phase, Trained(9.0, 0, due, None, "no"))
        assert isinstance(empty, Working)
        assert len(empty.uploads) == due + 1
        assert not from_ring(empty.uploads[due].ring).any()
        submitted = [key[0] for key, i in after.instances.items() if isinstance(i, Submitted)]
        assert submitted == list(range(due + 1))


def test_the_first_work_draws_what_the_only_one_drew() -> None:
    """So that no bit changes where there is no new work."""
    own = InsecureSeededEntropy(5)
    for of, label in ((training_entropy, "training"), (update_entropy, "update")):
        draws = [of(own, 4, work).draw(16) for work in range(4)]
        assert draws[0] == of(own, 4).draw(16) == own.child(label, 4).draw(16)
        assert len(set(draws)) == 4
