"""Servers that lie about missing messages only, to be left with one party's update (`curious_server.toml`).

No party can prove that a message came, so nothing of this is refused. :class:`WithholdsNonces` steers the
draw of the clusters (protocol.md, step 2), :class:`DropsMates` the survivors (steps 6 and 8). Both run the
honest machine, and change the messages that it receives.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from securefl import ServerBehaviour
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.clustering import Assignment, survivor_set
from securefl.protocol import kernel, messages
from securefl.protocol.round import RunPlan
from securefl.protocol.round.party.draw import MAX_REDRAWS
from securefl.protocol.round.server.phases import CollectingNonces, ServerPhase, Summing
from securefl.protocol.round.shared.draw import draw_round
from securefl.protocol.round.shared.reports import RunEffect

Event = kernel.Event[messages.AnyMessage]
ServerLike = kernel.Machine[ServerPhase, Event, RunEffect]
Effects = tuple[RunEffect, ...]


class _Isolating(ServerBehaviour, frozen=True, kw_only=True):
    """Fields of both servers."""

    victim: str
    accomplices: tuple[str, ...] = ()
    """Parties that send the server their updates."""

    def check(self, path: str, parties: Collection[str]) -> None:
        for field, named in (("victim", {self.victim}), ("accomplices", set(self.accomplices))):
            for unknown in sorted(named - set(parties)):
                reason = f"there is no party {unknown}"
                raise ConfigError(f"{path}.{field}", reason, f"they are {min(parties)} to {max(parties)}")
        if self.victim in self.accomplices:
            remedy = "others than the victim"
            raise ConfigError(f"{path}.accomplices", f"{self.victim} is the victim", remedy)

    @property
    def known(self) -> frozenset[PartyId]:
        """The accomplices, whose updates the server knows."""
        return frozenset(map(PartyId, self.accomplices))


class WithholdsNonces(_Isolating, frozen=True, kw_only=True):
    """Voids draws until the mates of its victim in some cluster are all accomplices.

    It receives all nonces before any party does. If the clusters that follow from them do not isolate the
    victim, it reports that a nonce never came. A voided draw is drawn again with fresh commitments and
    without that party. So the server has three draws instead of one, in the open: each party records each
    redraw.
    """

    accomplices: Annotated[tuple[str, ...], Meta(min_length=1)]

    def around(self, honest: ServerLike, plan: RunPlan) -> ServerLike:
        return _Withholding(honest, plan, self)


class DropsMates(_Isolating, frozen=True, kw_only=True):
    """Reports masked inputs of its victim's mates as missing, so that the opened sums give its update.

    It looks for a set of parties without which the victim is left alone among accomplices in some cluster, or
    two sums differ by the victim alone (differencing by dropout), and acts only if ``min_survivors`` leaves
    the victim in. ``min_survivors`` >= k + f, with at most f accomplices in a cluster, stops the first; the
    leakage ledger, which every party computes from the survivors, stops the second.
    """

    def around(self, honest: ServerLike, plan: RunPlan) -> ServerLike:
        return _Dropping(honest, plan, self)


def isolates(assignment: Assignment, victim: PartyId, accomplices: frozenset[PartyId]) -> bool:
    """Return True if all mates of the victim in some cluster are accomplices: the sum gives its update."""
    return any(set(assignment.clusters[r][j]) <= accomplices | {victim} for r, j in assignment.of(victim))


class _Withholding:
    """The server's machine, with draws voided until one isolates the victim or none is left.

    Args:
        machine: the honest one.
        plan: of the run.
        behaviour: victim, accomplices, rounds.
    """

    def __init__(self, machine: ServerLike, plan: RunPlan, behaviour: WithholdsNonces) -> None:
        self._machine = machine
        self._plan = plan
        self._behaviour = behaviour
        self._victim = PartyId(behaviour.victim)
        self._accomplices = behaviour.known

    def start(self, now: float) -> tuple[ServerPhase, Effects]:
        """As the honest machine."""
        return self._machine.start(now)

    def step(self, phase: ServerPhase, event: Event) -> tuple[ServerPhase, Effects]:
        """As the honest machine, but for the last nonce of a draw that is not to its liking."""
        if (
            isinstance(phase, CollectingNonces)
            and isinstance(event, kernel.Received)
            and isinstance(event.message, messages.Reveal)
        ):
            blamed = self._blamed(phase, event.sender, event.message)
            now = phase.standing.session.clock.read(event.now)
            if blamed == event.sender:
                return self._machine.step(replace(phase, deadline=now), kernel.DeadlinePassed(event.now))
            if blamed is not None:
                reveals = {name: reveal for name, reveal in phase.reveals.items() if name != blamed}
                return self._machine.step(replace(phase, reveals=reveals, deadline=now), event)
        return self._machine.step(phase, event)

    def _blamed(self, phase: CollectingNonces, sender: PartyId, message: messages.Reveal) -> PartyId | None:
        """Return the party to blame; None if this draw may stand, or is not complete."""
        if not self._behaviour.acts(phase.standing.round) or phase.draw >= MAX_REDRAWS:
            return None
        nonces = {name: reveal.nonce for name, (reveal, _) in phase.reveals.items()} | {sender: message.nonce}
        if nonces.keys() != phase.hellos.keys() or self._victim not in nonces:
            return None
        samples = {name: hello.samples for name, hello in phase.hellos.items()}
        drawn = draw_round(self._plan, phase.standing.round, phase.draw, phase.model, nonces, samples)
        if isolates(drawn.assignment, self._victim, self._accomplices):
            return None
        # By name, not by arrival: the run must not depend on timing.
        return min(nonces.keys() - self._accomplices - {self._victim}, default=None)


def mates_to_drop(
    assignment: Assignment,
    victim: PartyId,
    accomplices: frozenset[PartyId],
    min_survivors: int,
    quorum: int = 0,
) -> frozenset[PartyId]:
    """Return the parties without whose inputs the sums, less the accomplices' updates, give the victim's.

    It tries each cluster of the victim alone, and its difference to each cluster without the victim. Of
    several sets it takes the one that costs the fewest survivors. The result is empty if no set leaves the
    victim in, or if no party has to be dropped.

    Args:
        assignment: of the round.
        victim: one of the participants; otherwise nothing is found.
        accomplices: parties whose updates the server knows.
        min_survivors: fewer members remove the rest of a cluster, everywhere.
        quorum: with fewer survivors nothing is certified.
    """
    clusters = {(r, j): m for r, row in enumerate(assignment.clusters) for j, m in enumerate(row)}
    known = accomplices | {victim}
    others = [frozenset(members) for members in clusters.values() if victim not in members]
    found: list[tuple[int, frozenset[PartyId]]] = []
    for own in (frozenset(members) for members in clusters.values() if victim in members):
        for other in (frozenset[PartyId](), *others):
            dropped = (own ^ other) - known
            submitted = {key: set(members) - dropped for key, members in clusters.items()}
            survivors = survivor_set(clusters, submitted, min_survivors, assignment.atoms)
            if victim in survivors and len(survivors) >= quorum:
                found.append((-len(survivors), dropped))
    return min(found, key=lambda one: (one[0], sorted(one[1])), default=(0, frozenset[PartyId]()))[1]


class _Dropping:
    """The server's machine, which never receives the masked inputs of the parties to drop.

    Args:
        machine: the honest one.
        plan: of the run.
        behaviour: victim, accomplices, rounds.
    """

    def __init__(self, machine: ServerLike, plan: RunPlan, behaviour: DropsMates) -> None:
        self._machine = machine
        self._plan = plan
        self._behaviour = behaviour
        self._chosen: tuple[Assignment, frozenset[PartyId]] | None = None
        self._begun: Assignment | None = None
        """Of the round in which it has dropped an input already."""

    def start(self, now: float) -> tuple[ServerPhase, Effects]:
        """As the honest machine."""
        return self._machine.start(now)

    def step(self, phase: ServerPhase, event: Event) -> tuple[ServerPhase, Effects]:
        """As the honest machine, without the inputs of the parties to drop."""
        if not isinstance(phase, Summing) or not self._behaviour.acts(phase.standing.round):
            return self._machine.step(phase, event)
        if isinstance(event, kernel.Received) and isinstance(
            event.message, messages.MaskedInput | messages.Receipt
        ):
            assignment = phase.view.assignment
            if event.sender in self._dropped(assignment):
                self._begun = assignment
                return self._machine.step(self._in_vain(phase), kernel.DeadlinePassed(event.now))
        after, effects = self._machine.step(phase, event)
        if not isinstance(after, Summing):
            return after, effects
        vain = self._in_vain(after)
        if vain.standing.late == after.standing.late:
            return after, effects
        # Even if they report that they are back: the honest machine would wait for them again.
        after, more = self._machine.step(vain, kernel.DeadlinePassed(event.now))
        return after, (*effects, *more)

    def _in_vain(self, phase: Summing) -> Summing:
        """Return the phase with the dropped parties as late: the machine does not wait for them."""
        if self._begun is not phase.view.assignment:
            return phase
        late = phase.standing.late | self._dropped(phase.view.assignment)
        return replace(phase, standing=replace(phase.standing, late=late))

    def _dropped(self, assignment: Assignment) -> frozenset[PartyId]:
        if self._chosen is None or self._chosen[0] is not assignment:
            chosen = mates_to_drop(
                assignment,
                PartyId(self._behaviour.victim),
                self._behaviour.known,
                self._plan.scenario.secure_sum.min_survivors,
                self._plan.limits.quorum or 0,
            )
            self._chosen = assignment, chosen
        return self._chosen[1]
