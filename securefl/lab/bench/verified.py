"""`securefl bench verified`: the price of verified rounds (ADR 0044).

Two clusters run in one process, through the wire's code, without network, training and evaluation. Runs with
and without verification alternate; the second round is measured, whose announcement carries attests. Seconds
are CPU seconds of one thread, medians over parties and repetitions.
"""

from __future__ import annotations

import gc
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, Literal

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from securefl.base import crypto
from securefl.base.entropy import Entropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.methods import feasibility
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round import (
    ClaimConfirmed,
    PartyContext,
    PartyMachine,
    RunEffect,
    RunPlan,
    ServerContext,
    ServerMachine,
    first_link,
)
from securefl.scenario import parse_scenario

VERIFIED_SIZES: Final = ((10, 100_000), (10, 1_000_000))
MEMBER_LIMIT: Final = 1.25
"""Target factor over a party's CPU time in an unverified round, without repetitions."""
OPENING_LIMIT: Final = 0.120
"""Target CPU seconds to receive and repeat an opening of 10 members and 1,000,000 words."""

Role = Literal["member", "opening", "step", "server"]
_MEASURED = 1
"""The round before it has no attests to relay."""
_CLUSTERS = 2
_RUN = RunId("bench")
_SCENARIO = """
name = "bench"
parties = {parties}
[clustering]
size = {members}
[secure_sum]
server = "active"
verify = "{verify}"
threshold = {threshold}
min_survivors = {threshold}
colluders = 1
colluders_per_cluster = 1
[weighting]
mode = "ignore"
[aggregation]
rule = {{ type = "median" }}
[stop]
rounds = 3
"""


@dataclass(frozen=True, slots=True)
class VerifiedCost:
    """Costs of one size; CPU seconds per round and party, medians."""

    members: int
    """Size of each of two clusters."""
    length: int
    member_before: float
    """Party in an unverified round, without training."""
    member: float
    """Party in a verified round, without training and repetitions."""
    opening: float
    """To repeat one opening, from the decoded proof to the signed attest."""
    opening_received: float
    """To receive its frames."""
    step: float
    """To repeat the step, like ``opening``."""
    step_received: float
    server_before: float
    server: float
    """Server with all proofs, sealed and signed."""
    opening_bytes: int
    step_bytes: int

    @property
    def ratio(self) -> float:
        """Ratio of a party's seconds with and without verification."""
        return self.member / self.member_before


