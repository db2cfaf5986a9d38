"""Invitations, announcements and nonces of a real run, each changed in one place."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import msgspec
import pytest

from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Reject, Report
from securefl.protocol.messages.rounds import Announce, Hello, Invite, Limits, Reveal
from securefl.protocol.round.party.phases import HelloSent, Idle, ModelReceived
from securefl.protocol.round.server.phases import CollectingHellos, CollectingNonces
from securefl.protocol.round.shared.reports import ClustersDrawn, DrawVoided, SatOut
from tests.simulation.world import Op, World, scenario
from tests.unit.round.recorded import Recorded, Taken, changed, refused

LATE = PartyId("p05")


@lru_cache(maxsize=1)
def redrawn() -> Recorded:
    """A round whose first draw is void: p05 withholds its nonce."""
    return Recorded(World(scenario(6), ops=[Op("drop", LATE, "Reveal")], length=4))


class TestInvitations:
    def test_to_a_draw_that_is_not_the_next(self) -> None:
        one = redrawn().first(ModelReceived, Invite)
        assert "at the wrong time" in refused(one, place=one.event.place._replace(attempt=1))

    @pytest.mark.parametrize(
        ("field", "reason"),
        [("model_digest", "with another model"), ("config_digest", "another configuration")],
    )
    def test_to_something_else(self, field: str, reason: str) -> None:
        one = redrawn().first(ModelReceived, Invite)
        assert reason in refused(one, message=changed(one, **{field: bytes(32)}))


def announced() -> tuple[Taken, list[bytes], Hello]:
    """The first announcement at some party, its frames, and the hello of another party in it."""
    record = redrawn()
    one = record.first(HelloSent, Announce)
    return one, list(one.event.message.hellos), record.world.messages(Hello, _other(one))[0]


def _other(one: Taken) -> PartyId:
    return PartyId("p01" if one.node.name != "p01" else "p02")


class TestAnnouncements:
    @pytest.mark.parametrize(
        ("how", "reason"),
        [
            ("other leakage limits", "with other leakage limits than it configured"),
            ("another model", "with another model or configuration"),
            ("another configuration", "with another model or configuration"),
            ("of another draw", "must send one Hello of each party"),
            ("twice", "must send one Hello of each party"),
        ],
    )
    def test_with_another_hello_of_somebody(self, how: str, reason: str) -> None:
        one, frames, hello = announced()
        other, place = _other(one), one.event.place
        at = int(other[1:])
        match how:
            case "other leakage limits":
                limits: Limits = msgspec.structs.replace(hello.limits, k_anonymity=5)
                hello = msgspec.structs.replace(hello, limits=limits)
            case "another model":
                hello = msgspec.structs.replace(hello, model_digest=bytes(32))
            case "another configuration":
                hello = msgspec.structs.replace(hello, config_digest=bytes(32))
            case "of another draw":
                place = place._replace(attempt=1)
            case _:
                frames.append(redrawn().signed(other, place, hello))
        frames[at] = redrawn().signed(other, place, hello)
        assert reason in refused(one, message=Announce(hellos=tuple(frames)))

    def test_with_another_hello_of_its_own(self) -> None:
        """It has signed that once, perhaps before it was started again; its nonce is of the new one."""
        one, frames, _ = announced()
        me = one.node.name
        stale = msgspec.structs.replace(redrawn().world.messages(Hello, me)[0], samples=11)
        frames[int(me[1:])] = redrawn().signed(me, one.event.place, stale)
        event = replace(one.event, message=Announce(hellos=tuple(frames)))
        after, effects = one.node.machine.step(one.phase, event)
        assert isinstance(after, Idle)
        (said,) = (effect.item for effect in effects if isinstance(effect, Report))
        assert isinstance(said, SatOut)
        assert "without this party's hello" in said.reason


class TestWithheldNonces:
    def test_void_the_draw_and_leave_their_party_out_of_the_next(self) -> None:
        world = redrawn().world
        (voided,) = world.reports(DrawVoided)
        assert voided.withheld == (LATE,)
        first, second = (sent for sent in world.sent if isinstance(sent.message, Invite))
        assert isinstance(first.message, Invite)
        assert isinstance(second.message, Invite)
        assert (first.message.excluded, second.message.excluded) == ((), (LATE,))
        (drawn,) = world.reports(ClustersDrawn)
        assert LATE not in {party for members in drawn.clusters[0] for party in members}

    def test_whoever_is_left_out_says_no_hello(self) -> None:
        one = redrawn().first(CollectingHellos, Hello, attempt=1)
        reason = refused(one, sender=LATE)
        assert reason == "sends a Hello at the wrong time"

    def test_every_draw_has_nonces_of_its_own(self) -> None:
        reveals = [sent for sent in redrawn().world.sent if isinstance(sent.message, Reveal)]
        again = {sent.sender for sent in reveals if sent.place.attempt == 1}
        assert len(again) == 5
        for name in again:
            first, second = (sent.message for sent in reveals if sent.sender == name)
            assert first != second

    def test_the_server_refuses_a_nonce_that_was_not_committed_to(self) -> None:
        one = redrawn().first(CollectingNonces, Reveal)
        assert "another nonce than it committed to" in refused(one, message=Reveal(nonce=bytes(32)))
        assert isinstance(one.phase, CollectingNonces)
        after, effects = one.node.machine.step(one.phase, replace(one.event, message=Reveal(nonce=bytes(32))))
        assert isinstance(after, CollectingNonces)
        assert after.reveals == one.phase.reveals
        assert any(isinstance(effect, Reject) for effect in effects)
