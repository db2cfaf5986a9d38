"""Two servers of one run, on copies of a disk or apart by the network: one at most opens a round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from securefl.base.entropy import InsecureSeededEntropy, OsEntropy
from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.protocol.kernel.effects import (
    LEADS,
    Aborted,
    Enter,
    Finished,
    Journal,
    Keep,
    Reject,
    Report,
    Send,
)
from securefl.protocol.kernel.events import Chosen, DeadlinePassed, Place, Received
from securefl.protocol.messages.control import WIRE_VERSION, Goodbye, JoinRun, RollCall
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import (
    Announce,
    Certificate,
    Hello,
    Invite,
    ModelAnnounce,
    Release,
    Reveals,
)
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.following import VOID_BY_RESTART
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import Choosing, Endorsed, HelloSent, Idle, NonceRevealed, Working
from securefl.protocol.round.server.phases import (
    Checkpoint,
    CollectingHellos,
    Ended,
    Evaluating,
    Releasing,
    Resumed,
    StatedProgress,
)
from securefl.protocol.round.server.resuming import MAX_EPOCH_LEAD, next_epoch, reason_outdated
from securefl.protocol.round.shared.reports import (
    EpochFollowed,
    ModelStepped,
    RoundDone,
    RunEffect,
    SatOut,
    StepRestored,
    SumOpened,
)
from securefl.protocol.wire.carried import MAX_EPOCH, epoch_of, session_of_server
from securefl.protocol.wire.inbox import Inbox
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.process.checkpoint import checkpoint_bytes, checkpoint_from
from securefl.runtime.process.journal import FileJournal
from tests.simulation.test_exact_sums import samples, uneven
from tests.simulation.world import RUN, Node, World, scenario

OTHER = PartyId("other")
"""A second process of the server."""
P = [PartyId(f"p{number:02d}") for number in range(12)]


class Twice(World):
    """A run in which a second server starts, on a copy of the first one's disk, before a round of the first.

    Args:
        at: the round.
        near: parties that only the second one reaches from then on, and the others only the first; both reach
            all when None.
    """

    def __init__(
        self, at: int = 1, near: Collection[PartyId] | None = None, *, kind: str = "curious"
    ) -> None:
        settings = {"size": "4", "rounds": "4", "server": kind, "deadlines__quorum": "100"}
        if kind == "active":
            settings |= {"threshold": "3", "min_survivors": "3"}
        super().__init__(scenario(12, **settings), length=4, train=uneven, samples=samples)
        self._at = at
        self._near = near
        self.second: Node | None = None

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        for effect in effects:
            asks = isinstance(effect, Send) and isinstance(effect.message, Invite)
            due = isinstance(effect, Send) and node.name == SERVER and effect.place.round == self._at
            if asks and due and self.second is None:
                self._start_second()
            super()._perform(node, (effect,))

    def _start_second(self) -> None:
        assert self.server.kept is not None
        state = checkpoint_from(self.server.kept, self.plan, "copy")
        announced = max((round_ for round_, _ in self.server.journal), default=-1)
        node = Node(
            OTHER,
            self._server(Resumed(state, announced)),
            Outbox(RUN, self.identities[SERVER], InsecureSeededEntropy(99)),
            Inbox(RUN, SERVER, self.plan.roster, max_message=2**26),
        )
        self.second = self.nodes[OTHER] = node
        node.phase, effects = node.machine.start(self.now)
        super()._perform(node, effects)

    def _reaches(self, one: PartyId, other: PartyId) -> bool:
        """Whether a frame goes from one to the other, of whom one is a server."""
        if self.second is None or self._near is None:
            return True
        server, party = (one, other) if one in {SERVER, OTHER} else (other, one)
        return (party in self._near) == (server == OTHER)

    def _schedule(self, delay: float, to: PartyId, event: object) -> None:
        if isinstance(event, bytes):
            sender = self._sending
            if to == OTHER and sender in {SERVER, OTHER}:
                return
            if to == SERVER and self.second is not None and self._reaches(sender, OTHER):
                super()._schedule(delay, OTHER, event)
            if sender in {SERVER, OTHER} and not self._reaches(sender, to):
                return
            if to == SERVER and not self._reaches(sender, SERVER):
                return
        super()._schedule(delay, to, event)  # type: ignore[arg-type]

    def _send(self, node: Node, effect: Send[AnyMessage]) -> None:
        self._sending = node.name
        super()._send(node, effect)

    @property
    def parties(self) -> list[PartyId]:
        return [name for name in super().parties if name != OTHER]


def check(world: Twice) -> Counter[int]:
    """Return how many servers opened sums of each round, of which there is one at most."""
    assert world.second is not None
    by = [
        {one.round for one in node.reports if isinstance(one, SumOpened)}
        for node in (world.server, world.second)
    ]
    opened = Counter(round_ for rounds in by for round_ in rounds)
    assert set(opened.values()) <= {1}, by
    for kind in (MaskedInput, Release):
        given = Counter((one.sender, one.place) for one in world.sent if isinstance(one.message, kind))
        assert set(given.values()) <= {1}
    return opened


@pytest.mark.parametrize("kind", ["curious", "active"])
@pytest.mark.parametrize("at", [0, 1, 3])
def test_on_one_network_the_second_takes_over(kind: str, at: int) -> None:
    world = Twice(at, kind=kind)
    world.run()
    assert check(world).keys() == {0, 1, 2, 3}
    assert world.second is not None
    assert isinstance(world.second.outcome, Finished)
    assert isinstance(world.server.outcome, Aborted)
    for name in world.parties:
        (followed,) = world.reports(EpochFollowed, name)
        assert followed.epoch == 2
        assert isinstance(world.nodes[name].outcome, Finished), world.nodes[name].outcome


@pytest.mark.parametrize("kind", ["curious", "active"])
@pytest.mark.parametrize("reached", [4, 6, 8])
def test_apart_by_the_network_one_of_them_has_a_majority(kind: str, reached: int) -> None:
    world = Twice(1, P[:reached], kind=kind)
    world.run()
    opened = check(world)
    assert world.second is not None
    later = {one.round for one in world.second.reports if isinstance(one, SumOpened)}
    assert later == ({1, 2, 3} if reached > 6 else set())
    earlier = {one.round for one in world.reports(SumOpened)}
    assert earlier == ({0, 1, 2, 3} if 12 - reached > 6 else {0})
    assert opened.keys() == earlier | later


class TestEpochs:
    def test_the_next_one_is_after_all_that_are_known(self) -> None:
        stated = {P[0]: StatedProgress(3, -1), P[1]: StatedProgress(5, -1)}
        assert next_epoch(0, {}) == 1
        assert next_epoch(0, stated) == 6
        assert next_epoch(8, stated) == 9

    def test_a_liar_does_not_use_them_up(self) -> None:
        assert next_epoch(2, {P[0]: StatedProgress(MAX_EPOCH, -1), P[1]: StatedProgress(2, -1)}) == 3
        assert next_epoch(2, {P[0]: StatedProgress(2 + MAX_EPOCH_LEAD, -1)}) == 3 + MAX_EPOCH_LEAD
        assert next_epoch(2, {P[0]: StatedProgress(3 + MAX_EPOCH_LEAD, -1)}) == 3
        assert next_epoch(MAX_EPOCH, {}) == MAX_EPOCH

    def test_more_than_q_have_to_say_that_a_disk_is_old(self) -> None:
        plan = World(scenario(6, secure_sum__colluders="1", min_survivors="3", threshold="3")).plan
        assert reason_outdated(plan, {P[0]: StatedProgress(1, 9)}, 3) is None
        said = reason_outdated(plan, {P[0]: StatedProgress(1, 9), P[1]: StatedProgress(1, 7)}, 3)
        assert said is not None
        assert "parties have been in round 7" in said
        assert reason_outdated(plan, {P[0]: StatedProgress(1, 3), P[1]: StatedProgress(1, 3)}, 3) is None
        assert reason_outdated(plan, {}, 3) is None

    def test_a_server_on_an_old_copy_opens_nothing(self) -> None:
        world = World(scenario(6, rounds="3"), length=4).run()
        old = Checkpoint(1, replace(_standing(world), round=1), None)
        machine = world._server(Resumed(old, 0))
        phase, _ = machine.start(0.0)
        for name in world.parties:
            known = JoinRun(
                config_digest=world.plan.config_digest(),
                version=WIRE_VERSION,
                leader=b"\0\0\0\1abcd",
                round=2,
            )
            phase, effects = machine.step(phase, Received(0.1, name, Place(-1), known))
        (ended,) = [one for one in effects if isinstance(one, Aborted)]
        assert "parties have been in round 2, and this server's state ends before round 1" in ended.reason
        assert not any(isinstance(one, Send) for one in effects)

    @pytest.mark.parametrize("done", [False, True])
    def test_nor_does_it_go_on_where_they_say_so_only_once_it_leads(self, *, done: bool) -> None:
        """They may all have been away as it called the roll; q liars do not end it, and nobody else does."""
        world = World(scenario(6, rounds="3", secure_sum__colluders="1", min_survivors="3"), length=4).run()
        made = world.reports(RoundDone)[0] if done else None
        old = Checkpoint(1, replace(_standing(world), round=0 if done else 1), made)
        machine = world._server(Resumed(old, 0))

        def says(name: PartyId, round_: int) -> Received[AnyMessage]:
            digest = world.plan.config_digest()
            known = JoinRun(config_digest=digest, version=WIRE_VERSION, leader=b"\0\0\0\1abcd", round=round_)
            return Received(0.1, name, Place(-1), known)

        phase, _ = machine.start(0.0)
        phase, _ = machine.step(phase, says(P[0], 2))
        phase, _ = machine.step(phase, DeadlinePassed(world.scenario.deadlines.join))
        assert isinstance(phase, Evaluating if done else CollectingHellos)
        for name in P[1:6]:
            phase, _ = machine.step(phase, says(name, 1))
        assert not isinstance(phase, Ended)
        phase, _ = machine.step(phase, says(P[0], 2))
        assert not isinstance(phase, Ended)
        phase, effects = machine.step(phase, says(P[1], 2))
        assert isinstance(phase, Ended)
        (ended,) = [one for one in effects if isinstance(one, Aborted)]
        assert "parties have been in round 2, and this server's state ends before round 1" in ended.reason
        assert not ended.over
        assert not any(isinstance(one, Send) for one in effects)


def _standing(world: World) -> Any:
    assert world.server.kept is not None
    return checkpoint_from(world.server.kept, world.plan, "x").standing


Taken = tuple[Any, Received[AnyMessage], Any]
"""A phase, a message, and the phase after it."""


def steps(world: World, name: PartyId, *kinds: type) -> list[Taken]:
    """Run a world; return what messages of these kinds did to one of its machines, in order."""
    seen: list[Taken] = []

    def observe(node: Node, before: object, event: object, after: object, _effects: object) -> None:
        if node.name == name and isinstance(event, Received) and isinstance(event.message, kinds):
            seen.append((before, event, after))

    world.observers.append(observe)
    world.run()
    return seen


class TestParties:
    """A party's machine, at some phase of a run, and servers that it does not follow."""

    def at(self, kind: type, message: type) -> tuple[World, Any, Received[AnyMessage]]:
        world = World(scenario(6, rounds="2"), length=4)
        seen = [(after, event) for _, event, after in steps(world, P[0], message)]
        phase, event = next((p, e) for p, e in seen if isinstance(p, kind))
        return world, phase, event

    def test_it_writes_down_whom_it_follows_before_anything_else(self) -> None:
        world, phase, event = self.at(HelloSent, Invite)
        later = replace(event, session=session_of_server(7, InsecureSeededEntropy(1)))
        after, effects = world.nodes[P[0]].machine.step(phase, replace(later, message=RollCall()))
        assert effects[0] == Journal(0, LEADS + later.session.hex())
        assert isinstance(after, Idle)
        assert epoch_of(after.past.leader) == 7
        (joined,) = [one.message for one in effects if isinstance(one, Send)]
        assert isinstance(joined, JoinRun)
        assert joined.leader == later.session

    def test_a_round_it_was_only_invited_to_may_begin_again(self) -> None:
        world, phase, event = self.at(HelloSent, Invite)
        machine = world.nodes[P[0]].machine
        session = session_of_server(2, InsecureSeededEntropy(1))
        model = next(one for one in world.sent if type(one.message).__name__ == "ModelAnnounce")
        phase, _ = machine.step(phase, Received(1.0, SERVER, model.place, model.message, session=session))
        phase, effects = machine.step(phase, replace(event, session=session))
        assert isinstance(phase, HelloSent)
        (hello,) = [one.message for one in effects if isinstance(one, Send)]
        assert isinstance(hello, Hello)
        assert hello.leader == session

    @pytest.mark.parametrize("kind", [NonceRevealed, Working])
    def test_a_round_whose_nonce_is_revealed_does_not(self, kind: type) -> None:
        world = World(scenario(6, rounds="2"), length=4)
        found = [after for *_, after in steps(world, P[0], Announce if kind is NonceRevealed else Reveals)]
        phase, machine = found[0], world.nodes[P[0]].machine
        assert isinstance(phase, kind)
        session = session_of_server(2, InsecureSeededEntropy(1))
        model = next(one for one in world.sent if type(one.message).__name__ == "ModelAnnounce")
        again: Received[AnyMessage] = Received(1.0, SERVER, model.place, model.message, session=session)
        after, effects = machine.step(phase, again)
        assert isinstance(after, Idle)
        assert [one.reason for one in effects if isinstance(one, Reject)] == [
            "sends the model of round 0 again"
        ]

    def test_nor_one_of_which_a_draw_was_void(self) -> None:
        """Nonces of the first draw are known, and the server would get three more draws."""
        world, phase, event = self.at(HelloSent, Invite)
        machine = world.nodes[P[0]].machine
        session = session_of_server(2, InsecureSeededEntropy(1))
        roll: Received[AnyMessage] = replace(event, session=session, message=RollCall())
        for draw, spent in ((0, -1), (1, 0)):
            after, _ = machine.step(replace(phase, draw=draw), roll)
            assert isinstance(after, Idle)
            assert after.past.last_spent_round == spent

    def test_whoever_says_hello_to_another_server_is_announced_by_none(self) -> None:
        world = World(scenario(6, rounds="1"), length=4)
        seen = [(before, event) for before, event, _ in steps(world, P[0], Announce)]
        ((phase, event),) = seen
        assert isinstance(event.message, Announce)
        said = next(
            one.message for one in world.sent if one.sender == P[5] and isinstance(one.message, Hello)
        )
        elsewhere = structs.replace(said, leader=session_of_server(1, InsecureSeededEntropy(9)))
        outbox = Outbox(RUN, world.identities[P[5]], InsecureSeededEntropy(9))
        (frame,) = outbox.frames(SERVER, event.place, elsewhere)
        shown = structs.replace(event.message, hellos=(*event.message.hellos[:5], frame))
        _, effects = world.nodes[P[0]].machine.step(phase, replace(event, message=shown))
        (refused,) = [one for one in effects if isinstance(one, Reject)]
        assert refused == Reject(SERVER, "announces p05, which joined another server")
        assert not any(isinstance(one, Send) for one in effects)

    def test_nor_does_the_server_take_a_hello_to_another_one_of_its_epoch(self) -> None:
        world = World(scenario(6, rounds="1"), length=4)
        seen = [(before, event) for before, event, _ in steps(world, SERVER, Hello)]
        phase, event = seen[0]
        assert isinstance(event.message, Hello)
        elsewhere = structs.replace(event.message, leader=session_of_server(1, InsecureSeededEntropy(9)))
        after, effects = world.server.machine.step(phase, replace(event, message=elsewhere))
        assert isinstance(after, CollectingHellos)
        assert not after.hellos
        assert Reject(event.sender, "sends a Hello for another server") in effects

    def test_nor_for_a_party_that_is_started_again(self, tmp_path: Path) -> None:
        """A server may end the run for parties that a service starts again: it must not draw anew by that."""
        world = World(scenario(6, rounds="2", server="active"), length=4)
        noted: list[list[tuple[int, str]]] = []

        def observe(node: Node, _before: object, event: object, _after: object, _effects: object) -> None:
            if node.name == P[0] and isinstance(event, Received) and isinstance(event.message, Reveals):
                noted.append(list(node.journal))

        world.observers.append(observe)
        world.run()
        for round_, step in noted[0]:
            FileJournal(tmp_path / "p00.journal", RUN).note(round_, step)
        known = FileJournal(tmp_path / "p00.journal", RUN)
        assert not known.submitted, "nothing has left: its budget is whole"
        ctx = cast("Any", world.nodes[P[0]].machine)._ctx
        machine = PartyMachine(replace(ctx, last_spent_round=known.spent, leader=known.leader))
        phase, _ = machine.start(0.0)
        said = [one for one in world.sent if one.sender == SERVER and one.place == Place(0)]
        for session in (known.leader, session_of_server(2, InsecureSeededEntropy(1))):
            for one in (one for one in said if isinstance(one.message, ModelAnnounce | Invite)):
                event = Received(1.0, SERVER, one.place, one.message, session=session)
                phase, effects = machine.step(phase, event)
                assert not any(isinstance(made, Send) for made in effects)

    def test_who_leads_nothing_ends_nothing(self) -> None:
        world, phase, event = self.at(HelloSent, Invite)
        asking = session_of_server(0, InsecureSeededEntropy(1))
        goodbye: Received[AnyMessage] = Received(
            1.0, SERVER, Place(-1), Goodbye(reason="ended", aborted=True), session=asking
        )
        after, effects = world.nodes[P[0]].machine.step(phase, goodbye)
        assert after is phase
        assert not any(isinstance(one, Finished | Aborted | Reject) for one in effects)
        assert event.sender == SERVER

    def test_before_it_follows_anybody_it_may_be_sent_home_but_led_nowhere(self) -> None:
        world = World(scenario(6), length=4)
        machine = world.nodes[P[0]].machine
        outside, _ = machine.start(0.0)
        asking = session_of_server(0, InsecureSeededEntropy(1))
        goodbye = Goodbye(reason="another scenario", aborted=True)
        _, effects = machine.step(outside, Received(1.0, SERVER, Place(-1), goodbye, session=asking))
        assert Aborted("another scenario") in effects
        done = world.run()
        model = next(one for one in done.sent if one.to == EVERYONE and one.place.round == 0)
        led: Received[AnyMessage] = Received(1.0, SERVER, model.place, model.message, session=asking)
        after, effects = machine.step(outside, led)
        assert after is outside
        (refused,) = [one for one in effects if isinstance(one, Reject)]
        assert refused.reason == f"sends {type(model.message).__name__} before it took over the run"

    def test_a_choice_for_a_second_draw_is_left_with_its_server(self) -> None:
        """The first draw was announced; the next server does not begin the round again."""
        settings = {"groups__count": "4", "groups__mode": "open", "size": "2", "weighting__mode": "ignore"}
        world = World(scenario(16, rounds="1", **settings), length=4, choose=lambda _party, _round: 0)
        seen = [(before, event, after) for before, event, after in steps(world, P[0], Invite)]
        phase, event = next((after, event) for _, event, after in seen if isinstance(after, Choosing))
        machine = world.nodes[P[0]].machine
        session = session_of_server(2, InsecureSeededEntropy(1))
        roll: Received[AnyMessage] = replace(event, session=session, message=RollCall())
        for draw, spent, void in ((0, -1, False), (1, 0, True)):
            after, effects = machine.step(replace(phase, draw=draw), roll)
            assert isinstance(after, Idle)
            assert after.past.last_spent_round == spent
            reports = [one.item for one in effects if isinstance(one, Report)]
            assert [one.reason for one in reports if isinstance(one, SatOut)] == (
                [VOID_BY_RESTART] if void else []
            )

    def test_it_names_the_same_task_group_again(self) -> None:
        """Who cannot choose names one at random; another one the second time would tell."""
        settings = {"groups__count": "4", "groups__mode": "open", "size": "2", "weighting__mode": "ignore"}
        world = World(
            scenario(16, rounds="1", **settings), length=4, choose=lambda party, _round: int(party[1:]) % 4
        )
        machine = world.nodes[P[0]].machine
        assert isinstance(machine, PartyMachine)
        machine._ctx = replace(machine._ctx, entropy=OsEntropy())
        world.run()
        hello = next(one for one in world.sent if one.sender == P[0] and isinstance(one.message, Hello))
        model = next(one for one in world.sent if type(one.message).__name__ == "ModelAnnounce")
        invite = next(one for one in world.sent if isinstance(one.message, Invite))
        assert isinstance(hello.message, Hello)
        phase, _ = machine.start(0.0)
        groups = []
        for epoch in range(1, 9):
            session = session_of_server(epoch, InsecureSeededEntropy(epoch))
            for one in (model, invite):
                event: Received[AnyMessage] = Received(1.0, SERVER, one.place, one.message, session=session)
                phase, effects = machine.step(phase, event)
            if isinstance(phase, Choosing):
                phase, effects = machine.step(phase, Chosen(1.0, 0, None, "no loss is finite"))
            groups += [
                one.message.group
                for one in effects
                if isinstance(one, Send) and isinstance(one.message, Hello)
            ]
        assert len(groups) == 8
        assert len(set(groups)) == 1


