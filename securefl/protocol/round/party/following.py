"""The server that a party follows: one session in each epoch, and never an earlier one again (ADR 0054).

A new server cannot go on with a round that another one has announced the draw of: nonces that were revealed
would let it choose the clusters. Two things are left to it: to a round that the party was only invited to it
may be invited again, and the shares for certified sums it may ask for again (ADR 0056).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.protocol.kernel import LEADS, Journal, Place, Received, Report, Send
from securefl.protocol.messages import (
    WIRE_VERSION,
    AnyMessage,
    Attest,
    Goodbye,
    Here,
    JoinRun,
    Pause,
    RollCall,
)
from securefl.protocol.round.party.phases import (
    Choosing,
    Ended,
    Endorsed,
    Greeted,
    Informed,
    Outside,
    PartyContext,
    PartyPhase,
    Past,
    sit_out,
)
from securefl.protocol.round.shared.reports import Effects, EpochFollowed, SatOut
from securefl.protocol.wire import ASKING, NOBODY, epoch_of

VOID: Final = "the server was started again, and the round is void"


def join(ctx: PartyContext, phase: PartyPhase) -> tuple[Send[AnyMessage], ...]:
    """Report the party's versions, if they are known, its presence, and its progress in the run.

    Versions come first: the server compares those of all parties once the last one has joined.
    """
    past = None if isinstance(phase, Ended) else phase.past
    message = JoinRun(
        config_digest=ctx.plan.config_digest(),
        version=WIRE_VERSION,
        leader=NOBODY if past is None else past.leader,
        round=_drawn(phase),
    )
    joining: Send[AnyMessage] = Send(SERVER, Place(-1), message)
    return (joining,) if ctx.software is None else (Send(SERVER, Place(-1), ctx.software), joining)


def asked_only(phase: PartyPhase, event: Received[AnyMessage]) -> bool:
    """Whether the message comes from a server that leads nothing, so that it changes nothing.

    It may ask who is there; and end or pause the run for a party that has never followed another one.

    Raises:
        PeerError: it says something that only a server that leads may say.
    """
    if not event.session or epoch_of(event.session) != ASKING or isinstance(event.message, RollCall):
        return False
    if not isinstance(phase, Ended) and phase.past.leader != NOBODY:
        return True
    if not isinstance(event.message, Here | Goodbye | Pause):
        raise PeerError(SERVER, f"sends {type(event.message).__name__} before it leads the run")
    return False


def followed(phase: PartyPhase, session: bytes) -> tuple[PartyPhase, Effects]:
    """Follow the server of a later epoch, durably; leave what an earlier one has begun.

    What this party has attested of the last round it says again: the earlier server may have had no time to
    write it down.
    """
    if isinstance(phase, Ended) or not session or epoch_of(session) == ASKING or session == phase.past.leader:
        return phase, ()
    known = phase.past.leader
    past = replace(phase.past, leader=session)
    noted: Effects = (Journal(max(past.spent, 0), LEADS + session.hex()),)
    if known == NOBODY:
        return replace(phase, past=past), noted
    noted = (*noted, Report(EpochFollowed(epoch_of(session))), *_again(past))
    if isinstance(phase, Greeted) and not phase.draw:
        return Outside(replace(past, named=(phase.round, phase.group, phase.groupless))), noted
    if isinstance(phase, Endorsed):
        # There is one set of sums that the certificate opens, whoever shows it.
        return replace(phase, past=past, after=replace(phase.after, leader=session)), noted
    if isinstance(phase, Outside | Informed) or (isinstance(phase, Choosing) and not phase.draw):
        return Outside(past), noted
    return sit_out(phase, past), (*noted, Report(SatOut(phase.round, VOID)))


def _again(past: Past) -> Effects:
    """What this party has attested, for a server that may not have kept it."""
    verifying = past.verifying
    if verifying is None or not verifying.attested:
        return ()
    return tuple(Send(SERVER, place, Attest(root=verifying.attested)) for place in verifying.places)


def _drawn(phase: PartyPhase) -> int:
    """The last round of which this party has seen the draw, or that it has left for good."""
    match phase:
        case Ended():
            return -1
        case Outside() | Informed() | Choosing(draw=0) | Greeted(draw=0):
            return phase.past.spent
        case _:
            return phase.round
