"""A server that steers the draw of the clusters by withholding nonces (protocol.md, step 2).

It sees all nonces before anybody else does. If the clusters that follow from them do not leave its victim
among its accomplices, it says that somebody's nonce never came. A voided draw is drawn again with fresh
commitments and without that party, so that it has three draws instead of one, in the open: each redraw is
recorded by everybody. This is a machine round the server's machine, since it turns on what the server takes
in, not on what it sends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from securefl import scenario
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages
from securefl.protocol.round import (
    MAX_REDRAWS,
    Revealing,
    RunEffect,
    RunPlan,
    ServerPhase,
    draw_round,
)
from securefl.runtime.misbehaviour import server_dropping
from securefl.runtime.misbehaviour.seam import acts
from securefl.runtime.misbehaviour.server_crafting import CraftsModel

_MachineT = TypeVar("_MachineT", bound=server_dropping.ServerLike)


def isolates(assignment: clustering.Assignment, victim: PartyId, accomplices: frozenset[PartyId]) -> bool:
    """Whether in some cluster all mates of the victim are accomplices: its sum is the victim's update."""
    return any(set(assignment.clusters[r][j]) <= accomplices | {victim} for r, j in assignment.of(victim))


class WithholdsNonces:
    """The server's machine, with draws voided until one isolates the victim or none is left.

    Args:
        machine: the honest one.
        plan: of the run.
        behaviour: victim, accomplices, rounds.
    """

    def __init__(
        self, machine: server_dropping.ServerLike, plan: RunPlan, behaviour: scenario.ServerWithholdsNonces
    ) -> None:
        self._machine = machine
        self._plan = plan
        self._behaviour = behaviour
        self._victim = PartyId(behaviour.victim)
        self._accomplices = frozenset(map(PartyId, behaviour.accomplices))

    def start(self, now: float) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        """As the honest machine."""
        return self._machine.start(now)

    def step(
        self, phase: ServerPhase, event: kernel.Event[messages.AnyMessage]
    ) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        """As the honest machine, but for the last nonce of a draw that is not to its liking."""
        if (
            isinstance(phase, Revealing)
            and isinstance(event, kernel.Received)
            and isinstance(event.message, messages.Reveal)
        ):
            blamed = self._blamed(phase, event.sender, event.message)
            now = phase.standing.session.clock.at(event.now)
            if blamed == event.sender:
                return self._machine.step(replace(phase, deadline=now), kernel.DeadlinePassed(event.now))
            if blamed is not None:
                reveals = {name: reveal for name, reveal in phase.reveals.items() if name != blamed}
                return self._machine.step(replace(phase, reveals=reveals, deadline=now), event)
        return self._machine.step(phase, event)

    def _blamed(self, phase: Revealing, sender: PartyId, message: messages.Reveal) -> PartyId | None:
        """The party whose nonce never came; None if this draw may stand, or is not complete."""
        if not acts(self._behaviour, phase.standing.round) or phase.draw >= MAX_REDRAWS:
            return None
        nonces = {name: reveal.nonce for name, (reveal, _) in phase.reveals.items()} | {sender: message.nonce}
        if nonces.keys() != phase.hellos.keys() or self._victim not in nonces:
            return None
        samples = {name: hello.samples for name, hello in phase.hellos.items()}
        drawn = draw_round(self._plan, phase.standing.round, phase.draw, phase.model, nonces, samples)
        if isolates(drawn.assignment, self._victim, self._accomplices):
            return None
        # By name, not by who came last: what follows must not depend on the timing of a run.
        return min(nonces.keys() - self._accomplices - {self._victim}, default=None)


def server_machine(
    machine: _MachineT, plan: RunPlan, behaviours: tuple[scenario.Behaviour, ...]
) -> _MachineT | server_dropping.ServerLike:
    """The server's machine, inside whatever behaviour turns on what it takes in."""
    wrapped: _MachineT | server_dropping.ServerLike = machine
    for behaviour in behaviours:
        if isinstance(behaviour, scenario.ServerWithholdsNonces):
            wrapped = WithholdsNonces(wrapped, plan, behaviour)
        elif isinstance(behaviour, scenario.ServerDropsMates):
            wrapped = server_dropping.DropsMates(wrapped, plan, behaviour)
        elif isinstance(behaviour, scenario.ServerCraftsModel):
            wrapped = CraftsModel(wrapped, behaviour)
    return wrapped