class TestServers:
    """A server's machine, and hellos and shares that are for another one."""

    def greeting(self, colluders: int = 0) -> tuple[World, Any, Received[AnyMessage]]:
        """A run, its server before the last hello of a round came, and that hello."""
        more = {"secure_sum__colluders": str(colluders), "min_survivors": "3", "threshold": "3"}
        world = World(scenario(6, rounds="1", **more), length=4)
        seen = [(before, event) for before, event, _ in steps(world, SERVER, Hello)]
        return world, *seen[2]

    @pytest.mark.parametrize("colluders", [0, 1])
    def test_more_than_q_replace_it(self, colluders: int) -> None:
        world, phase, event = self.greeting(colluders)
        machine = world.server.machine
        later = session_of_server(7, InsecureSeededEntropy(1))
        for number in range(colluders + 1):
            assert not isinstance(phase, Ended)
            hello = structs.replace(event.message, leader=later)
            # One party says it as often as it likes.
            for _ in range(3):
                if isinstance(phase, Ended):
                    break
                phase, effects = machine.step(phase, replace(event, sender=P[number], message=hello))
        assert isinstance(phase, Ended)
        (ended,) = [one for one in effects if isinstance(one, Aborted)]
        assert ended.reason.startswith("displaced: another server leads the run, in epoch 7")
        assert not ended.over

    @pytest.mark.parametrize("again", [True, False])
    def test_a_second_box_is_a_fault_unless_an_earlier_server_had_asked(self, again: bool) -> None:
        world = World(scenario(6, rounds="1"), length=4)
        seen = [(after, event) for _, event, after in steps(world, SERVER, Release)]
        phase, event = seen[0]
        assert isinstance(phase, Releasing)
        after, effects = world.server.machine.step(replace(phase, is_repeated=again), event)
        assert isinstance(after, Releasing)
        assert after.released == phase.released
        refused = [one.reason for one in effects if isinstance(one, Reject)]
        assert refused == ([] if again else ["releases shares twice"])


