"""The server that a party follows: one session in each epoch, and never an earlier one again (ADR 0054).

A new server cannot go on with a round that another one has announced the draw of: nonces that were revealed
would let it choose the clusters. Two things are left to it: to a round that the party was only invited to it
may be invited again, and the shares for certified sums it may ask for again (ADR 0056).
"""

from dataclasses import replace
from typing import Final

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round.party import phases
from securefl.protocol.round.shared import reports

VOID: Final = "the server was started again, and the round is void"


def join(ctx: phases.PartyContext, phase: phases.PartyPhase) -> tuple[kernel.Send[messages.AnyMessage], ...]:
    """Report the party's versions, if they are known, its presence, and its progress in the run.

    Versions come first: the server compares those of all parties once the last one has joined.
    """
    past = None if isinstance(phase, phases.Ended) else phase.past
    message = messages.JoinRun(
        config_digest=ctx.plan.config_digest(),
        version=messages.WIRE_VERSION,
        leader=wire.NOBODY if past is None else past.leader,
        round=_drawn(phase),
    )
    joining: kernel.Send[messages.AnyMessage] = kernel.Send(SERVER, kernel.Place(-1), message)
    return (
        (joining,) if ctx.software is None else (kernel.Send(SERVER, kernel.Place(-1), ctx.software), joining)
    )


def asked_only(phase: phases.PartyPhase, event: kernel.Received[messages.AnyMessage]) -> bool:
    """Whether the message comes from a server that leads nothing, so that it changes nothing.

    It may ask who is there; and end or pause the run for a party that has never followed another one.

    Raises:
        PeerError: it says something that only a server that leads may say.
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


def followed(phase: phases.PartyPhase, session: bytes) -> tuple[phases.PartyPhase, reports.Effects]:
    """Follow the server of a later epoch, durably; leave what an earlier one has begun.

    What this party has attested of the last round it says again: the earlier server may have had no time to
    write it down.
    """
    if (
        isinstance(phase, phases.Ended)
        or not session
        or wire.epoch_of(session) == wire.ASKING
        or session == phase.past.leader
    ):
        return phase, ()
    known = phase.past.leader
    past = replace(phase.past, leader=session)
    noted: reports.Effects = (kernel.Journal(max(past.spent, 0), kernel.LEADS + session.hex()),)
    if known == wire.NOBODY:
        return replace(phase, past=past), noted
    noted = (*noted, kernel.Report(reports.EpochFollowed(wire.epoch_of(session))), *_again(past))
    if isinstance(phase, phases.Greeted) and not phase.draw:
        return phases.Outside(replace(past, named=(phase.round, phase.group, phase.groupless))), noted
    if isinstance(phase, phases.Endorsed):
        # There is one set of sums that the certificate opens, whoever shows it.
        return replace(phase, past=past, after=replace(phase.after, leader=session)), noted
    if isinstance(phase, phases.Outside | phases.Informed) or (
        isinstance(phase, phases.Choosing) and not phase.draw
    ):
        return phases.Outside(past), noted
    return phases.sit_out(phase, past), (*noted, kernel.Report(reports.SatOut(phase.round, VOID)))


def _again(past: phases.Past) -> reports.Effects:
    """What this party has attested, for a server that may not have kept it."""
    verifying = past.verifying
    if verifying is None or not verifying.attested:
        return ()
    return tuple(
        kernel.Send(SERVER, place, messages.Attest(root=verifying.attested)) for place in verifying.places
    )


def _drawn(phase: phases.PartyPhase) -> int:
    """The last round of which this party has seen the draw, or that it has left for good."""
    match phase:
        case phases.Ended():
            return -1
        case phases.Outside() | phases.Informed() | phases.Choosing(draw=0) | phases.Greeted(draw=0):
            return phase.past.spent
        case _:
            return phase.round
