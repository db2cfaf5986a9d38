"""Epochs of a run: the progress that parties report to the next server, and what they send it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Keep, Lead, Send
from securefl.protocol.messages.control import JoinRun
from securefl.protocol.messages.rounds import Invite
from securefl.protocol.messages.verification import Attest, StepProof
from securefl.protocol.round.party.following import follow_session, join
from securefl.protocol.round.party.phases import HelloSent, Idle
from securefl.protocol.round.party.verifying import on_proof
from securefl.protocol.round.server.phases import Checkpoint, Joining, Resumed, StatedProgress
from securefl.protocol.round.server.resuming import take_lead
from securefl.protocol.wire.carried import ASKING, session_of_server
from tests.simulation.test_two_servers import P, TestParties, _standing
from tests.simulation.test_verifiers import taken
from tests.simulation.world import World, scenario


def session(epoch: int) -> bytes:
    return session_of_server(epoch, InsecureSeededEntropy(epoch))


def greeted() -> tuple[Any, HelloSent]:
    """A party's context, and its phase after an invitation."""
    world, phase, _ = TestParties().at(HelloSent, Invite)
    return cast("Any", world.nodes[P[0]].machine)._ctx, phase


@pytest.mark.parametrize(("draw", "reported"), [(0, -1), (1, 0), (2, 0)])
def test_a_party_reports_a_round_once_its_first_draw_is_over(draw: int, reported: int) -> None:
    """A server that is started again must not draw the clusters of that round anew."""
    ctx, phase = greeted()
    (joined,) = [
        one.message for one in join(ctx, replace(phase, draw=draw)) if isinstance(one.message, JoinRun)
    ]
    assert (joined.round, joined.leader) == (reported, phase.past.leader)


def test_the_next_server_is_sent_what_was_attested_to_the_last_one() -> None:
    ctx, past, event = taken(StepProof)
    after, effects = on_proof(ctx, past, event.place, event.message)
    (said,) = [one for one in effects if isinstance(one, Send)]
    assert after.verifying is not None
    for attested, again in ((replace(past, verifying=None), 0), (after, len(after.verifying.places))):
        led, noted = follow_session(Idle(replace(attested, leader=session(1))), session(2))
        assert isinstance(led, Idle)
        assert led.past.leader == session(2)
        sent = [one for one in noted if isinstance(one, Send) and isinstance(one.message, Attest)]
        assert len(sent) == again
        assert (said in sent) is (again > 0)


def test_a_server_that_only_asks_is_not_followed() -> None:
    phase = Idle(replace(greeted()[1].past, leader=session(1)))
    assert follow_session(phase, session(ASKING)) == (phase, ())
    assert follow_session(phase, session(1)) == (phase, ())


def test_who_leads_knows_which_parties_were_further() -> None:
    """They count when later ones say so, too: q of them are not enough in the roll, nor any one alone."""
    world = World(scenario(6, rounds="3"), length=4).run()
    old = Checkpoint(4, replace(_standing(world), round=1, epoch=4), None)
    machine = cast("Any", world._server(Resumed(old, 0)))
    phase, _ = machine.start(0.0)
    assert isinstance(phase, Joining)
    stated = {P[0]: StatedProgress(4, 2), P[1]: StatedProgress(6, 1), P[2]: StatedProgress(5, -1)}
    led, effects = take_lead(machine._ctx, replace(phase, progress_by_party=stated))
    assert led.standing.session.parties_ahead == frozenset[PartyId]({P[0]})
    assert led.standing.epoch == 7
    (kept,) = [one for one in effects if isinstance(one, Keep)]
    (lead,) = [one for one in effects if isinstance(one, Lead)]
    assert isinstance(kept.state, Checkpoint)
    assert (kept.state.epoch, kept.state.standing.session.leader) == (7, lead.session)
