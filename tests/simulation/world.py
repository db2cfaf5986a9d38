"""The whole federation in one process under a virtual clock, with every hop through the codec.

Machines, signatures, chunks and inboxes are the real ones; only the network, the clock and the training are
stand-ins. Faults are a list of operations (:class:`Op`) that hypothesis can shrink and that can be kept as a
literal regression.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.errors import PeerError
from securefl.base.ids import DEALER, EVERYONE, SERVER, PartyId, RunId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.clustering.kept_atoms import Atom
from securefl.methods.feasibility.limits import check
from securefl.methods.leakage.unresolved import NOTHING_GIVEN, Given
from securefl.protocol.kernel.effects import (
    ANNOUNCED,
    ATOMS,
    CLAIMED,
    DREW,
    LEADS,
    REVEALED,
    Aborted,
    AwaitSent,
    Choose,
    Consult,
    Enter,
    Evaluate,
    Finished,
    Journal,
    Keep,
    Lead,
    Reject,
    Report,
    Send,
    Train,
    WakeAt,
)
from securefl.protocol.kernel.events import (
    AllSent,
    Chosen,
    Consulted,
    DeadlinePassed,
    Evaluated,
    Place,
    PresenceHint,
    Trained,
)
from securefl.protocol.kernel.machine import Event, Machine
from securefl.protocol.messages.control import Software
from securefl.protocol.messages.masking import ShareBoxes
from securefl.protocol.messages.rounds import ModelAnnounce
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.dealer.machine import DealerMachine
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext
from securefl.protocol.round.party.upload import HONEST, Seams
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import Checkpoint, Resumed, ServerContext
from securefl.protocol.round.server.resuming import read_draw_entry
from securefl.protocol.round.shared.chain import ChainLink, first_link
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import AnyReport, RunEffect
from securefl.protocol.secure_sum.removal import MemoryStore
from securefl.protocol.wire.inbox import Inbox
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.process.checkpoint import checkpoint_bytes, checkpoint_from
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario
from tests.simulation.rosters import identities_of, seeded_identities

ReportT = TypeVar("ReportT")
MessageT = TypeVar("MessageT")

RUN = RunId("test")
MAX_STEPS = 200_000
RESTART_SECONDS = 2.0
"""Between the end of a server and the start of the next one."""
PARTY_RESTART_SECONDS = 0.5
"""The same of a party: less than a step goes on without it."""

EffectSeam = Callable[[Event[AnyMessage], tuple[RunEffect, ...]], tuple[RunEffect, ...]]

Observer = Callable[["Node", object, Event[AnyMessage], object, tuple[RunEffect, ...]], None]
"""Called after each step: node, phase before, event, phase after, effects (before the seam)."""


@dataclass(frozen=True)
class Op:
    """One fault. ``who`` is the sender; ``kind`` of message; the ``nth`` (from 0) such message is hit.

    ``corrupt`` spoils the signature; ``spoil`` the first box of a correctly signed ``ShareBoxes``;
    ``restart`` kills the server before this is sent, ``rejoin`` its sender, a party; another one is started
    on what the process has written down.
    """

    act: Literal["drop", "duplicate", "delay", "crash", "corrupt", "spoil", "restart", "rejoin"]
    who: str
    kind: str
    nth: int = 0


class Sent(NamedTuple):
    """One ``Send`` effect that was performed (and perhaps lost on its way)."""

    sender: PartyId
    to: PartyId
    place: Place
    message: AnyMessage


@dataclass
class Node:
    """One process: machine, phase, and its ends of the wire."""

    name: PartyId
    machine: Machine[Any, Event[AnyMessage], RunEffect]
    """Of a party or of the server, perhaps inside a behaviour."""
    outbox: Outbox
    inbox: Inbox
    phase: object = None
    alive: bool = True
    wake: float | None = None
    seam: EffectSeam | None = None
    journal: list[tuple[int, str]] = field(default_factory=list)
    kept: bytes | None = None
    """The checkpoint that a server would go on from."""
    reports: list[AnyReport] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    outcome: Finished | Aborted | None = None


class Revival:
    """The start of another process where one was killed."""


@dataclass(order=True)
class _Due:
    at: float
    order: int
    node: PartyId = field(compare=False)
    event: Event[AnyMessage] | bytes | Revival = field(compare=False)


def of_work(work: int, before: F32, after: F32) -> F32:
    """What local work ``work`` ends in where work 0 ends in ``after``: it learns 1 + ``work`` as much."""
    return after + np.float32(work) * (after - before) if work else after


class World:
    """A federation of ``scenario.parties`` parties.

    ``train(party, round, params)`` stands for local training and returns new parameters;
    ``of_work`` makes one local work of a round differ from another; ``consult(round, params,
    reclusterings)`` stands for the server's own data, None where they give no gradient.
    """

    def __init__(
        self,
        scenario: Scenario,
        length: int = 8,
        seed: int = 1,
        train: Callable[[PartyId, int, F32], F32 | None] | None = None,
        samples: Callable[[PartyId], int] = lambda _party: 10,
        seams: dict[PartyId, Seams] | None = None,
        ops: Iterable[Op] = (),
        entropy: Entropy | None = None,
        initial: F32 | None = None,
        consult: Callable[[int, F32, tuple[int, ...]], tuple[F64, ...] | None] | None = None,
        *,
        choose: Callable[[PartyId, int], int | None] = lambda _party, _round: 0,
        given: Callable[[RunPlan, PartyId], Given] = lambda _plan, _party: NOTHING_GIVEN,
        kept: Callable[[PartyId], tuple[Atom, ...]] = lambda _party: (),
        parties: tuple[PartyId, ...] | None = None,
        software: Callable[[PartyId], Software | None] = lambda _name: None,
        frozen: bytes = b"",
        trains_last: bool = False,
    ) -> None:
        self.scenario = scenario
        names = parties or party_names(scenario.parties)
        dealt = scenario.secure_sum.validated is not None
        if entropy is None:
            root: Entropy = InsecureSeededEntropy(seed)
            identities, roster = seeded_identities(names, seed, dealt)
        else:
            root = entropy
            identities, roster = identities_of(names, root, dealt)
        self.identities = identities
        self.plan = RunPlan(RUN, scenario, check(scenario), roster, length, frozen)
        self.train = train or (lambda _party, _round, params: params + np.float32(1))
        self.consult = consult or (lambda _round, params, asked: (np.full(len(params), -1.0),) * len(asked))
        self.choose = choose
        self.measured: Callable[[PartyId, int, int], F64] = lambda _party, _round, size: np.ones(size)
        """Words of the metrics of a party in a round; by default one sample with a value of one for each."""
        self.dawdling: dict[PartyId, float] = {}
        """Seconds that a party takes to choose."""
        self.working: dict[PartyId, float] = {}
        """Seconds that a party takes to train."""
        self.ops = list(ops)
        self.counts: dict[tuple[str, str], int] = {}
        self.now = 0.0
        self.sent: list[Sent] = []
        self.models: dict[int, F32] = {}
        """The server's model of each round, as announced."""
        self.observers: list[Observer] = []
        self._root = root
        self.frames: list[bytes] = []
        self._queue: list[_Due] = []
        self._order = 0
        self.nodes: dict[PartyId, Node] = {}
        start = initial if initial is not None else np.zeros(self.plan.total_parameters, dtype=np.float32)
        self.starts = 1
        """Servers, and parties that were killed, that have been started."""
        self.server_store = MemoryStore()
        self._initial = start
        self._software = software

        def party(name: PartyId, **journal: Any) -> PartyMachine:
            return PartyMachine(
                PartyContext(
                    self.plan,
                    name,
                    samples(name),
                    root.child("party", name),
                    (seams or {}).get(name, HONEST),
                    released_sums=given(self.plan, name),
                    metric_atoms=kept(name),
                    identity=identities[name],
                    first=self.first_link(start),
                    prepared=self.plan.sums.prepare(),
                    software=software(name),
                    trains_last=trains_last,
                    **journal,
                )
            )

        self._party = party
        for name, machine in [(SERVER, self._server())] + [(name, party(name)) for name in names]:
            self.nodes[name] = Node(
                name,
                machine,
                Outbox(RUN, identities[name], root.child("outbox", name)),
                Inbox(RUN, name, roster, max_message=64 * 1024 * 1024),
            )

        if dealt:
            dealer = DealerMachine(RUN, scenario, roster, root.child("party", DEALER))
            self.nodes[DEALER] = Node(
                DEALER,
                dealer,
                Outbox(RUN, identities[DEALER], root.child("outbox", DEALER)),
                Inbox(RUN, DEALER, roster, max_message=64 * 1024 * 1024),
            )

    def _server(self, resumed: Resumed | None = None) -> ServerMachine:
        entropy = self._root.child("server")
        keys = self.identities[SERVER]
        return ServerMachine(
            ServerContext(
                self.plan, keys, self.server_store, self._initial, entropy, resumed, self._software(SERVER)
            )
        )

    def kill_server(self) -> None:
        """Kill the server, and start another one in a while."""
        self._crash(self.server)
        self._schedule(RESTART_SECONDS, SERVER, Revival())

    def restart_party(self, name: PartyId) -> None:
        """Kill a party, and start another process of it in a moment."""
        self._crash(self.nodes[name])
        self._schedule(PARTY_RESTART_SECONDS, name, Revival())

    def _revive(self, node: Node) -> None:
        """Start another process on what the last one has written down."""
        if node.name != SERVER:
            self._revive_party(node)
            return
        resumed = None
        if node.kept is not None:
            kept = checkpoint_from(node.kept, self.plan, "checkpoint")
            announced = max((round_ for round_, _ in node.journal), default=-1)
            drawn = [step for _, step in node.journal if step.startswith((ANNOUNCED, DREW))]
            last = drawn[-1] if drawn else ANNOUNCED
            claims = [(at, step.removeprefix(CLAIMED)) for at, step in node.journal if CLAIMED in step]
            claimed = (claims[-1][0], bytes.fromhex(claims[-1][1])) if claims else (-1, b"")
            seeds = [bytes.fromhex(step.removeprefix(ATOMS)) for _, step in node.journal if ATOMS in step]
            resumed = Resumed(kept, announced, read_draw_entry(last), seeds[-1] if seeds else b"", claimed)
        self.server_store = MemoryStore()
        self.starts += 1
        node.machine = self._server(resumed)
        node.outbox = Outbox(RUN, self.identities[SERVER], self._root.child("outbox", SERVER, self.starts))
        node.inbox = Inbox(RUN, SERVER, self.plan.roster, max_message=64 * 1024 * 1024)
        node.alive = True
        node.phase, effects = node.machine.start(self.now)
        self._perform(node, effects)

    def _revive_party(self, node: Node) -> None:
        leaders = [bytes.fromhex(step.removeprefix(LEADS)) for _, step in node.journal if LEADS in step]
        rounds = [at for at, step in node.journal if step.startswith((REVEALED, "submitted", "released"))]
        leader = leaders[-1] if leaders else b""
        self.starts += 1
        node.machine = self._party(node.name, last_spent_round=max(rounds, default=-1), leader=leader)
        node.outbox = Outbox(
            RUN, self.identities[node.name], self._root.child("outbox", node.name, self.starts)
        )
        node.inbox = Inbox(RUN, node.name, self.plan.roster, max_message=64 * 1024 * 1024, leader=leader)
        node.alive = True
        node.phase, effects = node.machine.start(self.now)
        self._perform(node, effects)

    def first_link(self, initial: F32) -> ChainLink | None:
        """What the chain of models begins with, where rounds are verified."""
        return first_link(self.plan, initial)

    @property
    def server(self) -> Node:
        """The server's node."""
        return self.nodes[SERVER]

    @property
    def parties(self) -> list[PartyId]:
        """The parties' names."""
        return [name for name in self.nodes if name not in {SERVER, DEALER}]

    def entropy_of(self, party: PartyId) -> Entropy:
        """The entropy that a party's machine was made with."""
        return self._root.child("party", party)

    def reports(self, kind: type[ReportT], node: PartyId = SERVER) -> list[ReportT]:
        """All reports of one kind at one node."""
        return [r for r in self.nodes[node].reports if isinstance(r, kind)]

    def messages(self, kind: type[MessageT], sender: PartyId | None = None) -> list[MessageT]:
        """All messages of one kind that were sent, by anybody or by one sender."""
        return [s.message for s in self.sent if isinstance(s.message, kind) and sender in {None, s.sender}]

    def run(self) -> World:
        """Run until nothing is due any more; a run that does not end is an error."""
        for node in self.nodes.values():
            node.phase, effects = node.machine.start(self.now)
            self._perform(node, effects)
        for _ in range(MAX_STEPS):
            if not self._advance():
                return self
        raise AssertionError("the run does not end: a hang")

    def _advance(self) -> bool:
        wakes = [(n.wake, n.name) for n in self.nodes.values() if n.alive and n.wake is not None]
        first_wake = min(wakes, default=None)
        if self._queue and (first_wake is None or self._queue[0].at <= first_wake[0]):
            due = heapq.heappop(self._queue)
            self.now = max(self.now, due.at)
            node = self.nodes[due.node]
            if isinstance(due.event, Revival):
                self._revive(node)
            elif node.alive:
                self._deliver(node, due.event)
            return True
        if first_wake is None:
            return False
        self.now = max(self.now, first_wake[0])
        node = self.nodes[first_wake[1]]
        node.wake = None
        self._step(node, DeadlinePassed(self.now))
        return True

    def _deliver(self, node: Node, item: Event[AnyMessage] | bytes) -> None:
        if not isinstance(item, bytes):
            self._step(node, item)
            return
        try:
            delivery = node.inbox.accept(item, "broker", self.now)
        except PeerError as error:
            node.rejects.append(Reject(error.culprit, error.reason))
            return
        if delivery is not None:
            self._step(
                node,
                delivery.event(self.now),
            )

    def _step(self, node: Node, event: Event[AnyMessage]) -> None:
        before = node.phase
        node.phase, effects = node.machine.step(before, event)
        for observer in self.observers:
            observer(node, before, event, node.phase, effects)
        if node.seam is not None:
            effects = node.seam(event, effects)
        self._perform(node, effects)

    def _perform(  # noqa: C901, PLR0912 - one branch per effect
        self, node: Node, effects: tuple[RunEffect, ...]
    ) -> None:
        for effect in effects:
            if not node.alive:
                return
            match effect:
                case Send():
                    self._send(node, effect)
                case WakeAt():
                    node.wake = effect.when
                case Enter():
                    pass
                case Journal():
                    node.journal.append((effect.round, effect.step))
                case Keep():
                    assert isinstance(effect.state, Checkpoint)
                    node.kept = checkpoint_bytes(self.plan, effect.state)
                case Lead():
                    node.outbox.lead(effect.session)
                case Train():
                    params = self.train(node.name, effect.round, effect.params)
                    update = None
                    if params is not None:
                        after = of_work(effect.work, effect.params, params)
                        with np.errstate(invalid="ignore"):
                            update = after.astype(np.float64) - effect.params
                        extra = self.plan.upload_length - self.plan.length
                        update = np.append(update, self.measured(node.name, effect.round, extra))
                    failure = "" if update is not None else "training failed"
                    seconds = self.working.get(node.name, 1.0)
                    done = Trained(self.now + seconds, effect.round, effect.work, update, failure)
                    self._schedule(seconds, node.name, done)
                case Choose():
                    group = self.choose(node.name, effect.round)
                    failure = "" if group is not None else "no finite loss"
                    self._schedule(
                        self.dawdling.get(node.name, 0.5),
                        node.name,
                        Chosen(self.now, effect.round, group, failure),
                    )
                case AwaitSent():
                    self._schedule(0.0, node.name, AllSent(self.now, effect.round, effect.draw))
                case Evaluate():
                    accuracy = float(effect.params[0]) if effect.params.size else 0.0
                    self._schedule(0.0, node.name, Evaluated(self.now, effect.round, accuracy, 0.0))
                case Consult():
                    gradients = self.consult(effect.round, effect.params, effect.reclusterings)
                    failure = "" if gradients is not None else "no gradient"
                    self._schedule(1.0, node.name, Consulted(self.now, effect.round, gradients, failure))
                case Reject():
                    node.rejects.append(effect)
                case Report():
                    node.reports.append(effect.item)
                case Finished() | Aborted():
                    node.outcome = effect
                    node.wake = None

    def _send(self, node: Node, effect: Send[AnyMessage]) -> None:
        self.sent.append(Sent(node.name, effect.to, effect.place, effect.message))
        if isinstance(effect.message, ModelAnnounce) and node.name == SERVER:
            self.models[effect.place.round] = np.frombuffer(effect.message.params, "<f4").astype(np.float32)
        kind = type(effect.message).__name__
        count = self.counts.get((node.name, kind), 0)
        self.counts[node.name, kind] = count + 1
        acts = [op.act for op in self.ops if (op.who, op.kind, op.nth) == (node.name, kind, count)]
        message = effect.message
        if "spoil" in acts and isinstance(message, ShareBoxes) and message.boxes:
            (holder, box), *rest = message.boxes
            spoilt = (holder, box[:-1] + bytes([box[-1] ^ 1]))
            message = msgspec.structs.replace(message, boxes=(spoilt, *rest))
        frames = list(node.outbox.frames(effect.to, effect.place, message))
        self._kill(node, acts)
        if not node.alive:
            return
        self.frames += frames
        if "drop" in acts:
            return
        if "corrupt" in acts:
            frames = [f[:-1] + bytes([f[-1] ^ 1]) for f in frames]
        delay = 3.0 if "delay" in acts else 0.001
        copies = 2 if "duplicate" in acts else 1
        targets = [n for n in self.nodes if n != SERVER] if effect.to == EVERYONE else [effect.to]
        for frame in frames * copies:
            for target in targets:
                self._schedule(delay, target, frame)

    def _kill(self, node: Node, acts: Collection[str]) -> None:
        if "restart" in acts:
            self.kill_server()
        if "rejoin" in acts:
            self.restart_party(node.name)
        if "crash" in acts:
            self._crash(node)

    def _crash(self, node: Node) -> None:
        node.alive = False
        node.wake = None
        if node.name != SERVER:
            self._schedule(0.01, SERVER, PresenceHint(self.now + 0.01, node.name))

    def _schedule(self, delay: float, to: PartyId, event: Event[AnyMessage] | bytes | Revival) -> None:
        self._order += 1
        if not isinstance(event, bytes | Revival):
            event = replace(event, now=self.now + delay)
        heapq.heappush(self._queue, _Due(self.now + delay, self._order, to, event))


def scenario(parties: int = 6, **overrides: str) -> Scenario:
    """A small scenario with quick rounds; ``overrides`` are TOML lines appended to a base, by section.

    Rounds under an active server are not verified unless ``secure_sum__verify`` says so: most tests are about
    what its certificates promise by themselves.
    """
    if overrides.get("server") == "active":
        overrides.setdefault("secure_sum__verify", '"off"')
    text = f"""
name = "test"
parties = {parties}
[clustering]
size = {overrides.pop("size", "3")}
reclusterings = {overrides.pop("reclusterings", "1")}
[secure_sum]
threshold = {overrides.pop("threshold", "2")}
min_survivors = {overrides.pop("min_survivors", "2")}
server = "{overrides.pop("server", "curious")}"
[encoding]
scale_bits = 16
[stop]
rounds = {overrides.pop("rounds", "1")}
"""
    sets = tuple(f"{key.replace('__', '.')}={value}" for key, value in overrides.items())
    return parse_scenario(text, sets)
