"""Server that a party follows: one session in each epoch, never an earlier one (ADR 0054).

A new server cannot continue an announced draw: revealed nonces would let it choose the clusters. It may
invite again before, and request the shares of certified sums (ADR 0056).
"""

from dataclasses import replace
from typing import Final

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round.party import phases
from securefl.protocol.round.shared import reports

VOID_BY_RESTART: Final = "the server was started again, and the round is void"


def join(ctx: phases.PartyContext, phase: phases.PartyPhase) -> tuple[kernel.Send[messages.AnyMessage], ...]:
    """Return the join messages: versions (if known), which the server compares, then progress."""
    past = None if isinstance(phase, phases.Ended) else phase.past
    message = messages.JoinRun(
        config_digest=ctx.plan.config_digest(),
        version=messages.WIRE_VERSION,
        leader=wire.NOBODY if past is None else past.leader,
        round=_last_drawn_round(phase),
    )
    joining: kernel.Send[messages.AnyMessage] = kernel.Send(SERVER, kernel.Place(-1), message)
    return (
        (joining,) if ctx.software is None else (kernel.Send(SERVER, kernel.Place(-1), ctx.software), joining)
    )


def is_from_idle_server(phase: phases.PartyPhase, event: kernel.Received[messages.AnyMessage]) -> bool:
    """Return True for a message to ignore: of a server in epoch 0, which leads nothing.

    It may call the roll, and end or pause the run of a party that follows none.

    Raises:
        PeerError: only a server that leads may send the message.
    """
    if (
        not event.session
        or wire.epoch_of(event.session) != wire.ASKING
        or isinstance(event.message, messages.RollCall)
    ):
        return False
    if not isinstance(phase, phases.Ended) and phase.past.leader != wire.NOBODY:
        return True
    if not isinstance(event.message, messages.Here | messages.Goodbye | messages.Pause):
        raise PeerError(SERVER, f"sends {type(event.message).__name__} before it took over the run")
    return False


def follow_session(phase: phases.PartyPhase, session: bytes) -> tuple[phases.PartyPhase, reports.Effects]:
    """Follow the server of a later epoch, durably; leave the work of an earlier one."""
    if (
        isinstance(phase, phases.Ended)
        or not session
        or wire.epoch_of(session) == wire.ASKING
        or session == phase.past.leader
    ):
        return phase, ()
    known = phase.past.leader
    past = replace(phase.past, leader=session)
    noted: reports.Effects = (kernel.Journal(max(past.last_spent_round, 0), kernel.LEADS + session.hex()),)
    if known == wire.NOBODY:
        return replace(phase, past=past), noted
    noted = (
        *noted,
        kernel.Report(reports.EpochFollowed(wire.epoch_of(session))),
        *_repeat_attestations(past),
    )
    if isinstance(phase, phases.HelloSent) and not phase.draw:
        return phases.Idle(
            replace(past, stated_group=(phase.round, phase.group, phase.no_choice_reason))
        ), noted
    if isinstance(phase, phases.Endorsed):
        # The certificate opens one set of sums only, whichever server sends it.
        return replace(
            phase, past=past, history_after_release=replace(phase.history_after_release, leader=session)
        ), noted
    if isinstance(phase, phases.Idle | phases.ModelReceived) or (
        isinstance(phase, phases.Choosing) and not phase.draw
    ):
        return phases.Idle(past), noted
    return phases.sit_out(phase, past), (*noted, kernel.Report(reports.SatOut(phase.round, VOID_BY_RESTART)))


def _repeat_attestations(past: phases.PartyHistory) -> reports.Effects:
    """Repeat the attestations, which an earlier server may not have stored."""
    verifying = past.verifying
    if verifying is None or not verifying.attested:
        return ()
    return tuple(
        kernel.Send(SERVER, place, messages.Attest(root=verifying.attested)) for place in verifying.places
    )


def _last_drawn_round(phase: phases.PartyPhase) -> int:
    match phase:
        case phases.Ended():
            return -1
        case phases.Idle() | phases.ModelReceived() | phases.Choosing(draw=0) | phases.HelloSent(draw=0):
            return phase.past.last_spent_round
        case _:
            return phase.round
