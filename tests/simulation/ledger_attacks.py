"""Attacks on single updates that the ledger and the checks beside it stop, and what makes each of them work.

The server asks for everything that it could get. Where the parties forgo what protects them, linear algebra
on the opened sums gives the victim's update exactly, in the steps of its encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import msgspec

from securefl.base.ids import EVERYONE, SERVER, PartyId
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.leakage.admission import Admission
from securefl.protocol.kernel.effects import Send
from securefl.protocol.kernel.events import Place, Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.masking import BoxList, Complaint
from securefl.protocol.messages.rounds import Certificate, Endorse, Freeze
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round.party import machine as party
from securefl.protocol.round.party import release as party_release
from securefl.protocol.round.party.phases import Idle, PartyContext, PartyPhase, Working
from securefl.protocol.round.server import freeze as server_freeze
from securefl.protocol.round.shared import draw
from securefl.protocol.round.shared.leakage import LedgerQuestion
from securefl.protocol.round.shared.reports import RunEffect
from securefl.scenario.scenario import Scenario
from tests.seen import patch_seen
from tests.simulation.world import Op, World, scenario

P = [PartyId(f"p{i:02d}") for i in range(10)]
V = P[0]
"""The victim."""
Clusters = Sequence[Sequence[Sequence[int]]]
Effects = tuple[RunEffect, ...]

ALONE: Clusters = [[[0, 1, 2], [3, 4]], [[1, 2], [0, 3, 4]]]
"""p00 is what the first sum has and the third has not; nobody else is determined."""
PAIRS: Clusters = [[[0, 1], [2, 3, 4]], [[1, 2], [0, 3, 4]], [[0, 2], [1, 3, 4]]]
"""x0 + x1, x1 + x2 and x0 + x2."""
BY_DROPOUT: Clusters = [[[0, 1, 2], [3, 4, 5]], [[1, 2, 5], [0, 3, 4]]]
"""Harmless, unless p05 drops out."""
BY_COLLUSION: Clusters = [[[0, 1, 2, 3], [4, 5, 6, 7]], [[1, 2, 3, 4], [0, 5, 6, 7]]]
"""The difference of two sums is x0 - x4."""
HALVES: Clusters = [[[0, 1, 2], [3, 4, 5]]]
FOURS: Clusters = [[[0, 1, 2, 3], [4, 5, 6, 7]]]
TWICE_FIVE: Clusters = [[[0, 1, 2, 7, 8], [3, 4, 5, 6, 9]], [[0, 3, 5, 7, 9], [1, 2, 4, 6, 8]]]

REPORT: Mapping[str, Any] = {"leakage__mode": "report"}
P05_IS_SILENT = (Op("drop", P[5], "MaskedInput", 0), Op("drop", P[5], "MaskedInput", 1))
ONE_COLLUDER: Mapping[str, Any] = {
    "size": "4",
    "threshold": "3",
    "min_survivors": "3",
    "secure_sum__colluders": "1",
    "secure_sum__colluders_per_cluster": "1",
}


def small(kind: str, reclusterings: int = 2, parties: int = 5, **more: str) -> Scenario:
    size = more.pop("size", "2")
    return scenario(parties, size=size, server=kind, reclusterings=str(reclusterings), **more)


@contextmanager
def clusters_are(clusters: Clusters) -> Iterator[None]:
    """The draw comes out so."""
    rows = tuple(tuple(tuple(P[k] for k in members) for members in row) for row in clusters)
    assignment = Assignment(tuple(sorted(p for members in rows[0] for p in members)), rows)
    with patch.object(draw, "draw_assignment", lambda *_args: assignment):
        yield


def demanding_nothing(question: LedgerQuestion) -> LedgerQuestion:
    return replace(question, limits={})


def greedy() -> AbstractContextManager[object]:
    """A server that asks for all sums."""

    def asked(*fields: Any) -> LedgerQuestion:
        return demanding_nothing(LedgerQuestion(*fields))

    return patch_seen(server_freeze, "LedgerQuestion", asked)


@contextmanager
def asking(change: Callable[[PartyContext, LedgerQuestion], LedgerQuestion]) -> Iterator[None]:
    """Parties that ask their ledger something else, which nobody notices in what they endorse."""
    real = party_release._ledger_question

    def changed(ctx: PartyContext, phase: Working, survivors: frozenset[PartyId]) -> LedgerQuestion:
        return change(ctx, real(ctx, phase, survivors))

    heads = patch.object(Admission, "head", lambda _self: bytes(32))
    with patch.object(party_release, "_ledger_question", changed), heads:
        yield


def each_for_itself(ctx: PartyContext, question: LedgerQuestion) -> LedgerQuestion:
    """The victim alone demands something."""
    return question if ctx.me == V else demanding_nothing(question)


def by_the_plan(_ctx: PartyContext, question: LedgerQuestion) -> LedgerQuestion:
    """A ledger of what was planned instead of who survived."""
    return replace(question, survivors=frozenset(question.assignment.participants))


@contextmanager
def forgetful() -> Iterator[None]:
    """Parties that answer after a release as if there had been none; all that they keep is what is opened."""
    freeze, certificate = party_release.on_freeze, party_release.on_certificate
    working: dict[PartyId, Working] = {}

    def again(ctx: PartyContext, done: tuple[PartyPhase, Effects]) -> tuple[PartyPhase, Effects]:
        phase, effects = done
        return (replace(working[ctx.me], past=phase.past) if isinstance(phase, Idle) else phase), effects

    def on_freeze(ctx: PartyContext, phase: Working, *message: Any) -> tuple[PartyPhase, Effects]:
        done = freeze(ctx, phase, *message)
        working[ctx.me] = phase
        return again(ctx, done)

    def on_certificate(ctx: PartyContext, *message: Any) -> tuple[PartyPhase, Effects]:
        return again(ctx, certificate(ctx, *message))

    with (
        patch_seen(party, "on_freeze", on_freeze),
        patch_seen(party, "on_certificate", on_certificate),
    ):
        yield


def counting_everybody() -> AbstractContextManager[object]:
    """A server that counts all participants as survivors."""

    def everybody(clusters: Mapping[object, Sequence[PartyId]], *_: object) -> frozenset[PartyId]:
        return frozenset(name for members in clusters.values() for name in members)

    return patch_seen(server_freeze, "survivor_set", everybody)


def without_receipts() -> AbstractContextManager[object]:
    """Parties that do not look who shares masks with them."""
    return patch.object(party_release, "_check_receipts", lambda *_args: None)


def _freezes_without_victim(effects: Effects) -> Effects:
    """The freezes among the effects, with the victim among the dropped."""
    changed: list[RunEffect] = []
    for effect in effects:
        if isinstance(effect, Send) and isinstance(effect.message, Freeze):
            fewer = tuple(name for name in effect.message.survivors if name != V)
            changed.append(replace(effect, message=msgspec.structs.replace(effect.message, survivors=fewer)))
    return tuple(changed)


def _sent(effects: Effects, kind: type[Freeze | Certificate]) -> bool:
    return any(isinstance(effect, Send) and isinstance(effect.message, kind) for effect in effects)


class RetriesAtOnce:
    """A server's seam: it freezes the first round a second time without the victim, behind the first time."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self, _event: Event[AnyMessage], effects: Effects) -> Effects:
        if self._done or not _sent(effects, Freeze):
            return effects
        self._done = True
        return effects + _freezes_without_victim(effects)


