"""`securefl bench crypten`: the same cluster sum by masks and by CrypTen, through the machines of a round.

All run in one process, through the wire's code, without network and training. Only steps and frames of the
sum count, not the round around it (model, hellos, nonces, evaluation).
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from securefl.base import crypto
from securefl.base.entropy import Entropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import DEALER, EVERYONE, SERVER, PartyId, RunId
from securefl.methods import feasibility
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round import (
    DealerMachine,
    PartyContext,
    PartyMachine,
    RunEffect,
    RunPlan,
    ServerContext,
    ServerMachine,
    SumOpened,
)
from securefl.scenario import parse_scenario

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "masking": (),
    "CrypTen": ("secure_sum.kind=crypten", "training.device=cpu"),
    "CrypTen validated": (
        "secure_sum.kind=crypten",
        "training.device=cpu",
        "secure_sum.validate={norm = 2.0}",
        "encoding.clip=1.8",
        "weighting.mode=ignore",
    ),
}
SIZES: Final = ((3, 25_450), (5, 25_450), (3, 1_000_000))

_RUN = RunId("bench")
_AROUND: Final = frozenset(
    {"Here", "RollCall", "JoinRun", "Software", "Goodbye", "Invite", "ModelAnnounce"}
    | {"Hello", "Announce", "Reveal", "Reveals"}
)
_SCENARIO = """
name = "bench"
parties = {members}
[clustering]
size = {members}
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 1
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of one kind at one size; medians over repetitions and members."""

    kind: str
    members: int
    length: int
    rounds: int
    """Times that a message of the sum waits for another one."""
    sent: float
    """Bytes of a member's frames."""
    received: float
    member_seconds: float
    server_seconds: float
    wall_seconds: float
    """From the first key to the opened sum, members and server one after another."""


@dataclass(slots=True)
class _Node:
    machine: kernel.Machine[Any, kernel.Event[messages.AnyMessage], RunEffect]
    outbox: wire.Outbox
    inbox: wire.Inbox
    phase: object = None
    seconds: float = 0.0
    sent: int = 0
    received: int = 0


@dataclass(slots=True)
class _Tally:
    waves: int = 0
    began: float | None = None
    ended: float = 0.0
    opened: list[SumOpened] = field(default_factory=list)


def run_kinds(
    sizes: Iterable[tuple[int, int]] = SIZES,
    repetitions: int = 3,
    kinds: Sequence[str] = tuple(KINDS),
    entropy: Entropy | None = None,
) -> tuple[Cost, ...]:
    """Measure each kind at each size.

    Raises:
        ConfigError: CrypTen is missing.
        UsageError: a round did not open its sum, which is a bug.
    """
    costs = []
    for members, length in sizes:
        for kind in kinds:
            _Round(
                kind, members, min(length, 1000), entropy or OsEntropy()
            ).run()  # warm-up of imports and caches
            runs = [_Round(kind, members, length, entropy or OsEntropy()).run() for _ in range(repetitions)]
            costs.append(_middle(runs))
    return tuple(costs)


def _middle(runs: Sequence[Cost]) -> Cost:
    first = runs[0]
    return Cost(
        first.kind,
        first.members,
        first.length,
        max(run.rounds for run in runs),
        *(
            median(getattr(run, name) for run in runs)
            for name in ("sent", "received", "member_seconds", "server_seconds", "wall_seconds")
        ),
    )


