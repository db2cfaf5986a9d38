"""Joining: who is there, what they know of the run, and where a server goes on from there."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from securefl.base.ids import DEALER, PartyId
from securefl.protocol.kernel import Aborted, Evaluate, Place, Report, Send
from securefl.protocol.messages import WIRE_VERSION, AnyMessage, Goodbye, Join, JoinRun, Software
from securefl.protocol.round.server.gather import abort, begin_round
from securefl.protocol.round.server.phases import (
    Attesting,
    Ended,
    Evaluating,
    Joining,
    RunningPhase,
    ServerContext,
    ServerPhase,
    Standing,
    Stated,
)
from securefl.protocol.round.server.proving import attesting_time
from securefl.protocol.round.server.reopening import ask_again
from securefl.protocol.round.server.resuming import outlived, overtaken, pause, take_lead
from securefl.protocol.round.shared.draw import shortage
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import Effects, PartiesJoined, Versions, VersionsDiffer
from securefl.protocol.wire import epoch_of


def expected(plan: RunPlan) -> Set[PartyId]:
    """Participants waited for before the first round; without a dealer that there is, no sum opens."""
    parties, dealer = plan.roster.parties.keys(), plan.sums.dealer
    return parties if dealer is None else parties | {dealer}


def on_join(
    ctx: ServerContext, phase: RunningPhase, sender: PartyId, message: Join
) -> tuple[ServerPhase, Effects]:
    """Take a participant in, and what it says that it has seen of the run; or send it home."""
    reason = _refused(message, ctx.plan.joins_with(sender))
    if reason is not None:
        goodbye: Send[AnyMessage] = Send(sender, Place(-1), Goodbye(reason=reason, aborted=True))
        return phase, (goodbye,)
    if not isinstance(message, JoinRun):
        return phase, ()
    if isinstance(phase, Joining):
        stated = {**phase.stated, sender: Stated(epoch_of(message.leader), message.round)}
        return replace(phase, joined=phase.joined | {sender}, stated=stated), ()
    standing = overtaken(ctx, phase, sender, message.round)
    if isinstance(standing, Aborted):
        return Ended(None), (standing,)
    return replace(phase, standing=standing), ()


def on_software(
    ctx: ServerContext, phase: RunningPhase, sender: PartyId, message: Software
) -> tuple[ServerPhase, Effects]:
    """Record a party's versions; once the run has begun, report the first ones of a party that differ."""
    known = phase.standing.software
    if known.get(sender) == message:
        return phase, ()
    standing = replace(phase.standing, software={**known, sender: message})
    is_reported = isinstance(phase, Joining) or sender in known
    return replace(phase, standing=standing), () if is_reported else _differing(ctx, {sender: message})


def _differing(ctx: ServerContext, reported: Mapping[PartyId, Software]) -> Effects:
    """Return the report on the parties whose versions are not the server's; nothing if there are none."""
    if ctx.software is None:
        return ()
    others = tuple((party, _versions(one)) for party, one in sorted(reported.items()) if one != ctx.software)
    return (Report(VersionsDiffer(_versions(ctx.software), others)),) if others else ()


def _versions(message: Software) -> Versions:
    return Versions(message.python, message.numpy, message.securefl)


def close_joining(ctx: ServerContext, phase: Joining, now: float) -> tuple[ServerPhase, Effects]:
    """Lead the run with whoever is there; or end, where it can't begin, or went on without this server."""
    plan, resumed = ctx.plan, ctx.resumed
    missing = tuple(sorted(plan.roster.parties.keys() - phase.joined))
    joined, dealer = phase.joined - {DEALER}, plan.sums.dealer
    present = Report(PartiesJoined(tuple(sorted(joined)), missing))
    known = (present, *_differing(ctx, phase.standing.software))
    tested = resumed is not None and resumed.checkpoint.done is not None
    old = outlived(plan, phase.stated, phase.standing.round + tested)
    if old is not None:
        return Ended(None), (*known, Aborted(old, over=False, decide=True))
    within = f"within {plan.scenario.deadlines.join:g} s"
    if dealer is not None and dealer not in phase.joined:
        lacks = (
            f"{dealer} did not join {within}, and validated sums take its triples"
            " (start it with: securefl dealer)"
        )
        ended, effects = abort(lacks) if resumed is None else pause(lacks)
        return ended, (*known, *effects)
    reason = shortage(plan, joined)
    # Parties of a run that goes on may be away for a while: rounds wait for them.
    if reason is not None and resumed is None:
        ended, effects = abort(
            f"{len(joined)} of {len(plan.roster.parties)} parties joined {within}; {reason}"
        )
        return ended, (*known, *effects)
    leading, led = take_lead(ctx, phase)
    standing = replace(leading.standing, late=phase.standing.late | set(missing))
    after, effects = _go_on(ctx, standing, now)
    return after, (*known, *led, *effects)


def _go_on(ctx: ServerContext, standing: Standing, now: float) -> tuple[ServerPhase, Effects]:
    """Begin, or go on where an earlier server was: ask for shares, test a model, await verifiers."""
    if ctx.resumed is not None:
        certified, done = ctx.resumed.checkpoint.certified, ctx.resumed.checkpoint.done
        if certified is not None:
            return ask_again(ctx, standing, certified, now)
        if done is not None:
            return Evaluating(standing, done, again=True), (Evaluate(done.round, standing.params),)
    if standing.pending is not None:
        return Attesting(standing, now + attesting_time(ctx), None), ()
    return begin_round(ctx, standing, now)


def _refused(message: Join, expected: bytes) -> str | None:
    """Return why a participant cannot join; None where it can."""
    if not isinstance(message, JoinRun) or message.version != WIRE_VERSION:
        speaks = message.version if isinstance(message, JoinRun) else 1
        return (
            f"your securefl speaks version {speaks} of the protocol, the server's version {WIRE_VERSION}:"
            " install the server's version of securefl and start again"
        )
    if message.config_digest != expected:
        return (
            "your scenario, roster or model differs from the server's: compare the resolved scenarios,"
            " and shape and classes of the samples (securefl data check)"
        )
    return None
