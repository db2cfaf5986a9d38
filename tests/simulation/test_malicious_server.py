"""A server that may do anything, against honest parties: refusal or noise, never an update.

The server here is the honest machine with its effects rewritten (a seam) before they are signed and sent, and
with its own checks patched away where they are in its way. Where that is possible each attack runs a second
time against parties without the check that stops it, to show that the attack is real and the test can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from unittest.mock import PropertyMock, patch

import msgspec
import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.crypto.roster import Roster
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.methods.clustering.assignment import commitment, draw_assignment
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.kernel.effects import Send
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.masking import BoxList, Complaint, KeyList, Retry
from securefl.protocol.messages.rounds import (
    Announce,
    Certificate,
    Endorse,
    Freeze,
    Hello,
    InstanceAttempt,
    InstanceShares,
    Invite,
    ModelAnnounce,
    Release,
    Reveal,
    Reveals,
)
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party import draw as party_draw
from securefl.protocol.round.party import machine as party
from securefl.protocol.round.party import release as party_release
from securefl.protocol.round.party.phases import (
    HelloSent,
    Idle,
    NonceRevealed,
    PartyContext,
    PartyPhase,
    Working,
)
from securefl.protocol.round.server import freeze as server_freeze
from securefl.protocol.round.server import gather as server_gather
from securefl.protocol.round.server import machine as server
from securefl.protocol.round.shared import draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import (
    ClustersDrawn,
    InstanceRetried,
    RunEffect,
    SharesReleased,
    SumOpened,
)
from securefl.protocol.round.shared.statement import model_digest
from securefl.protocol.secure_sum import port
from securefl.protocol.secure_sum.collecting import CollectingInputs
from securefl.protocol.secure_sum.masking import client, kind
from securefl.protocol.wire.outbox import Outbox
from securefl.scenario.scenario import Scenario
from tests.seen import patch_seen
from tests.simulation.spy import Grasp, Spy, spying
from tests.simulation.world import RUN, Op, World, scenario

Effects = tuple[RunEffect, ...]
Seam = Callable[[Event[AnyMessage], Effects], Effects]
SentT = TypeVar("SentT", bound=AnyMessage)
P = [PartyId(f"p{i:02d}") for i in range(8)]


def distinct(name: PartyId, _round: int, params: F32) -> F32:
    return np.asarray(params + np.float32(1 + int(name[1:])), dtype=np.float32)


def nothing(_event: Event[AnyMessage], effects: Effects) -> Effects:
    return effects


def rewriting(
    kind: type[SentT], change: Callable[[Send[AnyMessage], SentT], Iterable[Send[AnyMessage]]]
) -> Seam:
    """A seam that replaces every ``Send`` of one kind; sends to everybody are split first."""

    def seam(_event: Event[AnyMessage], effects: Effects) -> Effects:
        out: list[RunEffect] = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, kind):
                for to in P[:6] if effect.to == EVERYONE else [effect.to]:
                    out += change(replace(effect, to=to), effect.message)
            else:
                out.append(effect)
        return tuple(out)

    return seam


def changing(kind: type[SentT], change: Callable[[PartyId, SentT], SentT]) -> Seam:
    """A seam that changes the message of every ``Send`` of one kind."""
    return rewriting(kind, lambda send, message: [replace(send, message=change(send.to, message))])


def attacked(seam: Seam, made: Scenario, ops: Sequence[Op] = (), **more: Any) -> tuple[World, Spy]:
    with spying() as spy:
        world = World(made, train=more.pop("train", distinct), ops=ops, **more)
        world.server.seam = seam
        for name, party_seam in more.pop("party_seams", {}).items():
            world.nodes[name].seam = party_seam
        world.run()
    return world, spy


def assert_nothing_leaks(spy: Spy, colluders: Collection[PartyId] = (), k: int = 2) -> None:
    """No group with fewer than ``k`` honest members opens, no single update follows, never both kinds."""
    grasp = Grasp(spy, colluders)
    for group in grasp.groups():
        honest = group.members - set(colluders)
        assert not honest or len(honest) >= k, f"{sorted(honest)} opened in {group.instance}"
    assert not grasp.alone()
    assert not grasp.both_kinds()


def released(world: World) -> set[PartyId]:
    return {name for name in world.parties if world.reports(SharesReleased, name)}


def refusals(world: World, reason: str) -> set[PartyId]:
    """Parties that refused something with ``reason``, and blamed the server."""
    return {
        name
        for name in world.parties
        if any(r.culprit == SERVER and reason in r.reason for r in world.nodes[name].rejects)
    }


def signed(world: World, sender: PartyId, place: Place, message: AnyMessage) -> bytes:
    """A frame for the server, as a colluder (or the server itself) makes it."""
    outbox = Outbox(RUN, world.identities[sender], InsecureSeededEntropy(5))
    (frame,) = outbox.frames(SERVER, place, message)
    return frame


both = pytest.mark.parametrize("kind", ["curious", "active"])


@both
def test_the_honest_server_opens_its_clusters_and_nothing_else(kind: str) -> None:
    world, spy = attacked(nothing, scenario(6, server=kind))
    assert_nothing_leaks(spy)
    opened = {frozenset(s.opened.survivors) for s in world.reports(SumOpened)}
    assert {g.members for g in Grasp(spy).groups()} == opened
    assert len(opened) == 2


class TestSurvivorSets:
    @staticmethod
    def _twice(send: Send[AnyMessage], message: Freeze) -> list[Send[AnyMessage]]:
        less = msgspec.structs.replace(message, survivors=tuple(n for n in message.survivors if n != P[0]))
        return [send, replace(send, message=less)]

    @both
    def test_two_freezes_for_both_kinds_of_shares(self, kind: str) -> None:
        world, spy = attacked(rewriting(Freeze, self._twice), scenario(6, server=kind))
        assert_nothing_leaks(spy)
        assert all(len(world.reports(SharesReleased, name)) == 1 for name in world.parties)

    def test_they_open_a_member_of_parties_that_release_twice(self) -> None:
        real = party_release.on_freeze

        def forgetful(*args: Any) -> tuple[PartyPhase, Any]:
            phase, effects = real(*args)
            return (args[1] if isinstance(phase, Idle) else phase), effects

        with patch_seen(party, "on_freeze", forgetful):
            _, spy = attacked(rewriting(Freeze, self._twice), scenario(6))
        assert Grasp(spy).both_kinds()
        assert P[0] in Grasp(spy).alone()

    @staticmethod
    def _split(to: PartyId, message: Freeze) -> Freeze:
        """Tell three parties that p00 dropped out, and three that it did not."""
        if to in {P[0], P[1], P[3]}:
            return message
        return msgspec.structs.replace(message, survivors=tuple(n for n in message.survivors if n != P[0]))

    def test_two_stories_make_no_certificate(self) -> None:
        world, spy = attacked(changing(Freeze, self._split), scenario(6, server="active"))
        assert not released(world)
        assert_nothing_leaks(spy)

    def test_two_stories_mix_kinds_at_parties_that_take_the_server_for_curious(self) -> None:
        _, spy = attacked(changing(Freeze, self._split), scenario(6))
        assert Grasp(spy).both_kinds()

    def test_a_party_told_another_set_than_the_certificate_is_about(self) -> None:
        seam = changing(
            Freeze,
            lambda to, m: msgspec.structs.replace(m, survivors=m.survivors[1:]) if to == P[5] else m,
        )
        world, spy = attacked(seam, scenario(6, server="active"))
        assert released(world) == set(P[:5])
        assert refusals(world, "the certificate has signatures of another statement") == {P[5]}
        assert_nothing_leaks(spy)

    @both
    @pytest.mark.parametrize(
        ("survivors", "reason"),
        [
            ((*P[:6], "p99"), "do not take part"),
            (P[:4], "fewer than 3 members"),
        ],
    )
    def test_impossible_sets(self, kind: str, survivors: Sequence[str], reason: str) -> None:
        seam = changing(Freeze, lambda _to, m: msgspec.structs.replace(m, survivors=tuple(survivors)))
        world, spy = attacked(seam, scenario(6, server=kind, threshold="3", min_survivors="3"))
        assert not released(world)
        assert refusals(world, reason) == set(P[:6]) & set(survivors)
        assert_nothing_leaks(spy)

    @staticmethod
    def _single(clusters: list[tuple[tuple[PartyId, ...], ...]]) -> Seam:
        def cut(_to: PartyId, message: Freeze) -> Freeze:
            mates = next(c for c in clusters[0] if P[0] in c)
            keep = tuple(n for n in message.survivors if n == P[0] or n not in mates)
            return msgspec.structs.replace(message, survivors=keep)

        return changing(Freeze, cut)

    @staticmethod
    def _recording(clusters: list[tuple[tuple[PartyId, ...], ...]]) -> Any:
        real = draw_assignment

        def recorded(*args: Any) -> Any:
            assignment = real(*args)
            clusters.extend(assignment.clusters)
            return assignment

        return patch.object(draw, "draw_assignment", recorded)

    def test_a_cluster_with_one_survivor(self) -> None:
        clusters: list[tuple[tuple[PartyId, ...], ...]] = []
        with self._recording(clusters):
            world, spy = attacked(self._single(clusters), scenario(6))
        assert not released(world)
        assert P[0] in refusals(world, "fewer than 2 members")
        assert_nothing_leaks(spy)

    def test_it_is_open_with_one_colluder_and_without_the_checks(self) -> None:
        clusters: list[tuple[tuple[PartyId, ...], ...]] = []
        with (
            self._recording(clusters),
            patch.object(party_release, "_check_survivors", lambda *_args: None),
            patch.object(party_release, "_check_receipts", lambda *_args: None),
            spying() as spy,
        ):

            def lenient(phase: client.Submitted, survivors: Collection[PartyId]) -> InstanceShares:
                alone = replace(phase.setup, min_survivors=1, threshold=1)
                return spy.shares_for(replace(phase, setup=alone), survivors)

            with patch.object(kind, "shares_for", lenient):
                world = World(scenario(6, leakage__mode="report"), train=distinct)
                world.server.seam = self._single(clusters)
                world.run()
        mate = next(n for c in clusters[0] if P[0] in c for n in c if n != P[0])
        assert P[0] in Grasp(spy, [mate]).alone()


class TestLists:
    """The 'U2 = me and colluders only' attack and its relatives: one cluster of 6; p04 and p05 collude."""

    MADE = scenario(
        6,
        size="6",
        threshold="4",
        min_survivors="4",
        secure_sum__colluders="2",
        secure_sum__colluders_per_cluster="2",
    )
    COLLUDERS = (P[4], P[5])

    @classmethod
    def _few_boxes(cls) -> Seam:
        def fewer(to: PartyId, message: BoxList) -> BoxList:
            kept = tuple((i, box) for i, box in message.boxes if P[i] in cls.COLLUDERS)
            return msgspec.structs.replace(message, boxes=kept) if to == P[0] else message

        return changing(BoxList, fewer)

    @staticmethod
    def _any_receipt() -> Any:
        """A server that counts whoever submitted, under whatever lists."""

        def on_receipt(
            phase: CollectingInputs, sender: PartyId, _message: object, frame: bytes
        ) -> CollectingInputs:
            return replace(phase, receipts={**phase.receipts, phase.setup.index(sender): frame})

        return patch.object(port, "on_receipt", on_receipt)

    @staticmethod
    def _any_boxes() -> Any:
        """Members that mask with whomever they got boxes from, however few."""

        def on_box_list(phase: client.Boxed, message: BoxList) -> client.Ready:
            setup = replace(phase.setup, threshold=1, min_survivors=1)
            return replace(client.on_box_list(replace(phase, setup=setup), message), setup=phase.setup)

        return patch.object(kind, "on_box_list", on_box_list)

    def test_the_member_refuses(self) -> None:
        with self._any_receipt():
            world, spy = attacked(self._few_boxes(), self.MADE)
        assert refusals(world, "with fewer than min_survivors members") == {P[0]}
        assert not any(name == P[0] for _, name in spy.masked)
        assert_nothing_leaks(spy, self.COLLUDERS)

    def test_the_others_refuse_even_if_it_does_not(self) -> None:
        with self._any_receipt(), self._any_boxes():
            world, spy = attacked(self._few_boxes(), self.MADE)
        assert not released(world)
        assert refusals(world, "has no receipt of ") >= set(P[1:4])
        assert_nothing_leaks(spy, self.COLLUDERS)

    def test_without_both_checks_the_member_is_alone(self) -> None:
        with (
            self._any_receipt(),
            self._any_boxes(),
            patch.object(party_release, "_check_receipts", lambda *_args: None),
        ):
            # The victim itself is not asked to release anything.
            spare = rewriting(Freeze, lambda send, _message: [] if send.to == P[0] else [send])
            seam = self._few_boxes()
            _, spy = attacked(lambda event, effects: spare(event, seam(event, effects)), self.MADE)
        assert P[0] in Grasp(spy, self.COLLUDERS).alone()

    @both
    @pytest.mark.parametrize("keep", ["none", "first", "own cluster's, but for one"])
    def test_receipts_are_missing(self, kind: str, keep: str) -> None:
        def cut(_to: PartyId, message: Freeze) -> Freeze:
            kept = {"none": 0, "first": 1}.get(keep, len(message.receipts) - 1)
            return msgspec.structs.replace(message, receipts=message.receipts[:kept])

        world, spy = attacked(changing(Freeze, cut), scenario(6, server=kind))
        assert not released(world)
        assert refusals(world, "has no receipt of ") == set(P[:6])
        assert_nothing_leaks(spy)

    @both
    def test_a_receipt_that_stands_for_another_of_its_signer(self, kind: str) -> None:
        def doubled(_to: PartyId, message: Freeze) -> Freeze:
            return msgspec.structs.replace(message, receipts=(*message.receipts, message.receipts[0]))

        world, spy = attacked(changing(Freeze, doubled), scenario(6, server=kind))
        assert not released(world)
        assert refusals(world, "sends two receipts of") == set(P[:6])
        assert_nothing_leaks(spy)

    @both
    def test_one_member_gets_another_key_list(self, kind: str) -> None:
        def cut(to: PartyId, message: KeyList) -> KeyList:
            return msgspec.structs.replace(message, adverts=message.adverts[:-1]) if to == P[0] else message

        world, spy = attacked(
            changing(KeyList, cut), scenario(12, size="6", server=kind, threshold="4", min_survivors="4")
        )
        assert_nothing_leaks(spy)
        assert P[0] not in {p for s in world.reports(SumOpened) for p in s.opened.survivors}

    @both
    def test_boxes_altered_on_the_way_only_cost_the_two_members(self, kind: str) -> None:
        def spoil(to: PartyId, message: BoxList) -> BoxList:
            (index, box), *rest = message.boxes
            spoilt = ((index, box[:-1] + bytes([box[-1] ^ 1])), *rest)
            return msgspec.structs.replace(message, boxes=spoilt) if to == P[0] else message

        made = scenario(12, size="6", server=kind, threshold="4", min_survivors="4")
        world, spy = attacked(changing(BoxList, spoil), made)
        (retried,) = world.reports(InstanceRetried)
        assert P[0] in retried.excluded
        assert_nothing_leaks(spy)
        assert sorted(len(s.opened.survivors) for s in world.reports(SumOpened)) == [4, 6]

    def test_a_frozen_attempt_that_was_not_submitted(self) -> None:
        claim = InstanceAttempt(reclustering=0, cluster=0, attempt=1)
        seam = changing(Freeze, lambda _to, m: msgspec.structs.replace(m, attempts=(claim,)))
        world, spy = attacked(seam, scenario(6))
        assert len(refusals(world, "lists survivors of another attempt")) == 3
        assert_nothing_leaks(spy)


class TestCountedInOneSumOnly:
    """A member that a retry left out of one reclustering is frozen as if it were in both.

    The totals of the two reclusterings then differ by its update (and the colluding accuser's).
    """

    @staticmethod
    def _run(kind: str) -> tuple[World, Spy, PartyId]:
        """p07 colludes: it accuses a cluster mate in the first reclustering; the freeze counts both."""
        accused: list[PartyId] = []

        def accuse(event: Event[AnyMessage], effects: Effects) -> Effects:
            if not (isinstance(event, Received) and isinstance(event.message, BoxList)) or accused:
                return effects
            phase = world.nodes[P[7]].phase
            assert isinstance(phase, Working)
            if event.place.reclustering:
                return effects
            mates = phase.assignment.clusters[0][event.place.cluster]
            accused.append(next(n for n in mates if n != P[7]))
            return (*effects, Send(SERVER, event.place, Complaint(accused=accused[0])))

        made = scenario(
            8,
            size="4",
            reclusterings="2",
            server=kind,
            threshold="3" if kind == "active" else "2",
            min_survivors="2" if kind == "curious" else "3",
        )
        with spying() as spy, patch_seen(server_freeze, "survivor_set", lambda *_args: frozenset(P)):
            world = World(made, train=distinct)
            world.nodes[P[7]].seam = accuse
            world.run()
        return world, spy, accused[0]

    def test_its_mates_refuse(self) -> None:
        world, spy, accused = self._run("curious")
        assert len(refusals(world, "lists survivors without masks")) == 2
        assert refusals(world, "although it has not sent all of its inputs") == {accused, P[7]}
        assert_nothing_leaks(spy, [P[7]])

    def test_without_the_check_its_update_is_a_difference(self) -> None:
        with patch.object(party_release, "_check_receipts", lambda *_args: None):
            _, spy, accused = self._run("curious")
        assert accused in Grasp(spy, [P[7]]).alone()


class TestModelsAndHellos:
    @staticmethod
    def _split_model() -> Seam:
        """p00 alone gets another model, with an invitation to match."""
        other = np.full(8, 7, dtype=np.float32)

        def model(to: PartyId, message: ModelAnnounce) -> ModelAnnounce:
            return ModelAnnounce(params=other.tobytes()) if to == P[0] else message

        def invite(to: PartyId, message: Invite) -> Invite:
            digest = model_digest(other)
            return msgspec.structs.replace(message, model_digest=digest) if to == P[0] else message

        first, second = changing(ModelAnnounce, model), changing(Invite, invite)
        return lambda event, effects: second(event, first(event, effects))

    @staticmethod
    def _any_hello() -> Any:
        def on_hello(_ctx: object, phase: Any, event: Any, message: Hello) -> Any:
            return replace(phase, hellos={**phase.hellos, event.sender: (message, event.signed)})

        return patch_seen(server, "on_hello", on_hello)

    @staticmethod
    def _any_announcement() -> Any:
        def on_announce(ctx: PartyContext, phase: HelloSent, place: Place, message: Announce) -> Any:
            at = Place(phase.round, attempt=phase.draw)
            hellos = party_draw.read_relayed(ctx, at, place, message.hellos, Hello)
            revealed = NonceRevealed(phase.past, phase.round, phase.draw, phase.params, phase.model, hellos)
            return revealed, (Send(SERVER, at, Reveal(nonce=phase.nonce)),)

        return patch_seen(party, "on_announce", on_announce)

    @both
    def test_another_model_for_one_party_is_refused(self, kind: str) -> None:
        with self._any_hello():
            world, spy = attacked(self._split_model(), scenario(6, server=kind))
        assert refusals(world, "with another model or configuration") == set(P[:6])
        assert not spy.masked

    def test_and_masks_do_not_cancel_even_if_nobody_looks(self) -> None:
        with self._any_hello(), self._any_announcement():
            world, spy = attacked(self._split_model(), scenario(6))
        assert not any(P[0] in s.opened.survivors for s in world.reports(SumOpened))
        assert not any(P[0] in g.members for g in Grasp(spy).groups())

    def test_without_the_binding_the_update_on_the_crafted_model_is_summed(self) -> None:
        with (
            self._any_hello(),
            self._any_announcement(),
            patch_seen(party_draw, "mask_binding", lambda *_args: bytes(32)),
            patch_seen(server_gather, "mask_binding", lambda *_args: bytes(32)),
            patch.object(draw, "certified_seed", lambda *_args: bytes(32)),
        ):
            _, spy = attacked(self._split_model(), scenario(6))
        assert any(P[0] in g.members for g in Grasp(spy).groups())

    @staticmethod
    def _two_counts() -> tuple[World, Spy]:
        """p05 colludes: it tells p00 that it has 10 samples, and the other honest parties 2^31."""

        def announce(to: PartyId, message: Announce) -> Announce:
            if to in {P[0], P[5]}:
                return message
            true = next(m for m in world.messages(Hello, P[5]))
            lie = msgspec.structs.replace(true, samples=2**31)
            forged = signed(world, P[5], Place(0), lie)
            return Announce(hellos=(*message.hellos[:-1], forged))

        def train(name: PartyId, round_: int, params: F32) -> F32:
            return params if name == P[5] else distinct(name, round_, params)

        with spying() as spy:
            world = World(scenario(6), train=train)
            world.server.seam = changing(Announce, announce)
            world.run()
        return world, spy

    def test_two_declared_counts_of_one_party_make_noise(self) -> None:
        world, spy = self._two_counts()
        assert not any(P[0] in s.opened.survivors for s in world.reports(SumOpened))
        # Its masks do not cancel: not even its cluster's sum is there, with whatever weights.
        assert not any(P[0] in group.members for group in Grasp(spy, [P[5]]).groups())
        assert_nothing_leaks(spy, [P[5]])

    def test_unbound_counts_leave_one_party_with_all_the_weight(self) -> None:
        with (
            patch_seen(party_draw, "announced_digest", lambda *_args: bytes(32)),
            patch.object(party_release, "announced_digest", lambda *_args: bytes(32)),
            patch_seen(server_gather, "announced_digest", lambda *_args: bytes(32)),
        ):
            world, _ = self._two_counts()
        (opened,) = (s.opened for s in world.reports(SumOpened) if P[0] in s.opened.survivors)
        assert np.abs(world.plan.fixed_point.decode(from_ring(opened.ring), 1.0) - 1.0).max() < 1e-3

    @staticmethod
    def _server_joins() -> tuple[World, Spy]:
        """The server says hello and reveals a nonce under its own name, which is on the roster too."""
        nonce = bytes(range(32))

        def announce(_to: PartyId, message: Announce) -> Announce:
            template = world.messages(Hello)[0]
            mine = msgspec.structs.replace(template, commitment=commitment(nonce, RUN, 0, 0, SERVER))
            return Announce(hellos=(*message.hellos, signed(world, SERVER, Place(0), mine)))

        def reveals(_to: PartyId, message: Reveals) -> Reveals:
            return Reveals(reveals=(*message.reveals, signed(world, SERVER, Place(0), Reveal(nonce=nonce))))

        first, second = changing(Announce, announce), changing(Reveals, reveals)
        with spying() as spy:
            world = World(scenario(6), train=distinct)
            world.server.seam = lambda event, effects: second(event, first(event, effects))
            world.run()
        return world, spy

    def test_the_server_is_no_member(self) -> None:
        world, spy = self._server_joins()
        assert refusals(world, "of server, which is not a party") == set(P[:6])
        assert not spy.advertised

    def test_it_would_be_one_if_the_roster_alone_decided(self) -> None:
        everybody = PropertyMock(return_value=dict.fromkeys((*P[:6], SERVER)))
        with patch.object(Roster, "parties", everybody):
            world, _ = self._server_joins()
        drawn = world.reports(ClustersDrawn, P[0])
        assert any(SERVER in cluster for report in drawn for row in report.clusters for cluster in row)

    MADE = scenario(6, server="active", secure_sum__colluders="2")

    def test_a_round_of_one_party_and_colluders_is_refused(self) -> None:
        """Two colluders hold both shares that open a cluster of 3; it needs no release at all."""
        seam = changing(
            Announce,
            lambda to, m: Announce(hellos=(m.hellos[0], *m.hellos[4:])) if to == P[0] else m,
        )
        world, spy = attacked(seam, self.MADE)
        assert refusals(world, "announces 3 parties, too few for a round") == {P[0]}
        assert not any(name == P[0] for _, name in spy.masked)

    def test_it_opens_that_party_before_any_release(self) -> None:
        silent = [Op("drop", name, "Hello") for name in P[1:4]]
        with (
            patch.object(RunPlan, "min_participants", PropertyMock(return_value=3)),
            patch.object(RunPlan, "majority", PropertyMock(return_value=3)),
            patch.object(RunPlan, "participants_of", lambda _self, present: present),
        ):
            world, spy = attacked(rewriting(Freeze, lambda _send, _message: []), self.MADE, silent)
        assert not released(world)
        assert Grasp(spy, [P[4], P[5]]).alone() == {P[0]}

    def test_rounds_beyond_the_last_are_refused(self) -> None:
        """Every round is up to three more draws of clusters until one suits the server."""
        seam = rewriting(ModelAnnounce, lambda send, _m: [replace(send, place=Place(1))])
        world, spy = attacked(seam, scenario(6))
        assert refusals(world, "starts round 1, but the run has 1 rounds") == set(P[:6])
        assert not spy.advertised


class TestDraws:
    def test_redraws_are_bounded(self) -> None:
        def again(send: Send[AnyMessage], _message: Reveals) -> list[Send[AnyMessage]]:
            invite = world.messages(Invite)[0]
            return [replace(send, place=Place(0, attempt=draw), message=invite) for draw in (1, 2, 3, 4)]

        with spying() as spy:
            world = World(scenario(6))
            world.server.seam = rewriting(Reveals, again)
            world.run()
        assert refusals(world, "starts draw 3 of round 0 at the wrong time") == set(P[:6])
        assert len(world.messages(Hello, P[0])) == 3
        assert not spy.advertised

    @pytest.mark.parametrize("skipped", [1, 2])
    def test_a_withheld_nonce_is_not_skipped(self, skipped: int) -> None:
        seam = changing(Reveals, lambda _to, m: Reveals(reveals=m.reveals[skipped:]))
        world, spy = attacked(seam, scenario(6))
        assert refusals(world, "sends nonces of other parties than it announced") == set(P[:6])
        assert not spy.advertised

    def test_a_nonce_other_than_committed_to_is_blamed_on_its_party(self) -> None:
        def swap(_to: PartyId, message: Reveals) -> Reveals:
            other = signed(world, P[5], Place(0), Reveal(nonce=bytes(32)))
            return Reveals(reveals=(*message.reveals[:-1], other))

        with spying() as spy:
            world = World(scenario(6))
            world.server.seam = changing(Reveals, swap)
            world.run()
        for name in P[:5]:
            assert [r.culprit for r in world.nodes[name].rejects] == [P[5]]
        assert not spy.advertised

    def test_a_party_left_out_of_the_announcement_reveals_nothing(self) -> None:
        seam = changing(Announce, lambda to, m: Announce(hellos=m.hellos[1:]) if to == P[0] else m)
        world, _ = attacked(seam, scenario(6))
        assert not world.messages(Reveal, P[0])


class TestCertificates:
    """What does not certify. One certificate of 6 parties without colluders takes 4 signatures."""

    @pytest.mark.parametrize(
        ("how", "reason"),
        [
            ("none", "the certificate has 0 signatures"),
            ("too few", "the certificate has 3 signatures"),
            ("one, often", "has two signatures of p00"),
            ("forged", "not authentic"),
            ("by the server", "the certificate has signatures of another statement"),
            ("of another statement", "the certificate has signatures of another statement"),
            ("of another round", "the certificate has signatures of another statement"),
            ("of another ledger", "the certificate has signatures of another statement"),
            ("something else", "the certificate has signatures of another statement"),
        ],
    )
    def test_is_refused(self, how: str, reason: str) -> None:
        def spoil(_to: PartyId, message: Certificate) -> Certificate:
            frames = message.endorsements
            true = world.messages(Endorse, P[5])[0]
            match how:
                case "none":
                    frames = ()
                case "too few":
                    frames = frames[:3]
                case "one, often":
                    frames = frames[:1] * 6
                case "forged":
                    frames = (*frames[:5], frames[5][:-1] + bytes([frames[5][-1] ^ 1]))
                case "by the server":
                    frames = (*frames[:5], signed(world, SERVER, Place(0), true))
                case "of another statement":
                    lie = msgspec.structs.replace(true, statement=bytes(32))
                    frames = (*frames[:5], signed(world, P[5], Place(0), lie))
                case "of another round":
                    frames = (*frames[:5], signed(world, P[5], Place(1), true))
                case "of another ledger":
                    lie = msgspec.structs.replace(true, ledger_head=bytes(32))
                    frames = (*frames[:5], signed(world, P[5], Place(0), lie))
                case _:
                    frames = (*frames[:5], signed(world, P[5], Place(0), world.messages(Reveal, P[5])[0]))
            return Certificate(endorsements=frames)

        with spying() as spy:
            world = World(scenario(6, server="active"))
            world.server.seam = changing(Certificate, spoil)
            world.run()
        assert refusals(world, reason) == set(P[:6])
        assert not released(world)
        assert not Grasp(spy).groups()

    def test_without_one_nobody_releases(self) -> None:
        world, spy = attacked(rewriting(Certificate, lambda *_args: []), scenario(6, server="active"))
        assert not released(world)
        assert not Grasp(spy).groups()


class TestReopening:
    @staticmethod
    def _retry_after(kind: type[AnyMessage]) -> Seam:
        """Ask for another attempt, and then for a second freeze, once a party has sent ``kind``."""

        def seam(event: Event[AnyMessage], effects: Effects) -> Effects:
            if not (isinstance(event, Received) and isinstance(event.message, kind)):
                return effects
            members = tuple(n for n in P[:6] if n != P[5])
            asks: list[tuple[Place, AnyMessage]] = [
                (Place(0, 0, 0, 1), Retry(members=members)),
                (Place(0, 0, 1, 1), Retry(members=members)),
                (Place(0), Freeze(survivors=members, attempts=(), receipts=())),
            ]
            return (*effects, *(Send(event.sender, place, message) for place, message in asks))

        return seam

    @both
    def test_an_attempt_after_a_release_is_refused(self, kind: str) -> None:
        world, spy = attacked(self._retry_after(Release), scenario(6, server=kind))
        assert refusals(world, "sends Retry of round 0 to a party in phase idle") == set(P[:6])
        assert refusals(world, "sends Freeze of round 0 to a party in phase idle") == set(P[:6])
        assert {i.attempt for i, _ in spy.masked} == {0}
        assert_nothing_leaks(spy)

    def test_an_attempt_after_an_endorsement_is_refused(self) -> None:
        world, spy = attacked(self._retry_after(Endorse), scenario(6, server="active"))
        assert refusals(world, "sends Retry of round 0 to a party in phase endorsed") == set(P[:5])
        assert refusals(world, "sends Retry of round 0 to a party in phase idle") == {P[5]}
        assert_nothing_leaks(spy)

    @both
    def test_a_replayed_round_is_refused(self, kind: str) -> None:
        """In round 1 the server sends, freshly signed, the model, freeze and certificate of round 0."""

        def seam(_event: Event[AnyMessage], effects: Effects) -> Effects:
            old = [s for s in world.sent if s.sender == SERVER and s.place.round == 0]
            replay = [
                Send(s.to, s.place, s.message)
                for e in effects
                if isinstance(e, Send) and e.place.round == 1
                for s in old
                if type(s.message) is type(e.message)
            ]
            return (*replay, *effects)

        with spying() as spy:
            world = World(scenario(6, server=kind, rounds="2"), train=distinct)
            world.server.seam = seam
            world.run()
        assert refusals(world, "sends the model of round 0 again") == set(P[:6])
        assert refusals(world, "sends the survivors of round 0 in round 1") == set(P[:6])
        assert len(world.reports(SumOpened)) == 4
        assert_nothing_leaks(spy)