class _Round:
    def __init__(self, kind: str, members: int, length: int, entropy: Entropy) -> None:
        scenario = parse_scenario(_SCENARIO.format(members=members), KINDS[kind])
        limits = feasibility.check(scenario)
        names = [PartyId(f"p{i:02d}") for i in range(members)]
        dealt = secure_sum.sums_of(scenario).dealer is not None
        keys, roster = crypto.make_identities(names, entropy, with_dealer=dealt)
        plan = RunPlan(_RUN, scenario, limits, roster, length)
        sums = plan.sums.prepare()
        words = np.random.default_rng(1).standard_normal((members, length))
        self._kind, self._length = kind, length
        self._updates = dict(zip(names, words, strict=True))
        initial = np.zeros(length, dtype=np.float32)
        store = secure_sum.MemoryStore()
        server = ServerMachine(ServerContext(plan, keys[SERVER], store, initial, entropy.child("server")))
        machines: dict[PartyId, kernel.Machine[Any, kernel.Event[messages.AnyMessage], RunEffect]] = {
            SERVER: server
        }
        for name in names:
            own = entropy.child("party", name)
            machines[name] = PartyMachine(PartyContext(plan, name, 10, own, prepared=sums))
        if dealt:
            machines[DEALER] = DealerMachine(_RUN, scenario, roster, entropy.child("party", DEALER))
        largest = 64 * length + 2**20
        self._nodes = {
            name: _Node(
                machine,
                wire.Outbox(_RUN, keys[name], entropy.child("outbox", name)),
                wire.Inbox(_RUN, name, roster, max_message=largest),
            )
            for name, machine in machines.items()
        }
        self._tally = _Tally()
        self._wave: list[tuple[PartyId, list[bytes] | kernel.Event[messages.AnyMessage], bool]] = []

    def run(self) -> Cost:
        """Run to the opened sum."""
        for name, node in self._nodes.items():
            node.phase, effects = node.machine.start(0.0)
            self._perform(name, effects)
        while self._wave and not self._tally.opened:
            wave, self._wave = self._wave, []
            self._tally.waves += any(counts and isinstance(item, list) for _, item, counts in wave)
            for name, item, counts in wave:
                self._take(name, item, counts)
        tally, server = self._tally, self._nodes.pop(SERVER)
        if len(tally.opened) != 1 or tally.began is None:
            raise UsageError(
                f"the benchmark of {self._kind} must open 1 sum, found {len(tally.opened)}: a bug in securefl"
            )
        self._nodes.pop(DEALER, None)
        members = list(self._nodes.values())
        return Cost(
            self._kind,
            len(members),
            self._length,
            tally.waves,
            median(node.sent for node in members),
            median(node.received for node in members),
            median(node.seconds for node in members),
            server.seconds,
            tally.ended - tally.began,
        )

    def _take(
        self, name: PartyId, item: list[bytes] | kernel.Event[messages.AnyMessage], counts: bool
    ) -> None:
        node = self._nodes[name]
        start = time.process_time()
        event = self._receive(node, item, counts) if isinstance(item, list) else item
        node.phase, effects = node.machine.step(node.phase, event)
        node.seconds += (time.process_time() - start) * counts
        self._perform(name, effects)

    def _receive(self, node: _Node, frames: list[bytes], counts: bool) -> kernel.Event[messages.AnyMessage]:
        delivery = None
        for frame in frames:
            delivery = node.inbox.accept(frame, "bench", 0.0)
            node.received += len(frame) * counts
        if delivery is None:
            raise UsageError(
                "the benchmark received a part of a message instead of a whole one: a bug in securefl"
            )
        return delivery.event(0.0)

    def _perform(self, name: PartyId, effects: tuple[RunEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case kernel.Send():
                    self._send(name, effect)
                case kernel.Train():
                    update = self._updates[name].copy()
                    self._wave.append((name, kernel.Trained(0.0, effect.round, effect.work, update), True))
                case kernel.Lead():
                    self._nodes[name].outbox.lead(effect.session)
                case kernel.Evaluate():
                    self._wave.append((name, kernel.Evaluated(0.0, effect.round, 0.5, 1.0), False))
                case kernel.Report(item=SumOpened() as opened):
                    self._tally.opened.append(opened)
                    self._tally.ended = time.perf_counter()
                case kernel.Aborted():
                    raise UsageError(f"the run that the benchmark measures was aborted: {effect.reason}")
                case _:
                    pass

    def _send(self, name: PartyId, effect: kernel.Send[messages.AnyMessage]) -> None:
        node, counts = self._nodes[name], type(effect.message).__name__ not in _AROUND
        if counts and self._tally.began is None:
            self._tally.began = time.perf_counter()
        start = time.process_time()
        frames = list(node.outbox.frames(effect.to, effect.place, effect.message))
        node.seconds += (time.process_time() - start) * counts
        node.sent += sum(map(len, frames)) * counts
        targets = (
            [other for other in self._nodes if other != SERVER] if effect.to == EVERYONE else [effect.to]
        )
        self._wave += [(target, frames, counts) for target in targets]


def print_kinds(console: Console, costs: Iterable[Cost]) -> None:
    """Print a line for each kind and size."""
    table = Table(box=box.SIMPLE_HEAD, title="one cluster sum by kind: CPU and wall ms, medians")
    for column in ("m", "d", "kind", "rounds", "kB up", "kB down", "member", "server", "wall"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for cost in costs:
        table.add_row(
            str(cost.members),
            f"{cost.length:,}",
            cost.kind,
            str(cost.rounds),
            f"{cost.sent / 1000:,.1f}",
            f"{cost.received / 1000:,.1f}",
            f"{1000 * cost.member_seconds:.1f}",
            f"{1000 * cost.server_seconds:.1f}",
            f"{1000 * cost.wall_seconds:.0f}",
        )
    console.print(table)
