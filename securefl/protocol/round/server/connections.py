"""Connections at the server: hints against parties, restarted parties, and its own clock (ADR 0032)."""

from collections.abc import Set
from dataclasses import replace

from securefl.base.ids import EVERYONE, PartyId
from securefl.protocol import kernel, messages
from securefl.protocol.round.server import phases
from securefl.protocol.round.server.session import NOBODY_GONE
from securefl.protocol.round.shared import presence
from securefl.protocol.round.shared.reports import Effects


def on_connection(
    phase: phases.RunningPhase,
    event: kernel.PresenceHint | kernel.Heard | kernel.Offline | kernel.Online,
    expected: Set[PartyId],
) -> tuple[phases.RunningPhase, Effects]:
    """Record a broken or working connection of an ``expected`` party, or a change of the server's own.

    Other names are not stored: a broker can invent any number.
    """
    match event:
        case kernel.Heard(party=party):
            return clear_hints(phase, party), ()
        case kernel.PresenceHint(now=now, party=party):
            if party not in expected:
                return phase, ()
            gone = {**phase.standing.session.disconnected, party: now}
            return replace(
                phase,
                standing=replace(phase.standing, session=replace(phase.standing.session, disconnected=gone)),
            ), ()
        case kernel.Offline():
            return phase, presence.lost_effects()
        case kernel.Online():
            # Hints concern connections to a broker that this server has lost since.
            standing = replace(
                phase.standing,
                late=frozenset(),
                session=replace(phase.standing.session, disconnected=NOBODY_GONE),
            )
            return replace(phase, standing=standing), presence.back_effects(event, EVERYONE)


def clear_hints(phase: phases.RunningPhase, party: PartyId) -> phases.RunningPhase:
    """Clear all hints against a party that has just sent a message."""
    standing = phase.standing
    if party not in standing.session.disconnected and party not in standing.late:
        return phase
    gone = {other: since for other, since in standing.session.disconnected.items() if other != party}
    return replace(
        phase,
        standing=replace(
            standing, late=standing.late - {party}, session=replace(standing.session, disconnected=gone)
        ),
    )


def record_session(phase: phases.RunningPhase, party: PartyId, session: bytes) -> phases.RunningPhase:
    """Record that a party was restarted in this round if its message comes from another session.

    The inbox rejects all later frames of the earlier session, so no answer is lost. A hello that is not
    announced yet is dropped: the new process may send its own.
    """
    known = phase.standing.session
    if not session or known.answering.get(party, session) == session:
        return phase
    known = replace(known, restarted=known.restarted | {party})
    phase = replace(phase, standing=replace(phase.standing, session=known))
    if isinstance(phase, phases.CollectingHellos) and party in phase.hellos:
        return replace(phase, hellos={one: hello for one, hello in phase.hellos.items() if one != party})
    return phase


def expect_answers(phase: phases.CollectingHellos, party: PartyId, session: bytes) -> phases.CollectingHellos:
    """Expect a party's answers of this round from the process of ``session``."""
    known = phase.standing.session
    known = replace(known, answering={**known.answering, party: session}, restarted=known.restarted - {party})
    return replace(phase, standing=replace(phase.standing, session=known))


def adjust_clock(phase: phases.RunningPhase, event: kernel.Event[messages.AnyMessage]) -> phases.RunningPhase:
    """Stop the clock of all deadlines while offline; restart it when online."""
    clock = phase.standing.session.clock
    match event:
        case kernel.Offline():
            standing = replace(
                phase.standing,
                session=replace(phase.standing.session, clock=clock.stop(event.now), lost_broker=True),
            )
        case kernel.Online():
            standing = replace(
                phase.standing, session=replace(phase.standing.session, clock=clock.start(event.now))
            )
        case _:
            return phase
    return replace(phase, standing=standing)