class RetriesCertified:
    """The same where parties wait for a certificate: it freezes again behind the first one.

    The second certificate is of what the parties endorse then; until it is made, the server is silent.
    """

    def __init__(self, quorum: int) -> None:
        self._quorum = quorum
        self._again: Effects = ()
        self._signed: list[bytes] | None = None
        self._held: list[RunEffect] = []

    def __call__(self, event: Event[AnyMessage], effects: Effects) -> Effects:
        if self._signed is not None and len(self._signed) < self._quorum:
            return self._certifying(event, self._signed, effects)
        if self._signed is None and _sent(effects, Freeze):
            self._again = _freezes_without_victim(effects)
        if self._signed is None and _sent(effects, Certificate):
            self._signed = []
            return effects + self._again
        return effects

    def _certifying(self, event: Event[AnyMessage], signed: list[bytes], effects: Effects) -> Effects:
        self._held += [effect for effect in effects if isinstance(effect, Send)]
        said = tuple(effect for effect in effects if not isinstance(effect, Send))
        if isinstance(event, Received) and isinstance(event.message, Endorse):
            signed.append(event.signed)
        if len(signed) < self._quorum:
            return said
        certificate: Send[AnyMessage] = Send(EVERYONE, Place(0), Certificate(endorsements=tuple(signed)))
        return (*said, certificate, *self._held)


