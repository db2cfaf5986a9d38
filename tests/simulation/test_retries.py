"""What a party asks of a ``Retry`` before it starts over, and what a server gains where it does not ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from securefl.base.crypto.prg import Sign, add_masks
from securefl.base.crypto.shamir import combine
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import SERVER, PartyId
from securefl.methods.encoding.ring import from_ring, from_wire
from securefl.protocol.kernel.effects import Reject, Send
from securefl.protocol.kernel.events import Place, Received, Trained
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.masking import BoxList, KeyAdvert, KeyList, MaskedInput, Retry, ShareBoxes
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party import sums as party_sums
from securefl.protocol.round.party.phases import Working
from securefl.protocol.round.shared.reports import RunEffect
from securefl.protocol.secure_sum.crypten.member import Submitted
from securefl.protocol.secure_sum.masking import client
from securefl.protocol.secure_sum.setup import self_mask_key
from securefl.protocol.secure_sum.validated import phases as validated_phases
from securefl.protocol.wire.outbox import Outbox
from securefl.scenario.scenario import Scenario
from tests.crypten_threads import end_abandoned
from tests.simulation.world import RUN, Node, World, scenario
from tests.tiers import sampled

ME = PartyId("p00")


class Kept:
    """The phases in which one party worked in a run, and the run's parts."""

    def __init__(self, made: Scenario) -> None:
        end_abandoned()
        self.world = World(made)
        self.phases: list[Working] = []
        self.world.observers.append(self._observe)
        self.world.run()
        self.machine = self.world.nodes[ME].machine

    def _observe(
        self, node: Node, before: object, _event: Event[AnyMessage], _after: object, _effects: object
    ) -> None:
        if node.name == ME and isinstance(before, Working):
            self.phases.append(before)

    def at(self, *kinds: type) -> Working:
        """The first phase with an instance of one of these kinds."""
        return next(p for p in self.phases if isinstance(instance_of(p), kinds))

    def step(self, phase: Any, place: Place, message: AnyMessage) -> tuple[Any, tuple[RunEffect, ...]]:
        return self.machine.step(phase, Received(50.0, SERVER, place, message, b""))


def instance_of(phase: Working) -> Any:
    return next(iter(phase.instances.values()))


def place_of(phase: Working, attempt: int = 1) -> Place:
    (key, *_) = phase.instances
    return Place(phase.round, *key, attempt)


def mates_of(phase: Working) -> tuple[PartyId, ...]:
    return tuple(instance_of(phase).setup.members)


def refused(kept: Kept, phase: Working, members: tuple[str, ...], attempt: int = 1) -> str:
    """Why the party refuses a retry; its phase is what it was."""
    after, effects = kept.step(phase, place_of(phase, attempt), Retry(members=members))
    assert after is phase
    (effect,) = effects
    assert isinstance(effect, Reject)
    assert effect.culprit == SERVER
    return effect.reason


def masked(**more: str) -> Scenario:
    return scenario(12, size="6", threshold="4", min_survivors="4", **more)


class TestMembers:
    def test_fewer_of_the_same_start_over(self) -> None:
        kept = Kept(masked())
        phase = kept.at(client.Advertised)
        members = tuple(sorted({ME, *mates_of(phase)[:4]}))
        after, effects = kept.step(phase, place_of(phase), Retry(members=members))
        assert instance_of(after).setup.members == members
        assert [type(e.message) for e in effects if isinstance(e, Send)] == [KeyAdvert]

    def test_members_from_outside_the_cluster_are_refused(self) -> None:
        kept = Kept(masked())
        phase = kept.at(client.Advertised)
        others = [name for name in kept.world.parties if name not in mates_of(phase)]
        strange = tuple(sorted((ME, *others[:4])))
        assert "repeats a sum, but not with fewer of its members" in refused(kept, phase, strange)
        one = tuple(sorted({ME, *mates_of(phase)[:4], others[0]}))
        assert "repeats a sum, but not with fewer of its members" in refused(kept, phase, one)

    def test_the_same_members_or_a_list_out_of_order_are_refused(self) -> None:
        kept = Kept(masked())
        phase = kept.at(client.Advertised)
        members = mates_of(phase)
        assert "repeats a sum, but not with fewer of its members" in refused(kept, phase, members)
        assert "repeats a sum, but not with fewer of its members" in refused(kept, phase, members[:5][::-1])
        assert "repeats a sum, but not with fewer of its members" in refused(
            kept, phase, (*members[:4], members[3])
        )

    def test_too_few_members_are_refused(self) -> None:
        kept = Kept(masked())
        phase = kept.at(client.Advertised)
        fewer = tuple(sorted({ME, *mates_of(phase)[1:3]}))
        assert "fewer members than min_survivors" in refused(kept, phase, fewer)