class TestReleases:
    """A party that has endorsed or released, and a server that shows the same certificate, or another one."""

    def released(self) -> tuple[World, Any, Received[AnyMessage], Release]:
        """A run, a party before it released, the certificate, and what it released."""
        world = World(scenario(6, rounds="2", server="active"), length=4)
        seen = [(before, event) for before, event, _ in steps(world, P[0], Certificate)]
        phase, event = seen[0]
        own = next(one for one in world.sent if one.sender == P[0] and isinstance(one.message, Release))
        assert isinstance(own.message, Release)
        return world, phase, event, own.message

    @staticmethod
    def said(effects: tuple[RunEffect, ...]) -> list[Release]:
        return [one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Release)]

    def test_the_same_box_leaves_once_to_each_server(self) -> None:
        world, phase, event, _ = self.released()
        machine = world.nodes[P[0]].machine
        phase, effects = machine.step(phase, event)
        (first,) = self.said(effects)
        phase, effects = machine.step(phase, event)
        assert not self.said(effects)
        for epoch in (5, 7):
            session = session_of_server(epoch, InsecureSeededEntropy(epoch))
            phase, effects = machine.step(phase, replace(event, session=session))
            assert self.said(effects) == [first]
            # Nothing is given away again: journal and account have it already.
            assert [type(one) for one in effects if isinstance(one, Journal | Enter)] == [Journal]
            phase, effects = machine.step(phase, replace(event, session=session))
            assert not self.said(effects)

    def test_whoever_has_endorsed_releases_to_the_next_server(self) -> None:
        world, phase, event, own = self.released()
        session = session_of_server(5, InsecureSeededEntropy(5))
        after, effects = world.nodes[P[0]].machine.step(phase, replace(event, session=session))
        assert self.said(effects) == [own]
        assert isinstance(after, Idle)
        assert after.past.leader == session
        assert after.past.released is not None
        assert after.past.released.leader == session

    @pytest.mark.parametrize("wrong", ["fewer", "none", "round"])
    def test_the_next_server_needs_the_certificate_as_well(self, wrong: str) -> None:
        world, phase, event, _ = self.released()
        assert isinstance(event.message, Certificate)
        frames = event.message.endorsements
        shown = {"fewer": frames[:1], "none": (), "round": frames}[wrong]
        place = Place(1) if wrong == "round" else event.place
        session = session_of_server(5, InsecureSeededEntropy(5))
        asked = replace(event, session=session, place=place, message=Certificate(endorsements=shown))
        after, effects = world.nodes[P[0]].machine.step(phase, asked)
        assert not self.said(effects)
        assert [one.culprit for one in effects if isinstance(one, Reject)] == [SERVER]
        assert isinstance(after, Endorsed)

    def test_nothing_leaves_for_another_round(self) -> None:
        world, phase, event, _ = self.released()
        machine = world.nodes[P[0]].machine
        phase, _ = machine.step(phase, event)
        session = session_of_server(5, InsecureSeededEntropy(5))
        for round_ in (1, 2):
            _, effects = machine.step(phase, replace(event, session=session, place=Place(round_)))
            assert not self.said(effects)
            assert [one.culprit for one in effects if isinstance(one, Reject)] == [SERVER]


