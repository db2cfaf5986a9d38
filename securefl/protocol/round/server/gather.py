"""First part of a round at the server: invite, announce, relay nonces, draw clusters.

``on_*`` raise ``PeerError`` for an untimely message, another model, configuration or limits than the
server's, or a nonce that was not committed to.
"""

from dataclasses import replace

from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round import walk
from securefl.protocol.round.party.draw import MAX_REDRAWS
from securefl.protocol.round.server import connections, phases, proving, resuming, stepping
from securefl.protocol.round.server.features.suspicion import count_void_draw as lost_bets
from securefl.protocol.round.server.session import NO_SESSIONS
from securefl.protocol.round.server.waiting import Pace
from securefl.protocol.round.shared import reports, statement
from securefl.protocol.round.shared.absence import update_absences
from securefl.protocol.round.shared.additions.addition import StartValues
from securefl.protocol.round.shared.allowance import allowed_seconds
from securefl.protocol.round.shared.atom_seed import atom_seed_of, reason_atoms_unknown
from securefl.protocol.round.shared.draw import draw_round, drawn_report, reason_none_drawn, shortage
from securefl.protocol.round.shared.groups import is_valid_group
from securefl.protocol.round.shared.lateness import late_reason


def begin_round(
    ctx: phases.ServerContext, standing: phases.ServerState, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Send the model and an invitation, unless the round is void or the server pauses."""
    if standing.session.pause_reason:
        return resuming.pause(standing.session.pause_reason)
    void = resuming.end_announced_round(ctx, standing)
    if void is not None:
        return void
    model = statement.model_digest(standing.params, standing.values)
    standing = replace(
        standing,
        session=replace(
            standing.session,
            lost_broker=standing.session.clock.offline_since is not None,
            answering=NO_SESSIONS,
            restarted=frozenset(),
        ),
    )
    greeting, effects = invite(ctx, standing, 0, model, standing.excluded, now)
    return greeting, (
        kernel.Report(reports.RoundStarted(standing.round, model)),
        kernel.Send(EVERYONE, kernel.Place(standing.round), model_message(standing)),
        *effects,
    )


def model_message(standing: phases.ServerState) -> messages.ModelAnnounce:
    """Return the message with the round's models."""
    return messages.ModelAnnounce(params=statement.sent_model(standing.params))


def invitation(
    ctx: phases.ServerContext, model: bytes, excluded: frozenset[PartyId], values: StartValues
) -> messages.Invite:
    """Return the request for a hello with a fresh commitment."""
    config, names = ctx.plan.config_digest(), tuple(sorted(excluded))
    if not values:
        return messages.Invite(model_digest=model, config_digest=config, excluded=names)
    return messages.ValuedInvite(
        model_digest=model, config_digest=config, excluded=names, values=dict(values)
    )


def invite(
    ctx: phases.ServerContext,
    standing: phases.ServerState,
    draw: int,
    model: bytes,
    excluded: frozenset[PartyId],
    now: float,
) -> tuple[phases.CollectingHellos, reports.Effects]:
    """Request hellos with fresh commitments."""
    message = invitation(ctx, model, excluded, standing.values)
    standing = replace(standing, session=replace(standing.session, pace=Pace(now)))
    deadline = now + ctx.plan.scenario.deadlines.quorum
    return phases.CollectingHellos(standing, draw, model, excluded, {}, deadline), (
        kernel.Report(reports.StepReached(standing.round, "hello")),
        kernel.Send(EVERYONE, kernel.Place(standing.round, attempt=draw), message),
        kernel.AwaitSent(standing.round, draw),
    )


def on_all_sent(
    ctx: phases.ServerContext, phase: phases.CollectingHellos, event: kernel.AllSent
) -> tuple[phases.CollectingHellos, reports.Effects]:
    """Start the deadline of hellos once the model, which may take long, is sent."""
    if (event.round, event.draw) != (phase.standing.round, phase.draw) or phase.is_model_sent:
        return phase, ()
    waiting = replace(phase, is_model_sent=True, deadline=event.now + allowed_seconds(ctx.plan, "hello"))
    return waiting, (kernel.Report(reports.ModelSent(event.round, event.draw)),)


def resend_invitation(
    ctx: phases.ServerContext, phase: phases.CollectingHellos, party: PartyId, session: bytes
) -> tuple[phases.CollectingHellos, reports.Effects]:
    """Resend the round's model and invitation, once, to a party that started since.

    Otherwise each short message would be answered with a model.
    """
    standing, known = phase.standing, phase.hellos.keys() | phase.excluded | phase.reinvited
    if party in known or party not in ctx.plan.roster.parties:
        return phase, ()
    if phase.draw:
        # Draw 0, which it would have to answer first, is void.
        return phase, ()
    after = connections.expect_answers(phase, party, session)
    return replace(after, reinvited=phase.reinvited | {party}), (
        kernel.Send(party, kernel.Place(standing.round), model_message(standing)),
        kernel.Send(
            party,
            kernel.Place(standing.round),
            invitation(ctx, phase.model, phase.excluded, standing.values),
        ),
    )


def on_hello(
    ctx: phases.ServerContext,
    phase: phases.CollectingHellos,
    event: kernel.Received[messages.AnyMessage],
    message: messages.Hello,
) -> phases.CollectingHellos:
    """Accept a hello to this server's draw."""
    sender, place = event.sender, event.place
    if wire.epoch_of(message.leader) < phase.standing.epoch:
        # Sent before this server started.
        return phase
    if message.leader != phase.standing.session.leader:
        raise PeerError(sender, "sends a Hello for another server")
    if place.round < phase.standing.round:
        raise PeerError(sender, late_reason("Hello", place.round, "the server is collecting hellos"))
    if place != kernel.Place(phase.standing.round, attempt=phase.draw):
        raise PeerError(sender, f"sends a Hello for round {place.round} draw {place.attempt}")
    if message.model_digest != phase.model or message.config_digest != ctx.plan.config_digest():
        raise PeerError(sender, "has another model or configuration than the server")
    if message.limits != ctx.plan.published_limits:
        raise PeerError(sender, "demands other leakage limits than in the configuration it signed")
    if clustering.is_founded(message.atom_seed) and message.atom_seed != phase.standing.atom_seed:
        raise PeerError(sender, "states atoms that this run does not have")
    if not is_valid_group(ctx.plan, message.group):
        raise PeerError(sender, f"names group {message.group}, which does not exist")
    if sender in phase.hellos or sender in phase.excluded or not event.signed:
        raise PeerError(sender, "sends a Hello at the wrong time")
    after = connections.expect_answers(phase, sender, event.session)
    return replace(after, hellos={**phase.hellos, sender: (message, event.signed)})


def close_hellos(
    ctx: phases.ServerContext, phase: phases.CollectingHellos, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Announce all hellos, or skip the round if there are too few."""
    present = sorted(phase.hellos)
    hellos = {party: phase.hellos[party][0] for party in present}
    atom_seed = phase.standing.atom_seed
    if reason_atoms_unknown(hellos, atom_seed) and resuming.may_be_unknown_atoms(ctx, atom_seed):
        phase, atom_seed = replace(phase, standing=replace(phase.standing, atom_seed=b"")), b""
    lacking = shortage(ctx.plan, present, atom_seed)
    reason = lacking or reason_atoms_unknown(hellos, atom_seed)
    if reason is not None:
        reason = f"{len(present)} parties are there; {reason}"
        if lacking is not None and phase.excluded <= phase.standing.excluded:
            return _wait_for_quorum(ctx, phase, tuple(present), reason, now)
        return skip_round(ctx, phase.standing, tuple(present), reason)
    if phase.standing.claims.pending is not None:
        # Parties must not train on an unconfirmed model; waiting costs no time, as hellos came meanwhile.
        return phases.Attesting(phase.standing, now + proving.attesting_time(ctx), phase), ()
    roster, known = frozenset(ctx.plan.roster.parties), phase.standing.session
    late = roster - frozenset(present)
    absent, ended = update_absences(known.absent, phase.standing.round, present, roster - phase.excluded)
    standing = replace(
        phase.standing,
        late=late,
        session=replace(known, absent=absent),
        quorum=replace(phase.standing.quorum, present=len(present), skipped_in_a_row=0, waited_seconds=0.0),
    )
    revealing = phases.CollectingNonces(
        standing,
        phase.draw,
        phase.model,
        phase.excluded,
        hellos,
        {},
        now + ctx.plan.scenario.deadlines.reveal,
    )
    hellos_said = messages.Announce(hellos=tuple(phase.hellos[party][1] for party in present))
    announce = proving.with_chain(ctx, standing, phase.draw, hellos_said)
    return revealing, (
        *ended,
        kernel.Report(reports.StepReached(phase.standing.round, "reveal")),
        kernel.Journal(phase.standing.round, kernel.ANNOUNCED),
        kernel.Send(EVERYONE, kernel.Place(phase.standing.round, attempt=phase.draw), announce),
    )


def _wait_for_quorum(
    ctx: phases.ServerContext,
    phase: phases.CollectingHellos,
    present: tuple[PartyId, ...],
    reason: str,
    now: float,
) -> tuple[phases.ServerPhase, reports.Effects]:
    waits = phase.waits + 1
    standing = stepping.add_waits(ctx.plan, phase.standing, 1)
    awaited = kernel.Report(reports.QuorumAwaited(standing.round, reason, standing.quorum.waited_seconds))
    if waits < stepping.allowed_waits(ctx.plan, standing) and not stepping.is_quorum_overdue(
        ctx.plan, standing
    ):
        return replace(
            phase, standing=standing, waits=waits, deadline=now + allowed_seconds(ctx.plan, "hello")
        ), (awaited,)
    standing = replace(
        standing, quorum=replace(standing.quorum, skipped_in_a_row=standing.quorum.skipped_in_a_row + 1)
    )
    skipped, effects = skip_round(ctx, standing, present, reason, alone=True)
    return skipped, (awaited, *effects)


def on_reveal(
    ctx: phases.ServerContext,
    phase: phases.CollectingNonces,
    sender: PartyId,
    place: kernel.Place,
    message: messages.Reveal,
    signed: bytes,
) -> phases.CollectingNonces:
    """Accept an announced party's nonce."""
    round_ = phase.standing.round
    if place != kernel.Place(round_, attempt=phase.draw) or sender not in phase.hellos or not signed:
        raise PeerError(sender, "reveals a nonce at the wrong time")
    if sender in phase.reveals:
        raise PeerError(sender, "reveals its nonce twice")
    expected = phase.hellos[sender].commitment
    if clustering.commitment(message.nonce, ctx.plan.run, round_, phase.draw, sender) != expected:
        raise PeerError(sender, "reveals another nonce than it committed to")
    return replace(phase, reveals={**phase.reveals, sender: (message, signed)})


def close_reveals(
    ctx: phases.ServerContext, phase: phases.CollectingNonces, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Relay all nonces and start the instances; a missing nonce voids the draw."""
    withheld = tuple(sorted(phase.hellos.keys() - phase.reveals.keys()))
    if withheld:
        return _redraw(ctx, phase, withheld, now)
    plan, round_ = ctx.plan, phase.standing.round
    frames = tuple(phase.reveals[party][1] for party in sorted(phase.reveals))
    nonces = {party: reveal.nonce for party, (reveal, _) in phase.reveals.items()}
    samples = {party: hello.samples for party, hello in phase.hellos.items()}
    standing = phase.standing
    atom_seed = atom_seed_of(plan, phase.hellos, standing.atom_seed)
    groups = {party: hello.group for party, hello in phase.hellos.items()}
    drawn = draw_round(plan, round_, phase.draw, phase.model, nonces, samples, atom_seed, groups)
    standing = replace(standing, atom_seed=drawn.atom_seed)
    assignment = drawn.assignment
    formed = drawn.atom_seed if drawn.atom_seed != phase.standing.atom_seed else b""
    relayed: reports.Effects = (
        *((kernel.Journal(round_, kernel.ATOMS + formed.hex()),) if formed else ()),
        kernel.Journal(round_, resuming.draw_entry(assignment.clusters)),
        kernel.Send(EVERYONE, kernel.Place(round_, attempt=phase.draw), messages.Reveals(reveals=frames)),
    )
    if not assignment.participants:
        present = tuple(sorted(nonces))
        skipped, effects = skip_round(ctx, standing, present, reason_none_drawn(plan, present, drawn))
        return skipped, relayed + effects
    announced = statement.announced_digest(phase.hellos)
    binding = statement.mask_binding(assignment, announced, phase.model, plan.config_digest())
    instances: dict[tuple[int, int], secure_sum.ServerPhase] = {
        (r, j): secure_sum.CollectingKeys(plan.setup(kernel.Place(round_, r, j, 0), members, binding))
        for r, row in enumerate(assignment.clusters)
        for j, members in enumerate(row)
    }
    deadlines = dict.fromkeys(instances, now + plan.scenario.deadlines.keys)
    limits = {party: hello.limits for party, hello in phase.hellos.items()}
    view = phases.RoundView(phase.model, announced, limits, drawn, samples)
    summing = phases.Summing(standing, view, instances, deadlines, dict.fromkeys(instances, now))
    return summing, (
        kernel.Report(drawn_report(round_, drawn, samples)),
        kernel.Report(reports.StepReached(round_, "training")),
        *relayed,
    )


def _redraw(
    ctx: phases.ServerContext, phase: phases.CollectingNonces, withheld: tuple[PartyId, ...], now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    round_, standing = phase.standing.round, phase.standing
    suspicion = lost_bets(ctx.plan, standing.suspicion, phase.draw, phase.hellos)
    standing = replace(standing, suspicion=suspicion)
    voided = kernel.Report(reports.DrawVoided(round_, phase.draw, withheld))
    if phase.draw >= MAX_REDRAWS:
        reason = f"nonces were withheld in {MAX_REDRAWS + 1} draws"
        skipped, effects = skip_round(ctx, standing, tuple(sorted(phase.hellos)), reason)
        return skipped, (voided, *effects)
    excluded = phase.excluded | frozenset(withheld)
    greeting, effects = invite(ctx, standing, phase.draw + 1, phase.model, excluded, now)
    return greeting, (voided, *effects)


def skip_round(
    ctx: phases.ServerContext,
    standing: phases.ServerState,
    present: tuple[PartyId, ...],
    reason: str,
    *,
    alone: bool = False,
) -> tuple[phases.ServerPhase, reports.Effects]:
    """End a round without an update; too many in a row end the run.

    Those without enough parties (``alone``) count in seconds instead.
    """
    round_ = standing.round
    late = standing.late | (standing.session.disconnected.keys() - frozenset(present))
    standing = replace(standing, late=late)
    standing, done, effects = walk.end_void_round(ctx.plan, standing, present, alone=alone)
    return phases.Evaluating(standing, done), (
        kernel.Report(reports.RoundSkipped(round_, reason)),
        *map(kernel.Report, effects),
        kernel.Evaluate(round_, standing.params),
    )


def abort(reason: str) -> tuple[phases.ServerPhase, reports.Effects]:
    """Abort the run for all parties."""
    goodbye = messages.Goodbye(reason=reason[:1000], aborted=True)
    return phases.Ended(goodbye), (kernel.Send(EVERYONE, kernel.Place(-1), goodbye), kernel.Aborted(reason))