@dataclass(slots=True)
class _Node:
    machine: kernel.Machine[Any, kernel.Event[messages.AnyMessage], RunEffect]
    outbox: wire.Outbox
    inbox: wire.Inbox
    phase: object = None
    spent: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Seconds of each handled event of the measured round, by role."""


@dataclass(frozen=True, slots=True)
class _Item:
    """Frames of one message, or an internal event."""

    to: PartyId
    round: int
    role: Role
    frames: tuple[bytes, ...] = ()
    event: kernel.Event[messages.AnyMessage] | None = None


def run_verified(
    sizes: Iterable[tuple[int, int]] = VERIFIED_SIZES, repetitions: int = 3, entropy: Entropy | None = None
) -> tuple[VerifiedCost, ...]:
    """Measure each size.

    Raises:
        UsageError: no repetition, or a round was not confirmed, which is a bug.
    """
    if repetitions < 1:
        raise UsageError(f"repetitions must be at least 1, found {repetitions}")
    source, costs = entropy or OsEntropy(), []
    for members, length in sizes:
        for verify in ("off", "committee"):
            _Rounds(members, min(length, 1_000), verify, source).run()  # warm-up of imports and caches
        pairs = [
            tuple(_measure(members, length, how, source) for how in ("off", "committee"))
            for _ in range(repetitions)
        ]
        costs.append(_cost(members, length, pairs))
    return tuple(costs)


def _measure(members: int, length: int, verify: str, entropy: Entropy) -> _Rounds:
    gc.collect()
    run = _Rounds(members, length, verify, entropy)
    run.run()
    return run


def _cost(members: int, length: int, pairs: Sequence[tuple[_Rounds, ...]]) -> VerifiedCost:
    before, after = ([pair[which] for pair in pairs] for which in (0, 1))

    def events(role: str) -> float:
        return median(one for run in after for node in run.parties for one in node.spent[role])

    def totals(runs: Sequence[_Rounds], name: str) -> float:
        return median(math.fsum(node.spent[name]) for run in runs for node in run.of(name))

    return VerifiedCost(
        members,
        length,
        totals(before, "member"),
        totals(after, "member"),
        events("opening"),
        events("opening received"),
        events("step"),
        events("step received"),
        totals(before, "server"),
        totals(after, "server"),
        after[0].sizes["opening"],
        after[0].sizes["step"],
    )


class _Rounds:
    """Three rounds of two clusters; the second is measured."""

    def __init__(self, members: int, length: int, verify: str, entropy: Entropy) -> None:
        parties, threshold = _CLUSTERS * members, max((members + 1) // 2 + 1, 3)
        text = _SCENARIO.format(parties=parties, members=members, threshold=threshold, verify=verify)
        scenario = parse_scenario(text)
        names = [PartyId(f"p{i:04d}") for i in range(parties)]
        keys, roster = crypto.make_identities(names, entropy)
        plan = RunPlan(_RUN, scenario, feasibility.check(scenario), roster, length)
        start = np.zeros(length, dtype=np.float32)
        words = np.random.default_rng(1).standard_normal(length)
        server = ServerContext(plan, keys[SERVER], secure_sum.MemoryStore(), start, entropy.child("server"))
        machines: dict[PartyId, kernel.Machine[Any, kernel.Event[messages.AnyMessage], RunEffect]] = {
            SERVER: ServerMachine(server)
        }
        for name in names:
            own = entropy.child("party", name)
            context = PartyContext(plan, name, 10, own, identity=keys[name], first=first_link(plan, start))
            machines[name] = PartyMachine(context)
        largest = 16 * (members + 4) * length + 2**20
        self.nodes = {
            name: _Node(
                machine,
                wire.Outbox(_RUN, keys[name], entropy.child("outbox", name)),
                wire.Inbox(_RUN, name, roster, max_message=largest),
            )
            for name, machine in machines.items()
        }
        self.sizes: dict[str, int] = {}
        self._update = words
        self._verified = scenario.secure_sum.verified
        self._waiting: list[_Item] = []
        self._confirmed: set[int] = set()
        self._finished = False

    @property
    def parties(self) -> list[_Node]:
        """All nodes except the server."""
        return [node for name, node in self.nodes.items() if name != SERVER]

    def of(self, role: str) -> list[_Node]:
        """Return the server, or all parties for another role."""
        return [self.nodes[SERVER]] if role == "server" else self.parties

    def run(self) -> None:
        """Run to the end."""
        for name, node in self.nodes.items():
            node.phase, effects = node.machine.start(0.0)
            self._perform(name, "server" if name == SERVER else "member", effects)
        while self._waiting and not self._finished:
            waiting, self._waiting = self._waiting, []
            for item in waiting:
                self._take(item)
        if not self._finished or (self._verified and _MEASURED not in self._confirmed):
            raise UsageError("the benchmark ended before its measured round was confirmed: a bug in securefl")

    def _take(self, item: _Item) -> None:
        node, event = self.nodes[item.to], item.event
        start = time.process_time()
        if event is None:
            event = _receive(node, item.frames)
        between = time.process_time()
        node.phase, effects = node.machine.step(node.phase, event)
        seconds = time.process_time() - between
        seconds += self._perform(item.to, item.role, effects)
        if item.round != _MEASURED:
            return
        if item.role in {"opening", "step"}:
            node.spent[item.role].append(seconds)
            node.spent[f"{item.role} received"].append(between - start)
        else:
            node.spent[item.role].append(seconds + between - start)

    def _perform(self, name: PartyId, role: Role, effects: tuple[RunEffect, ...]) -> float:
        """Carry out effects; return the seconds of encoding and signing."""
        seconds = 0.0
        for effect in effects:
            match effect:
                case kernel.Send():
                    seconds += self._send(name, effect)
                case kernel.Lead():
                    self.nodes[name].outbox.lead(effect.session)
                case kernel.Train():
                    update = self._update.copy()
                    self._later(
                        name, effect.round, role, kernel.Trained(0.0, effect.round, effect.work, update)
                    )
                case kernel.Evaluate():
                    self._later(name, effect.round, role, kernel.Evaluated(0.0, effect.round, 0.5, 1.0))
                case kernel.AwaitSent():
                    self._later(name, effect.round, role, kernel.AllSent(0.0, effect.round, effect.draw))
                case kernel.Report(item=ClaimConfirmed() as confirmed):
                    self._confirmed.add(confirmed.round)
                case kernel.Aborted():
                    raise UsageError(f"the run that the benchmark measures was aborted: {effect.reason}")
                case kernel.Finished():
                    self._finished |= name == SERVER
                case _:
                    pass
        return seconds

    def _later(
        self, name: PartyId, round_: int, role: Role, event: kernel.Event[messages.AnyMessage]
    ) -> None:
        self._waiting.append(_Item(name, round_, role, event=event))

    def _send(self, name: PartyId, effect: kernel.Send[messages.AnyMessage]) -> float:
        start = time.process_time()
        frames = tuple(self.nodes[name].outbox.frames(effect.to, effect.place, effect.message))
        seconds = time.process_time() - start
        role: Role = "server" if effect.to == SERVER else "member"
        for kind, other in ((messages.OpeningProof, "opening"), (messages.StepProof, "step")):
            if isinstance(effect.message, kind):
                role = "opening" if other == "opening" else "step"
                self.sizes[other] = sum(map(len, frames))
        targets = [one for one in self.nodes if one != SERVER] if effect.to == EVERYONE else [effect.to]
        self._waiting += [_Item(target, effect.place.round, role, frames) for target in targets]
        return seconds


def _receive(node: _Node, frames: tuple[bytes, ...]) -> kernel.Event[messages.AnyMessage]:
    delivery = None
    for frame in frames:
        delivery = node.inbox.accept(frame, "bench", 0.0)
    if delivery is None:
        raise UsageError(
            "the benchmark received a part of a message instead of a whole one: a bug in securefl"
        )
    return delivery.event(0.0)


def print_verified(console: Console, costs: Iterable[VerifiedCost]) -> None:
    """Print a line for each size."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title="verified rounds, two clusters: CPU ms of a round, medians",
        caption="member, server: without verification, with it. opening, step: to repeat + to take the"
        " frames. MB: of a proof of an opening, of a step",
    )
    table.caption_justify = "left"
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    for column in ("m", "d", "member", "ratio", "opening", "step", "server", "MB"):
        table.add_column(column, justify="right", no_wrap=True)
    for cost in costs:
        style = "green" if cost.ratio <= MEMBER_LIMIT else "yellow"
        openings = cost.opening + cost.opening_received
        allowed = OPENING_LIMIT * cost.members * cost.length / 1e7
        table.add_row(
            str(cost.members),
            f"{cost.length / 1e6:g}e6",
            f"{_ms(cost.member_before)}, {_ms(cost.member)}",
            f"[{style}]{cost.ratio:.2f}[/]",
            f"[{'green' if openings <= allowed else 'yellow'}]{_ms(cost.opening)} +"
            f" {_ms(cost.opening_received)}[/]",
            f"{_ms(cost.step)} + {_ms(cost.step_received)}",
            f"{_ms(cost.server_before)}, {_ms(cost.server)}",
            f"{cost.opening_bytes / 1e6:.1f}, {cost.step_bytes / 1e6:.1f}",
        )
    console.print(table)


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:,.1f}"