def test_attempts_are_bounded() -> None:
    kept = Kept(masked(secure_sum__max_attempts="2"))
    phase = kept.at(client.Advertised)
    members = tuple(sorted({ME, *mates_of(phase)[1:5]}))
    after, _ = kept.step(phase, place_of(phase), Retry(members=members))
    third = Retry(members=tuple(sorted({ME, *members[1:4]})))
    again, effects = kept.step(after, place_of(phase, 2), third)
    assert again is after
    (effect,) = effects
    assert isinstance(effect, Reject)
    assert effect.reason == "asks for more than 2 attempts"
    # The attempt in between is of no party's: a retry names the next one.
    assert "attempt 2, this is attempt 0" in refused(kept, phase, members, attempt=2)


NO_RETRY = (*validated_phases.NO_RETURN[:3], Submitted)


@pytest.mark.parametrize("kind", sampled(NO_RETRY, NO_RETRY[::3]))
def test_there_is_no_retry_after_a_reveal(kind: type) -> None:
    """Who knows the sketch could send another update that passes it."""
    kept = Kept(
        scenario(
            5,
            size="5",
            threshold="3",
            min_survivors="3",
            secure_sum__kind='"crypten"',
            secure_sum__validate="{ norm = 4.0 }",
            encoding__clip="3.6",
            weighting__mode='"ignore"',
        )
    )
    phase = kept.at(kind)
    assert "repeats a validated sum" in refused(kept, phase, mates_of(phase)[:4])
    before = kept.at(validated_phases.Advertised, validated_phases.Gathering)
    after, _ = kept.step(before, place_of(before), Retry(members=mates_of(before)[:4]))
    assert instance_of(after).setup.members == mates_of(before)[:4]


@contextmanager
def unasked() -> Iterator[None]:
    """Parties that take any retry."""
    with patch.object(party_sums, "_check_retry", lambda *_args: None):
        yield


class TestTwoOutsideColluders:
    """They sit in another cluster: the server retries the victim's sum with them, and they open it."""

    MADE = scenario(6, secure_sum__colluders="2")

    def attack(self) -> tuple[Kept, Working, Place, tuple[PartyId, ...]]:
        kept = Kept(self.MADE)
        phase = kept.at(client.Advertised)
        colluders = [name for name in kept.world.parties if name not in mates_of(phase)][:2]
        return kept, phase, place_of(phase), tuple(sorted((ME, *colluders)))

    def test_the_victim_refuses(self) -> None:
        kept, phase, _, members = self.attack()
        assert "repeats a sum, but not with fewer of its members" in refused(kept, phase, members)

    def test_without_the_check_they_open_its_update_before_any_freeze(self) -> None:
        kept, phase, place, members = self.attack()
        with unasked():
            after, effects = kept.step(phase, place, Retry(members=members))
        advert = said(effects, KeyAdvert)
        plan, roster = kept.world.plan, kept.world.plan.roster
        setup = plan.setup(place, members, instance_of(phase).setup.binding)
        theirs = {
            name: client.advertise(setup, name, InsecureSeededEntropy(n))
            for n, name in enumerate(members)
            if name != ME
        }
        adverts = {ME: advert} | {name: made for name, (_, made) in theirs.items()}
        key_list = KeyList(adverts=tuple(signed(kept.world, name, place, adverts[name]) for name in members))
        after, effects = kept.step(after, place, key_list)
        boxes = {ME: said(effects, ShareBoxes)}
        boxed = {}
        for name, (phase_, _) in theirs.items():
            boxed[name], boxes[name] = client.on_key_list(phase_, key_list, roster, InsecureSeededEntropy(9))

        def sealed_to(name: PartyId) -> BoxList:
            found = {
                setup.index(sealer): dict(made.boxes)[setup.index(name)]
                for sealer, made in boxes.items()
                if sealer != name
            }
            return BoxList(boxes=tuple(sorted(found.items())))

        after, effects = kept.step(after, place, sealed_to(ME))
        update = np.full(plan.length, 0.5)
        after, more = kept.machine.step(after, Trained(51.0, 0, 0, update, ""))
        masked_input = said((*effects, *more), MaskedInput)
        ready = {name: client.on_box_list(one, sealed_to(name)) for name, one in boxed.items()}

        # Two shares of its seed, each colluder's pairwise key: all of its masks.
        victim, context = setup.index(ME), setup.keys_context(next(iter(boxed.values())).key_list)
        shares = {setup.index(name) + 1: one.held[victim].seed_share for name, one in ready.items()}
        seed = combine(shares, setup.threshold)
        words = from_wire(masked_input.vector, setup.length, setup.ring_bits, "test").copy()
        undo: list[tuple[bytes, Sign]] = [(self_mask_key(seed, context), -1)]
        for name, one in ready.items():
            partners = [index for index in sorted(one.held) if index != setup.index(name)]
            undo.append(one.terms[1 + partners.index(victim)])
        add_masks(words, undo)
        weight = phase.weights[ME]
        np.testing.assert_allclose(from_ring(words) / 2**16, update * weight, atol=2**-15)


def said(effects: tuple[RunEffect, ...], kind: Any) -> Any:
    (message,) = (e.message for e in effects if isinstance(e, Send) and isinstance(e.message, kind))
    return message


def signed(world: World, name: PartyId, place: Place, message: AnyMessage) -> bytes:
    (frame,) = Outbox(RUN, world.identities[name], InsecureSeededEntropy(3)).frames(SERVER, place, message)
    return frame