def retrying(world: World) -> None:
    quorum = world.plan.limits.quorum
    world.server.seam = RetriesAtOnce() if quorum is None else RetriesCertified(quorum)


def splitting(world: World) -> None:
    """A server that tells half of each cluster that the victim survived, and half that it did not."""
    told = {V, P[1], P[4], P[5]}

    def seam(_event: Event[AnyMessage], effects: Effects) -> Effects:
        return tuple(
            effect
            if isinstance(effect, Send) and effect.to in told
            else next(iter(_freezes_without_victim((effect,))), effect)
            for effect in effects
        )

    world.server.seam = seam


def accusing(world: World) -> None:
    """p07 accuses the victim in the first reclustering, whose sum goes on without both."""

    def seam(event: Event[AnyMessage], effects: Effects) -> Effects:
        if not (isinstance(event, Received) and isinstance(event.message, BoxList)):
            return effects
        if event.place.reclustering or event.place.attempt:
            return effects
        accusation: Send[AnyMessage] = Send(SERVER, event.place, Complaint(accused=V))
        return (*(effect for effect in effects if not isinstance(effect, Send)), accusation)

    world.nodes[P[7]].seam = seam


Patch = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Attack:
    """What a server does for somebody's update, and what the parties have to forgo for it to succeed."""

    clusters: Clusters
    fields: Mapping[str, Any]
    """Of :func:`small`."""
    victims: tuple[PartyId, ...] = (V,)
    colluders: tuple[PartyId, ...] = ()
    ops: tuple[Op, ...] = ()
    prepare: Callable[[World], None] = lambda _world: None
    server: tuple[Patch, ...] = ()
    forgone: tuple[Patch, ...] = ()
    open_fields: Mapping[str, Any] = field(default_factory=dict)
    """What the scenario has instead where the attack succeeds."""
    kinds: tuple[str, ...] = ("curious", "active")
    """The kinds of server that a scenario withstands it from."""

    def scenario(self, kind: str, *, guarded: bool) -> Scenario:
        return small(**{"kind": kind, **self.fields, **({} if guarded else self.open_fields)})

    @contextmanager
    def under_way(self, *, guarded: bool) -> Iterator[None]:
        """Let the draw come out so, and everybody behave so."""
        with ExitStack() as stack:
            stack.enter_context(clusters_are(self.clusters))
            for one in (*self.server, *(() if guarded else self.forgone)):
                stack.enter_context(one())
            yield


ATTACKS: Mapping[str, Attack] = {
    "the victim's veto alone": Attack(
        ALONE, {}, server=(greedy,), forgone=(lambda: asking(each_for_itself),)
    ),
    "pairs": Attack(PAIRS, {"reclusterings": 3}, victims=tuple(P[:3]), server=(greedy,), open_fields=REPORT),
    "dropout": Attack(
        BY_DROPOUT,
        {"parties": 6, "size": "3"},
        ops=P05_IS_SILENT,
        server=(greedy,),
        forgone=(lambda: asking(by_the_plan),),
    ),
    "collusion": Attack(
        BY_COLLUSION,
        {"parties": 8, **ONE_COLLUDER},
        colluders=(P[4],),
        server=(greedy,),
        open_fields=REPORT,
    ),
    # The server goes on to a second round, so that its transcript is open for all of the attack.
    "retry": Attack(
        HALVES,
        {"reclusterings": 1, "parties": 6, "size": "3", "rounds": "2"},
        prepare=retrying,
        forgone=(forgetful,),
        open_fields=REPORT,
    ),
    # A scenario with a curious server does not promise to withstand it: each party's ledger is about the
    # set that it was told, and only a certificate shows that all were told the same.
    "two survivor sets": Attack(
        FOURS,
        {"reclusterings": 1, "parties": 8, "size": "4", "threshold": "3", "min_survivors": "3"},
        prepare=splitting,
        open_fields={"kind": "curious", "threshold": "2", "min_survivors": "2"},
        kinds=("active",),
    ),
    "missing from one reclustering": Attack(
        TWICE_FIVE,
        {"parties": 10, "size": "5", "threshold": "3", "min_survivors": "3", "secure_sum__colluders": "1"},
        colluders=(P[7],),
        prepare=accusing,
        server=(counting_everybody,),
        forgone=(without_receipts,),
    ),
}
