"""Connections, as the server hears of them: hints against parties, and the clock of its own (ADR 0032)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from securefl.base.ids import EVERYONE, PartyId
from securefl.protocol.kernel import Event, Heard, Offline, Online, PresenceHint
from securefl.protocol.messages import AnyMessage
from securefl.protocol.round.server.phases import NOBODY_GONE, RunningPhase
from securefl.protocol.round.shared.presence import back, lost
from securefl.protocol.round.shared.reports import Effects


def connected(
    phase: RunningPhase, event: PresenceHint | Heard | Offline | Online, expected: Set[PartyId]
) -> tuple[RunningPhase, Effects]:
    """Note that a party's connection broke, as the broker says, or stands, or what became of one's own.

    A broker can make up as many other names as it likes, and none of them is kept in mind.
    """
    match event:
        case Heard(party=party):
            return noted(phase, party), ()
        case PresenceHint(now=now, party=party):
            if party not in expected:
                return phase, ()
            gone = {**phase.standing.gone, party: now}
            return replace(phase, standing=replace(phase.standing, gone=gone)), ()
        case Offline():
            return phase, lost()
        case Online():
            # All hints are about connections to a broker that this server has lost since.
            standing = replace(phase.standing, gone=NOBODY_GONE, late=frozenset())
            return replace(phase, standing=standing), back(event, EVERYONE)


def noted(phase: RunningPhase, party: PartyId) -> RunningPhase:
    """Forget what speaks against a party's being there: it has just been heard."""
    standing = phase.standing
    if party not in standing.gone and party not in standing.late:
        return phase
    gone = {other: since for other, since in standing.gone.items() if other != party}
    return replace(phase, standing=replace(standing, gone=gone, late=standing.late - {party}))


def clocked(phase: RunningPhase, event: Event[AnyMessage]) -> RunningPhase:
    """Stop the clock of all deadlines, or let it go on."""
    clock = phase.standing.clock
    match event:
        case Offline():
            standing = replace(phase.standing, clock=clock.stopped(event.now), interrupted=True)
        case Online():
            standing = replace(phase.standing, clock=clock.started(event.now))
        case _:
            return phase
    return replace(phase, standing=standing)