class Copied(Twice):
    """A second server starts on a copy of the disk of one that awaits shares."""

    def _perform(self, node: Node, effects: tuple[RunEffect, ...]) -> None:
        for effect in effects:
            if (
                self.second is None
                and node.name == SERVER
                and isinstance(effect, Send)
                and isinstance(effect.message, Certificate)
                and effect.place.round == self._at
            ):
                self._start_second()
            World._perform(self, node, (effect,))


@pytest.mark.parametrize("at", [0, 1])
def test_a_copy_opens_the_same_sums_and_no_others(at: int) -> None:
    world = Copied(at, kind="active")
    world.run()
    assert world.second is not None
    assert isinstance(world.second.outcome, Finished)
    opened = {
        (node.name, one.round, one.opened.key): one.opened.ring.tolist()
        for node in (world.server, world.second)
        for one in node.reports
        if isinstance(one, SumOpened)
    }
    assert {round_ for name, round_, _ in opened if name == OTHER} == set(range(at, 4))
    for (name, round_, key), ring in opened.items():
        if name == SERVER and round_ >= at:
            assert opened[OTHER, round_, key] == ring
    boxes = {
        (one.sender, one.place, one.message.sealed) for one in world.sent if isinstance(one.message, Release)
    }
    assert len({(sender, place) for sender, place, _ in boxes}) == len(boxes)


