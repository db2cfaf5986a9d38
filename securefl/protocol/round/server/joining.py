"""Joining: participants, their progress, and the state to continue from."""

from collections.abc import Mapping, Set
from dataclasses import replace

from securefl.base.ids import DEALER, PartyId
from securefl.protocol import kernel, messages, wire
from securefl.protocol.round.server import gather, phases, resuming
from securefl.protocol.round.server.proving import attesting_time
from securefl.protocol.round.server.reopening import repeat_request
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.absence import absences_at_start
from securefl.protocol.round.shared.draw import shortage
from securefl.protocol.round.shared.plan import RunPlan


def expected_participants(plan: RunPlan) -> Set[PartyId]:
    """Return the participants to wait for first, with any dealer."""
    parties, dealer = plan.roster.parties.keys(), plan.sums.dealer
    return parties if dealer is None else parties | {dealer}


def on_join(
    ctx: phases.ServerContext, phase: phases.RunningPhase, sender: PartyId, message: messages.Join
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Accept a participant with its stated progress, or reject it with the reason."""
    reason = _reason_to_reject(message, ctx.plan.join_digest(sender))
    if reason is not None:
        goodbye: kernel.Send[messages.AnyMessage] = kernel.Send(
            sender, kernel.Place(-1), messages.Goodbye(reason=reason, aborted=True)
        )
        return phase, (goodbye,)
    if not isinstance(message, messages.JoinRun):
        return phase, ()
    if isinstance(phase, phases.Joining):
        stated = {
            **phase.progress_by_party,
            sender: phases.StatedProgress(wire.epoch_of(message.leader), message.round),
        }
        return replace(phase, joined=phase.joined | {sender}, progress_by_party=stated), ()
    standing = resuming.record_progress(ctx, phase, sender, message.round)
    if isinstance(standing, kernel.Aborted):
        return phases.Ended(None), (standing,)
    return replace(phase, standing=standing), ()


def on_software(
    ctx: phases.ServerContext, phase: phases.RunningPhase, sender: PartyId, message: messages.Software
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Record a party's versions; after the start, report its first ones if they differ."""
    known = phase.standing.session.software
    if known.get(sender) == message:
        return phase, ()
    standing = replace(
        phase.standing, session=replace(phase.standing.session, software={**known, sender: message})
    )
    is_reported = isinstance(phase, phases.Joining) or sender in known
    return replace(phase, standing=standing), () if is_reported else _version_report(ctx, {sender: message})


def _version_report(
    ctx: phases.ServerContext, reported: Mapping[PartyId, messages.Software]
) -> reports.Effects:
    if ctx.software is None:
        return ()
    others = tuple((party, _versions(one)) for party, one in sorted(reported.items()) if one != ctx.software)
    return (kernel.Report(reports.VersionsDiffer(_versions(ctx.software), others)),) if others else ()


def _versions(message: messages.Software) -> reports.Versions:
    return reports.Versions(message.python, message.numpy, message.securefl)


def close_joining(
    ctx: phases.ServerContext, phase: phases.Joining, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Lead the run with the parties present; end if it cannot start, or went past this server."""
    plan, resumed = ctx.plan, ctx.resumed
    missing = tuple(sorted(plan.roster.parties.keys() - phase.joined))
    joined, dealer = phase.joined - {DEALER}, plan.sums.dealer
    present = kernel.Report(reports.PartiesJoined(tuple(sorted(joined)), missing))
    known = (present, *_version_report(ctx, phase.standing.session.software))
    tested = resumed is not None and resumed.checkpoint.done is not None
    old = resuming.reason_outdated(plan, phase.progress_by_party, phase.standing.round + tested)
    if old is not None:
        return phases.Ended(None), (*known, kernel.Aborted(old, over=False, decide=True))
    within = f"within {plan.scenario.deadlines.join:g} s"
    if dealer is not None and dealer not in phase.joined:
        lacks = (
            f"{dealer} did not join {within}, and validated sums take its triples"
            " (start it with: securefl dealer)"
        )
        ended, effects = gather.abort(lacks) if resumed is None else resuming.pause(lacks)
        return ended, (*known, *effects)
    reason = shortage(plan, joined)
    # Rounds of a resumed run wait for absent parties.
    if reason is not None and resumed is None:
        ended, effects = gather.abort(
            f"{len(joined)} of {len(plan.roster.parties)} parties joined {within}; {reason}"
        )
        return ended, (*known, *effects)
    leading, led = resuming.take_lead(ctx, phase)
    standing = leading.standing
    session = replace(standing.session, absent=absences_at_start(missing))
    standing = replace(standing, late=phase.standing.late | set(missing), session=session)
    after, effects = _start_or_continue(ctx, standing, now)
    return after, (*known, *led, *effects)


def _start_or_continue(
    ctx: phases.ServerContext, standing: phases.ServerState, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    if ctx.resumed is not None:
        kept = ctx.resumed.checkpoint
        certified, done = kept.certified, kept.done
        if certified is not None:
            return repeat_request(ctx, standing, certified, now)
        if done is not None:
            return phases.Evaluating(standing, done, kept.norm, is_repeated=True), (
                kernel.Report(
                    reports.StepRestored(done.round, kept.norm, resuming.sums_before(ctx, ctx.resumed, done))
                ),
                kernel.Evaluate(done.round, standing.params),
            )
    if standing.claims.pending is not None:
        return phases.Attesting(standing, now + attesting_time(ctx), None), ()
    return gather.begin_round(ctx, standing, now)


def _reason_to_reject(message: messages.Join, expected: bytes) -> str | None:
    if not isinstance(message, messages.JoinRun) or message.version != messages.WIRE_VERSION:
        speaks = message.version if isinstance(message, messages.JoinRun) else 1
        return (
            f"your securefl speaks version {speaks} of the protocol, the server's version"
            f" {messages.WIRE_VERSION}:"
            " install the server's version of securefl and start again"
        )
    if message.config_digest != expected:
        return (
            "your scenario, roster or model differs from the server's: compare the resolved scenarios,"
            " and shape and classes of the samples (securefl data check)"
        )
    return None
