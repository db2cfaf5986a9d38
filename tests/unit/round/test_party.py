"""What a party does by itself: failed training, a mid-round restart, silence, the end."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.ids import SERVER, PartyId
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.protocol.kernel.events import DeadlinePassed, PauseAsked, Place, Received
from securefl.protocol.messages.rounds import ModelAnnounce
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import Ended, Idle, ModelReceived, PartyContext
from securefl.protocol.round.shared.reports import NothingLearned, RoundDone, SatOut, SumOpened
from securefl.protocol.secure_sum.removal import MemoryStore
from tests.simulation.world import Op, World, scenario

P1 = PartyId("p01")


@pytest.mark.parametrize("how", ["fails", "nan", "inf"])
def test_training_that_fails_or_diverges_sends_zeros(how: str) -> None:
    """The server chooses the model, and so on which data that happens: nobody is to see whether it did."""

    def train(party: PartyId, round_: int, params: F32) -> F32 | None:
        if party == P1 and round_ == 0:
            return None if how == "fails" else np.full_like(params, np.nan if how == "nan" else np.inf)
        return params + np.float32(1)

    world = World(scenario(6, rounds="2"), train=train).run()
    first, second = world.reports(RoundDone)
    assert P1 in first.survivors
    assert P1 in second.survivors
    for report in world.reports(SumOpened):
        told = from_ring(report.opened.ring) / 2.0**16
        learned = len(report.opened.survivors) - (report.round == 0 and P1 in report.opened.survivors)
        assert np.array_equal(told, np.full(8, float(learned)))
    assert not world.reports(SatOut, P1)
    (note,) = world.reports(NothingLearned, P1)
    assert (note.round, note.work) == (0, 0)
    assert note.reason == ("training failed" if how == "fails" else "training ended in an update not finite")
    assert not any(world.reports(NothingLearned, name) for name in world.parties if name != P1)


def test_a_destroyed_model_ends_the_run_not_the_parties() -> None:
    def train(_party: PartyId, _round: int, params: F32) -> F32:
        return np.full_like(params, np.nan)

    world = World(scenario(3, rounds="9"), train=train, initial=np.full(8, np.inf, np.float32)).run()
    assert isinstance(world.server.outcome, Aborted)
    assert "no longer finite" in world.server.outcome.reason
    assert len(world.reports(RoundDone)) == 1


def test_a_model_on_which_nobody_can_train_costs_no_party() -> None:
    world = World(scenario(3, rounds="5"), train=lambda _party, _round, _params: None).run()
    assert isinstance(world.server.outcome, Finished)
    assert [done.survivors for done in world.reports(RoundDone)] == [tuple(world.parties)] * 5


def machine(spent: int = -1) -> PartyMachine:
    world = World(scenario(3, rounds="5"))
    return PartyMachine(PartyContext(world.plan, P1, 10, world.entropy_of(P1), last_spent_round=spent))


def model(round_: int, size: int = 32) -> Received[ModelAnnounce]:
    return Received(1.0, SERVER, Place(round_), ModelAnnounce(params=bytes(size)))


def test_a_restarted_party_sits_out_the_rounds_in_its_journal() -> None:
    restarted = machine(spent=2)
    phase, _ = restarted.start(0.0)
    for round_ in (0, 1, 2):
        after, _ = restarted.step(phase, model(round_))  # type: ignore[arg-type]
        assert after is phase
    after, _ = restarted.step(phase, model(3))  # type: ignore[arg-type]
    assert isinstance(after, ModelReceived)


@pytest.mark.parametrize(("round_", "size"), [(5, 32), (-1, 32), (0, 31), (0, 0)])
def test_models_that_cannot_be(round_: int, size: int) -> None:
    party = machine()
    phase, _ = party.start(0.0)
    after, _ = party.step(phase, model(round_, size))  # type: ignore[arg-type]
    assert after is phase


def test_silence_of_the_server_ends_the_party() -> None:
    party = machine()
    phase, effects = party.start(0.0)
    assert isinstance(phase, Idle)
    assert len(effects) == 3
    phase, effects = party.step(phase, DeadlinePassed(1e9))
    assert isinstance(phase, Ended)
    assert isinstance(effects[0], Aborted)
    assert party.step(phase, DeadlinePassed(2e9)) == (phase, ())


def test_a_crashed_server_leaves_no_party_waiting_for_ever() -> None:
    world = World(scenario(3), ops=[Op("crash", "server", "Freeze")]).run()
    assert all(isinstance(world.nodes[name].outcome, Aborted) for name in world.parties)


def test_everybody_finishes() -> None:
    world = World(scenario(3)).run()
    assert all(isinstance(node.outcome, Finished) for node in world.nodes.values())


def test_the_store_forgets_a_round() -> None:
    store = MemoryStore()
    handle = store.put(b"abc")
    assert store.get(handle) == b"abc"
    store.discard_all()
    with pytest.raises(KeyError):
        store.get(handle)
    assert store.put(b"def") != handle


def test_a_party_asked_to_leave_ends_with_the_model_of_the_next_round() -> None:
    party = machine()
    phase, _ = party.start(0.0)
    phase, _ = party.step(phase, model(0))  # type: ignore[arg-type]
    phase, effects = party.step(phase, PauseAsked(1.5, "the policy's hours end"))
    assert isinstance(phase, ModelReceived)
    assert effects == ()
    # A repeated model belongs to the same round.
    phase, _ = party.step(phase, model(0))  # type: ignore[arg-type]
    assert isinstance(phase, ModelReceived)
    phase, effects = party.step(phase, model(1))  # type: ignore[arg-type]
    assert isinstance(phase, Ended)
    assert Aborted("the policy's hours end", resumable=True, over=False) in effects
