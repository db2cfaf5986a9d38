"""What a complaint sets off at the server, and whom it blames."""

from __future__ import annotations

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Reject, Send
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.masking import Complaint, MaskedInput, Receipt
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.machine import PartyMachine, patience
from securefl.protocol.round.shared.reports import InstanceRetried, RoundDone, RunEffect
from tests.simulation.world import Op, World, scenario

P0, P3 = PartyId("p00"), PartyId("p03")


def test_a_retry_blames_nobody_but_the_accused() -> None:
    """What the others had under way when the sum started over is nobody's fault."""
    world = World(
        scenario(6, size="6", threshold="4", min_survivors="4"), ops=[Op("spoil", "p03", "ShareBoxes")]
    )
    world.run()
    (retried,) = world.reports(InstanceRetried)
    assert "p03" in retried.excluded
    assert {reject.culprit for reject in world.server.rejects} == {"p03"}
    assert len(world.reports(RoundDone)[0].survivors) == 4


def test_whoever_has_submitted_cannot_make_the_others_start_over() -> None:
    def complain(_event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        sent = [e for e in effects if isinstance(e, Send) and isinstance(e.message, MaskedInput | Receipt)]
        extra: tuple[RunEffect, ...] = tuple(Send(SERVER, e.place, Complaint(accused=P3)) for e in sent)
        return (*effects, *extra)

    world = World(scenario(6, size="6", threshold="4", min_survivors="4"))
    world.nodes[P0].seam = complain
    world.run()
    assert not world.reports(InstanceRetried)
    assert Reject(P0, world.server.rejects[0].reason) == world.server.rejects[0]
    assert "complains about p03 at the wrong time" in world.server.rejects[0].reason
    assert len(world.reports(RoundDone)[0].survivors) == 6


def test_a_party_outwaits_all_attempts_of_somebody_elses_sum() -> None:
    made = scenario(6, secure_sum__max_attempts="8")
    d = made.deadlines
    longest = 8 * (d.keys + d.shares + d.training)
    assert patience(made) > longest + d.join + d.certify + d.release
    assert isinstance(World(made).nodes[P0].machine, PartyMachine)


def test_who_is_not_in_the_survivor_set_does_not_blame_the_server_for_its_broadcast() -> None:
    made = scenario(8, size="4", threshold="3", min_survivors="3", server="active")
    world = World(made, ops=[Op("drop", "p01", "MaskedInput")]).run()
    assert "p01" not in world.reports(RoundDone)[0].survivors
    assert not world.nodes[PartyId("p01")].rejects
