"""A server that repeats one model, and shows each certificate to t members of each cluster only.

Each account then holds a part of the rounds, and all parties are counted in all of them, unless an account
counts rounds that took its owner's input as well.

Run: ``python -m tests.cases.unreleased MEMBERS THRESHOLD F Q VERIFY IN_TURN [ROUNDS [BATCH]]``. ``IN_TURN`` 0
shows each certificate to all. ``LIARS`` of the environment names parties that collude: they keep no account,
are shown each certificate, and deny their releases.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Aborted, Finished, Send
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages import AnyMessage, Certificate, OpeningProof, StepProof
from securefl.protocol.round import walk
from securefl.protocol.round.party import release
from securefl.protocol.round.server import opening
from securefl.protocol.round.shared.reports import RunEffect, SatOut
from tests.seen import patch_seen
from tests.simulation.test_repeated_model import Repeater, errors
from tests.simulation.world import Node, World


@dataclass(frozen=True)
class Setting:
    """Arguments of the case."""

    members: int
    threshold: int
    per_cluster: int = 0
    colluders: int = 0
    verify: str = "off"
    in_turn: bool = True
    rounds: int = 12
    batch: int = 32
    liars: frozenset[PartyId] = frozenset()
    clusters: int | None = None
    """Clusters of a round that are opened, the first ones; None for all."""
    whole: bool = False
    """Show the certificate to all members of these clusters."""


@dataclass(frozen=True)
class Result:
    """What the server has learned."""

    world: World
    rounds: tuple[int, ...]
    """Rounds of which it opened a sum."""
    error: float
    """Relative error of its estimate of a mean update, of the party that it knows best."""
    left: tuple[PartyId, ...]
    """Parties that left the run."""


class InTurn(Repeater):
    """The repeating server, which lets few members know of each opening."""

    def __init__(self, setting: Setting) -> None:
        f = setting.per_cluster
        super().__init__(
            str(setting.batch),
            server="active",
            size=str(setting.members),
            min_survivors=str(max(setting.threshold, f + 2)),
            threshold=str(setting.threshold),
            rounds=str(setting.rounds),
            secure_sum__colluders=str(setting.colluders),
            secure_sum__colluders_per_cluster=str(f),
            secure_sum__verify=f'"{setting.verify}"',
        )
        self.setting = setting
        self.served = Counter[PartyId]()
        self.drawn: dict[int, tuple[tuple[tuple[PartyId, ...], ...], ...]] = {}
        self.observers.append(self._watch)
        self.server.seam = self._show

    def _watch(self, node: Node, _was: object, _event: object, after: Any, _effects: object) -> None:
        assignment = getattr(after, "assignment", None)
        if node.name == SERVER:
            return
        if assignment is not None:
            self.drawn.setdefault(after.round, assignment.clusters)
        if node.name in self.setting.liars and hasattr(after, "past"):
            drawn = ((self.plan.run, round_) for round_ in self.drawn)
            denied = tuple(dict.fromkeys((*after.past.rounds_without_release, *drawn)))
            past = replace(after.past, rounds_without_release=denied, unresolved=())
            node.phase = replace(after, past=past)

    def _show(self, _event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        shown: list[RunEffect] = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, OpeningProof | StepProof):
                continue
            if self.setting.in_turn and isinstance(effect, Send) and isinstance(effect.message, Certificate):
                members = self._chosen(self.drawn[effect.place.round][0])
                shown += [Send(member, effect.place, effect.message) for member in members]
            else:
                shown.append(effect)
        return tuple(shown)

    def _chosen(self, clusters: tuple[tuple[PartyId, ...], ...]) -> list[PartyId]:
        chosen = list[PartyId]()
        for row in clusters[: self.setting.clusters]:
            order = sorted(row, key=lambda p: (p not in self.setting.liars, self.served[p], p))
            chosen += order if self.setting.whole else order[: self.setting.threshold]
        self.served.update(chosen)
        return chosen

    def run(self) -> World:
        honest = walk.decide_end

        def again(plan: Any, standing: Any, done: Any) -> Any:
            after, outcome = honest(plan, replace(standing, rounds_without_update=0, updates=1), done)
            return replace(after, params=self.start), outcome

        judge = release._reason_from_repeats

        def unless_liar(ctx: Any, *others: Any) -> str | None:
            return None if ctx.me in self.setting.liars else judge(ctx, *others)

        with (
            patch_seen(opening, "decide_end", again),
            patch.object(release, "_reason_from_repeats", unless_liar),
        ):
            return World.run(self)


def played(setting: Setting) -> Result:
    """Play the case."""
    world = InTurn(setting)
    world.run()
    opened = world.opened()
    rounds = tuple(sorted({round_ for round_, *_ in opened}))
    updates = {key: update for key, update in world.updates.items() if key[1] in rounds}
    known = errors(opened, updates) if opened else {}
    honest = [error for party, error in known.items() if party not in setting.liars]
    outcomes = {party: world.nodes[party].outcome for party in world.parties}
    left = tuple(party for party, outcome in outcomes.items() if isinstance(outcome, Aborted))
    return Result(world, rounds, min(honest, default=1.0), left)


def main() -> None:
    """Play the case with the arguments of the command line, and print what the server has learned."""
    m, t, f, q = map(int, sys.argv[1:5])
    rounds = int(sys.argv[7]) if len(sys.argv) > 7 else 12
    batch = int(sys.argv[8]) if len(sys.argv) > 8 else 32
    liars = frozenset(PartyId(name) for name in os.environ.get("LIARS", "").split(",") if name)
    setting = Setting(m, t, f, q, sys.argv[5], sys.argv[6] == "1", rounds, batch, liars)
    result = played(setting)
    world = result.world
    reasons = Counter(out.reason[:60] for party in world.parties for out in world.reports(SatOut, party))
    matrix = np.array([[float(p in row) for p in world.parties] for _, row, _ in InTurn.opened(world)])  # type: ignore[arg-type]
    rank = np.linalg.matrix_rank(matrix) if len(matrix) else 0
    print(f"rounds with an opened sum: {list(result.rounds)}, rank {rank} of {len(world.parties)}")
    print(f"least error of a mean update: {result.error:.3f}; parties that left: {len(result.left)}")
    print(f"rounds skipped by parties: {reasons.most_common(2)}")
    assert isinstance(world.server.outcome, Finished | Aborted)
    print(f"end: {world.server.outcome.reason}")


if __name__ == "__main__":
    main()