def test_a_server_that_tests_an_earlier_ones_model_knows_its_step() -> None:
    """Without the norm of the update the round would count as one without a model, and the run end with 1."""
    world = World(scenario(6, rounds="2"), length=4)
    kept: list[Checkpoint] = []

    def observe(node: Node, _before: object, _event: object, _after: object, effects: object) -> None:
        assert isinstance(effects, tuple)
        if node.name == SERVER:
            kept.extend(cast("Checkpoint", one.state) for one in effects if isinstance(one, Keep))

    world.observers.append(observe)
    world.run()
    norms = [report.update_norm for report in world.reports(ModelStepped)]
    untested = [one for one in kept if one.done is not None]
    assert [one.norm for one in untested] == norms
    last = checkpoint_from(checkpoint_bytes(world.plan, untested[-1]), world.plan, "x")
    machine = world._server(Resumed(last, 1))
    phase, _ = machine.start(0.0)
    for name in world.parties:
        known = JoinRun(
            config_digest=world.plan.config_digest(), version=WIRE_VERSION, leader=b"\0\0\0\1abcd", round=1
        )
        phase, effects = machine.step(phase, Received(0.1, name, Place(-1), known))
    assert isinstance(phase, Evaluating)
    assert Report(StepRestored(1, norms[-1])) in effects, "without a journal its sums are unknown"
