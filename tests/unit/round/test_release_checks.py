"""Single messages of a real run, each changed in one place, at the phase that they were for."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from unittest.mock import patch

import pytest

from securefl.base.ids import PartyId
from securefl.methods.leakage.admission import Admission
from securefl.methods.leakage.limits import Crossing
from securefl.protocol.kernel.effects import Reject
from securefl.protocol.messages.masking import KeyAdvert, KeyList, Receipt
from securefl.protocol.messages.rounds import Certificate, Endorse, Freeze
from securefl.protocol.round.party.phases import Endorsed, Working
from securefl.protocol.round.server.phases import Certifying
from securefl.protocol.round.shared.leakage import LedgerQuestion
from tests.simulation.world import Op, World, scenario
from tests.unit.round.recorded import Recorded, changed, refused


@lru_cache(maxsize=1)
def active() -> Recorded:
    """Two clusters of six under an active server; one of them starts over without p08 and its accuser."""
    made = scenario(12, size="6", threshold="4", min_survivors="4", server="active")
    return Recorded(World(made, ops=[Op("spoil", "p08", "ShareBoxes")], length=4))


@pytest.mark.parametrize(
    ("phase", "message", "reason"),
    [
        (Working, KeyList, "for a cluster of other parties"),
        (Working, Freeze, "sends the survivors of round 1 in round 0"),
        (Endorsed, Certificate, "sends a certificate of round 1 in round 0"),
    ],
)
def test_messages_of_another_round(phase: type, message: type, reason: str) -> None:
    one = active().first(phase, message)
    assert reason in refused(one, place=one.event.place._replace(round=1))


def test_messages_of_an_attempt_that_is_over() -> None:
    one = active().first(Working, KeyList, attempt=1)
    assert "of attempt 0, this is attempt 1" in refused(one, place=one.event.place._replace(attempt=0))


def test_attempts_have_no_secret_in_common() -> None:
    adverts = [sent for sent in active().world.sent if isinstance(sent.message, KeyAdvert)]
    again = {sent.sender for sent in adverts if sent.place.attempt == 1}
    assert len(again) == 4
    for name in again:
        first, second = (sent.message for sent in adverts if sent.sender == name)
        for field in ("mask_key", "box_key", "seed_digest", "shares_root"):
            assert getattr(first, field) != getattr(second, field)


class TestFreeze:
    def test_too_few_survivors_for_a_certificate(self) -> None:
        one = active().first(Working, Freeze)
        mates = next(c for c in one.phase.assignment.clusters[0] if one.node.name in c)
        survivors = tuple(name for name in one.event.message.survivors if name in mates)
        reason = refused(one, message=changed(one, survivors=survivors))
        assert f"{len(survivors)} survivors are fewer than the 7 signatures of a certificate" in reason

    def test_an_earlier_attempt_than_was_submitted(self) -> None:
        one = next(
            one
            for one in active().taken
            if isinstance(one.event.message, Freeze)
            and any(i.setup.instance.attempt for i in one.phase.instances.values() if i)
        )
        assert "lists survivors of another attempt" in refused(one, message=changed(one, attempts=()))

    def test_a_receipt_of_another_attempt(self) -> None:
        one = active().first(Working, Freeze)
        (instance,) = one.phase.instances.values()
        mate = next(name for name in instance.setup.members if name != one.node.name)
        place = instance.setup.place
        stale = active().signed(
            mate, place._replace(attempt=place.attempt + 1), Receipt(lists_digest=instance.lists_digest)
        )
        receipts = (stale, *one.event.message.receipts[1:])
        assert "something else than receipts" in refused(one, message=changed(one, receipts=receipts))

    def test_of_which_nothing_may_be_opened(self) -> None:
        """Without receipts nothing else would be in the way of an endorsement."""
        one = active().first(Working, Freeze)
        nothing = Admission({}, (), {0: (Crossing(PartyId("p00"), "exposed", "follows"),)}, certain=True)
        event = replace(one.event, message=changed(one, receipts=()))
        with patch.object(LedgerQuestion, "answer", lambda *_args: nothing):
            after, effects = one.node.machine.step(one.phase, event)
        assert after is one.phase
        (effect,) = effects
        assert isinstance(effect, Reject)
        assert "exceed the leakage limits: p00, follows" in effect.reason

    def test_a_part_of_a_sum_that_opens_with_all_its_members_only(self) -> None:
        made = scenario(8, size="4", min_survivors="2", secure_sum__kind='"crypten"')
        one = Recorded(World(made, length=4)).first(Working, Freeze)
        (instance,) = one.phase.instances.values()
        mate = next(name for name in instance.setup.members if name != one.node.name)
        survivors = tuple(name for name in one.event.message.survivors if name != mate)
        assert "lists some of the members only" in refused(one, message=changed(one, survivors=survivors))


class TestEndorsements:
    """The server's own checks: one party cannot spoil everybody's certificate."""

    @pytest.mark.parametrize("field", ["statement", "ledger_head"])
    def test_of_something_else(self, field: str) -> None:
        one = active().first(Certifying, Endorse)
        reason = refused(one, message=changed(one, **{field: bytes(32)}))
        assert reason == "signs other survivors than the server listed"

    def test_twice(self) -> None:
        one = active().first(Certifying, Endorse)
        after, _ = one.node.machine.step(one.phase, one.event)
        assert isinstance(after, Certifying)
        again, effects = one.node.machine.step(after, one.event)
        (effect,) = (effect for effect in effects if isinstance(effect, Reject))
        assert effect.reason == "signs the survivors twice"
        assert isinstance(again, Certifying)
        assert again.endorsements == after.endorsements
