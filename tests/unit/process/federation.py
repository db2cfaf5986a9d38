"""Whole federations of shells in one event loop, over the in-memory hub, with training replaced by +1."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.base.crypto.identity import Identity
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.feasibility.limits import check
from securefl.protocol.kernel.effects import Aborted, Finished, Send, Train
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import Goodbye
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import ServerContext
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import RoundDone
from securefl.protocol.secure_sum.removal import MemoryStore
from securefl.protocol.wire import topics
from securefl.protocol.wire.inbox import Delivery, Inbox
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.misbehaviour.seam import EffectSeam
from securefl.runtime.process.ports import DurableJournal, LocalWork
from securefl.runtime.process.publisher import GONE
from securefl.runtime.process.shell import Shell
from securefl.runtime.transport.base import Transport
from securefl.scenario.scenario import Scenario
from securefl.training.sgd.outcomes import Evaluation
from tests.simulation.rosters import seeded_identities
from tests.unit.transport.faults import Fault, FaultyTransport
from tests.unit.transport.memory import MemoryHub, MemoryTransport

RUN = RunId("shells")
LENGTH = 8
SECONDS = 60
"""Only a bound for a hanging test; nothing is asserted about time."""
HOURS = 4 * 3600
"""As much for a federation, whose loop skips waiting: longer than a party's patience with a server."""


class Recorder:
    """A witness that remembers."""

    def __init__(self) -> None:
        self.facts: list[object] = []
        self.refusals: list[tuple[str, str]] = []
        self.evidence: list[bytes] = []
        self.inward: list[AnyMessage] = []
        self.idle: list[bool] = []
        self.outward: list[Send[AnyMessage]] = []
        self.frames = 0
        self.waited: list[tuple[str, ...]] = []
        self.remarks: list[str] = []
        self.gone: list[str] = []

    def report(self, now: float, item: object) -> None:
        self.facts.append(item)

    def record_refusal(self, now: float, culprit: str, reason: str, evidence: bytes = b"") -> None:
        self.refusals.append((culprit, reason))
        self.evidence.append(evidence)

    def record_received(self, now: float, delivery: Delivery, *, idle: bool = False) -> None:
        self.inward.append(delivery.message)
        self.idle.append(idle)

    def record_sent(self, now: float, send: Send[AnyMessage]) -> None:
        self.outward.append(send)

    def record_gone(self, party: str) -> None:
        self.gone.append(party)

    def waits(self, whom: Collection[str], seconds: float, asked: int = 0) -> None:
        self.waited.append(tuple(whom))

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def traffic(self, peer: str, direction: Literal["in", "out"], size: int) -> None:
        self.frames += 1

    def kinds(self) -> list[str]:
        """Names of the messages that went out, in order."""
        return [type(send.message).__name__ for send in self.outward]


class Notes:
    """A journal in memory."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, str]] = []

    def note(self, round_: int, step: str) -> None:
        self.entries.append((round_, step))


def add_one(_round: int, _work: int, params: F32) -> F32:
    return params + np.float32(1)


def updated(train: Callable[[int, int, F32], F32], asked: Train) -> F64:
    """What a role's training, which returns parameters, adds to them."""
    after = train(asked.round, asked.work, asked.params)
    update: F64 = after.astype(np.float64) - asked.params
    return update


@dataclass(kw_only=True)
class Role:
    """How one process differs from an ordinary one."""

    train: Callable[[int, int, F32], F32] = add_one
    faults: tuple[Fault, ...] = ()
    seam: EffectSeam | None = None
    journal: DurableJournal = field(default_factory=Notes)
    identity: Identity | None = None
    scenario: Scenario | None = None


@dataclass
class Member:
    """One process of the federation."""

    shell: Shell[Any]
    transport: Transport
    witness: Recorder


class Federation:
    """Make it inside a running event loop."""

    def __init__(self, scenario: Scenario, roles: Mapping[str, Role] | None = None) -> None:
        self._roles = roles or {}
        self._root = InsecureSeededEntropy(1)
        names = party_names(scenario.parties)
        self.identities, self.roster = seeded_identities(names, 1)
        self.scenario = scenario
        self.hub = MemoryHub()
        self.tap: MemoryTransport = self.hub.tap()
        self.members = {name: self.member(name) for name in (*names, SERVER)}

    def member(self, name: PartyId, restart: str = "") -> Member:
        """One process of this name. A second one takes the first one's place at the broker."""
        role = self._roles.get(name, Role())
        identity = role.identity or self.identities[name]
        scenario = role.scenario or self.scenario
        plan = RunPlan(RUN, scenario, check(scenario), self.roster, LENGTH)
        entropy = self._root.child("process", name + restart)
        will = (topics.status(RUN, name), GONE)
        inner = self.hub.connect(f"{RUN}-{name}", topics.subscriptions(RUN, name), will)
        transport = FaultyTransport(inner, role.faults)
        witness = Recorder()
        machine: Any
        if name == SERVER:
            start = np.zeros(LENGTH, dtype=np.float32)
            machine = ServerMachine(ServerContext(plan, identity, MemoryStore(), start, entropy))
            work = LocalWork(evaluate=lambda params: Evaluation(float(params[0]) / 1000, 0.0))
        else:
            machine = PartyMachine(PartyContext(plan, name, 10, entropy))
            work = LocalWork(train=lambda asked: updated(role.train, asked))
        shell: Shell[Any] = Shell(
            run=RUN,
            me=name,
            machine=machine,
            transport=transport,
            inbox=Inbox(RUN, name, self.roster, max_message=1_000_000),
            outbox=Outbox(RUN, identity, entropy.child("outbox")),
            work=work,
            witness=witness,
            journal=role.journal,
            seam=role.seam,
            farewell=goodbye if name == SERVER else lambda _reason: (),
            awaited=machine.awaited_peers,
            agreed=machine.agreed_seconds if name == SERVER else lambda _phase: 0.0,
        )
        return Member(shell, transport, witness)

    async def run(self, *also: Member) -> dict[str, Finished | Aborted | BaseException]:
        """Run all to their ends; the processes given besides are ``"+0"``, ``"+1"``, ..."""
        all_of_them: dict[str, Member] = {str(name): member for name, member in self.members.items()}
        all_of_them |= {f"+{i}": member for i, member in enumerate(also)}
        async with asyncio.timeout(HOURS):
            ended = await asyncio.gather(*(_live(m) for m in all_of_them.values()), return_exceptions=True)
        return dict(zip(all_of_them, ended, strict=True))

    def witness(self, name: str = SERVER) -> Recorder:
        return self.members[PartyId(name)].witness

    def rounds(self) -> list[RoundDone]:
        """What the server reported of its rounds."""
        return [fact for fact in self.witness().facts if isinstance(fact, RoundDone)]


def goodbye(reason: str) -> tuple[Send[AnyMessage], ...]:
    return (Send(EVERYONE, Place(-1), Goodbye(reason=reason, aborted=True)),)


async def _live(member: Member) -> Finished | Aborted:
    """As in a process: whatever happens, the connection is closed."""
    try:
        return await member.shell.run()
    finally:
        await member.transport.close()


def names(ended: Mapping[str, object], kind: type | tuple[type, ...]) -> set[str]:
    """Who ended in this way."""
    return {name for name, outcome in ended.items() if isinstance(outcome, kind)}


def everybody(scenario: Scenario, but: Iterable[str] = ()) -> set[str]:
    all_of_them: set[str] = {*party_names(scenario.parties), SERVER}
    return all_of_them - set(but)
