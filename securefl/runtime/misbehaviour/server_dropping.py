"""A server that reports its victim's mates' masked inputs as missing (protocol.md, steps 6 and 8).

Whom it drops is up to it: nobody can prove that an input came. It looks for a set of parties without
which the victim is left alone among accomplices in some cluster, or two sums differ by the victim alone
(differencing by dropout), and acts only where ``min_survivors`` leaves the victim in. What stops the first is
``min_survivors`` >= k + f, with at most f accomplices in a cluster; what stops the second is the leakage
ledger, which every party computes from the survivors. This is a machine round the server's machine, as in
:mod:`.server_steering`: the inputs are taken from it, so that it freezes and opens as it always does.
"""

from __future__ import annotations

from dataclasses import replace

from securefl import scenario
from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages
from securefl.protocol.round import RunEffect, RunPlan, ServerPhase, Summing
from securefl.runtime.misbehaviour.seam import acts

ServerLike = kernel.Machine[ServerPhase, kernel.Event[messages.AnyMessage], RunEffect]


def mates_to_drop(
    assignment: clustering.Assignment,
    victim: PartyId,
    accomplices: frozenset[PartyId],
    min_survivors: int,
    quorum: int = 0,
) -> frozenset[PartyId]:
    """Return whose inputs must not come so that sums, less the accomplices' updates, are the victim's update.

    Tried are each cluster of the victim alone, and its difference to each cluster without the victim. Of
    several sets the one that costs the fewest survivors is taken; empty where none leaves the victim in, or
    where nobody has to be dropped.

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
            survivors = clustering.survivor_set(clusters, submitted, min_survivors, assignment.atoms)
            if victim in survivors and len(survivors) >= quorum:
                found.append((-len(survivors), dropped))
    return min(found, key=lambda one: (one[0], sorted(one[1])), default=(0, frozenset[PartyId]()))[1]


class DropsMates:
    """The server's machine, which never gets the masked inputs of those whom it is to drop.

    Args:
        machine: the honest one.
        plan: of the run.
        behaviour: victim, accomplices, rounds.
    """

    def __init__(self, machine: ServerLike, plan: RunPlan, behaviour: scenario.ServerDropsMates) -> None:
        self._machine = machine
        self._plan = plan
        self._behaviour = behaviour
        self._chosen: tuple[clustering.Assignment, frozenset[PartyId]] | None = None
        self._begun: clustering.Assignment | None = None
        """Of the round in which it has dropped something already."""

    def start(self, now: float) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        """As the honest machine."""
        return self._machine.start(now)

    def step(
        self, phase: ServerPhase, event: kernel.Event[messages.AnyMessage]
    ) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        """As the honest machine, without what it is not to hear."""
        if not isinstance(phase, Summing) or not acts(self._behaviour, phase.standing.round):
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
        # Whatever else they say, even that they are back: the honest machine would wait for them again.
        after, more = self._machine.step(vain, kernel.DeadlinePassed(event.now))
        return after, (*effects, *more)

    def _in_vain(self, phase: Summing) -> Summing:
        """It knows that it waits in vain, and waits no longer than for parties that were late before."""
        if self._begun is not phase.view.assignment:
            return phase
        late = phase.standing.late | self._dropped(phase.view.assignment)
        return replace(phase, standing=replace(phase.standing, late=late))

    def _dropped(self, assignment: clustering.Assignment) -> frozenset[PartyId]:
        if self._chosen is None or self._chosen[0] is not assignment:
            chosen = mates_to_drop(
                assignment,
                PartyId(self._behaviour.victim),
                frozenset(map(PartyId, self._behaviour.accomplices)),
                self._plan.scenario.secure_sum.min_survivors,
                self._plan.limits.quorum or 0,
            )
            self._chosen = assignment, chosen
        return self._chosen[1]
