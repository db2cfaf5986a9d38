"""The server's first half of a round: invite, announce, relay the nonces, draw the clusters."""

from __future__ import annotations

from dataclasses import replace

from securefl.base.errors import PeerError
from securefl.base.ids import EVERYONE, PartyId
from securefl.methods.clustering import commitment, is_founded
from securefl.protocol.kernel import (
    ANNOUNCED,
    ATOMS,
    Aborted,
    AllSent,
    AwaitSent,
    Evaluate,
    Journal,
    Place,
    Report,
    Send,
)
from securefl.protocol.messages import Announce, Goodbye, Hello, Invite, ModelAnnounce, Reveal, Reveals
from securefl.protocol.round.party.draw import MAX_REDRAWS
from securefl.protocol.round.server.phases import (
    Attesting,
    Ended,
    Evaluating,
    Greeting,
    Revealing,
    RoundView,
    ServerContext,
    ServerPhase,
    Standing,
    Summing,
)
from securefl.protocol.round.server.proving import attesting_time, chained
from securefl.protocol.round.server.resuming import drew_step, left_open, pause, unheard_atoms
from securefl.protocol.round.server.stepping import alone_for, waits_of, without_clusters, without_quorum
from securefl.protocol.round.server.suspicion import voided as lost_bets
from securefl.protocol.round.server.waiting import Pace
from securefl.protocol.round.shared.allowance import allowed
from securefl.protocol.round.shared.atom_seed import atom_seed_of, forgotten
from securefl.protocol.round.shared.draw import draw_round, drawn_report, shortage, unfit
from securefl.protocol.round.shared.groups import fits_groups
from securefl.protocol.round.shared.lateness import late_reason
from securefl.protocol.round.shared.reports import (
    DrawVoided,
    Effects,
    ModelSent,
    QuorumAwaited,
    RoundSkipped,
    RoundStarted,
    StepReached,
)
from securefl.protocol.round.shared.statement import announced_digest, mask_binding, model_digest
from securefl.protocol.secure_sum import CollectingKeys
from securefl.protocol.secure_sum import ServerPhase as InstancePhase
from securefl.protocol.wire import epoch_of


def begin_round(ctx: ServerContext, standing: Standing, now: float) -> tuple[ServerPhase, Effects]:
    """Send the model to all and invite them; unless the round is void already, or the server is to stop."""
    if standing.pausing:
        return pause(standing.pausing)
    void = left_open(ctx, standing)
    if void is not None:
        return void
    model = model_digest(standing.params)
    standing = replace(standing, interrupted=standing.clock.since is not None)
    greeting, effects = invite(ctx, standing, 0, model, standing.barred, now)
    return greeting, (
        Report(RoundStarted(standing.round, model)),
        Send(EVERYONE, Place(standing.round), model_of(standing)),
        *effects,
    )


def model_of(standing: Standing) -> ModelAnnounce:
    """The models that the round starts from, as parties take them."""
    return ModelAnnounce(params=standing.params.astype("<f4", copy=False).tobytes())


def invitation(ctx: ServerContext, model: bytes, excluded: frozenset[PartyId]) -> Invite:
    """Asks for a hello with a fresh commitment."""
    return Invite(
        model_digest=model, config_digest=ctx.plan.config_digest(), excluded=tuple(sorted(excluded))
    )


def invite(
    ctx: ServerContext, standing: Standing, draw: int, model: bytes, excluded: frozenset[PartyId], now: float
) -> tuple[Greeting, Effects]:
    """Ask for hellos with fresh commitments."""
    message = invitation(ctx, model, excluded)
    standing = replace(standing, pace=Pace(now))
    deadline = now + ctx.plan.scenario.deadlines.quorum
    return Greeting(standing, draw, model, excluded, {}, deadline), (
        Report(StepReached(standing.round, "hello")),
        Send(EVERYONE, Place(standing.round, attempt=draw), message),
        AwaitSent(standing.round, draw),
    )


def on_all_sent(ctx: ServerContext, phase: Greeting, event: AllSent) -> tuple[Greeting, Effects]:
    """Begin to wait: a large model would spend the time of the hellos on its way."""
    if (event.round, event.draw) != (phase.standing.round, phase.draw) or phase.sent:
        return phase, ()
    waiting = replace(phase, sent=True, deadline=event.now + allowed(ctx.plan, "hello"))
    return waiting, (Report(ModelSent(event.round, event.draw)),)


def invited_again(ctx: ServerContext, phase: Greeting, party: PartyId) -> tuple[Greeting, Effects]:
    """Send the round's model and invitation to a party whose process has started since they left: once.

    A few words would be answered with a model each time otherwise.
    """
    standing, known = phase.standing, phase.hellos.keys() | phase.excluded | phase.again
    if party in known or party not in ctx.plan.roster.parties:
        return phase, ()
    if phase.draw:
        # It would have to answer the first draw of the round first, which is void.
        return phase, ()
    return replace(phase, again=phase.again | {party}), (
        Send(party, Place(standing.round), model_of(standing)),
        Send(party, Place(standing.round), invitation(ctx, phase.model, phase.excluded)),
    )


def on_hello(
    ctx: ServerContext, phase: Greeting, sender: PartyId, place: Place, message: Hello, signed: bytes
) -> Greeting:
    """Take one hello.

    Raises:
        PeerError: another server, draw, model, configuration or limits, a second hello, or an excluded party.
    """
    if epoch_of(message.leader) < phase.standing.epoch:
        # Under way when this server was started: nobody's fault, and no use.
        return phase
    if message.leader != phase.standing.leader:
        raise PeerError(sender, "says hello to another server")
    if place.round < phase.standing.round:
        raise PeerError(sender, late_reason("Hello", place.round, "the server is greeting"))
    if place != Place(phase.standing.round, attempt=phase.draw):
        raise PeerError(sender, f"says hello for round {place.round} draw {place.attempt}")
    if message.model_digest != phase.model or message.config_digest != ctx.plan.config_digest():
        raise PeerError(sender, "says hello with another model or configuration")
    if message.limits != ctx.plan.published_limits:
        raise PeerError(sender, "demands other limits than those of the configuration that it signed")
    if is_founded(message.atom_seed) and message.atom_seed != phase.standing.atom_seed:
        raise PeerError(sender, "states atoms that this run does not have")
    if not fits_groups(ctx.plan, message.group):
        raise PeerError(sender, f"says that it is in group {message.group}, which there is not")
    if sender in phase.hellos or sender in phase.excluded or not signed:
        raise PeerError(sender, "says hello out of turn")
    return replace(phase, hellos={**phase.hellos, sender: (message, signed)})


def close_hellos(ctx: ServerContext, phase: Greeting, now: float) -> tuple[ServerPhase, Effects]:
    """Announce everybody who said hello; skip the round when they are too few for it."""
    present = sorted(phase.hellos)
    hellos = {party: phase.hellos[party][0] for party in present}
    atom_seed = phase.standing.atom_seed
    if forgotten(hellos, atom_seed) and unheard_atoms(ctx, atom_seed):
        phase, atom_seed = replace(phase, standing=replace(phase.standing, atom_seed=b"")), b""
    lacking = shortage(ctx.plan, present, atom_seed)
    reason = lacking or forgotten(hellos, atom_seed)
    if reason is not None:
        reason = f"{len(present)} parties are there; {reason}"
        if lacking is not None and phase.excluded <= phase.standing.barred:
            return _wait_on(ctx, phase, tuple(present), reason, now)
        return skip_round(ctx, phase.standing, tuple(present), reason)
    if phase.standing.pending is not None:
        # Nobody is to train on what is not confirmed: hellos have come meanwhile, so that it costs no time.
        return Attesting(phase.standing, now + attesting_time(ctx), phase), ()
    late = frozenset(ctx.plan.roster.parties) - frozenset(present)
    standing = replace(phase.standing, late=late, present=len(present), lone_rounds=0, lone_seconds=0.0)
    revealing = Revealing(
        standing,
        phase.draw,
        phase.model,
        phase.excluded,
        hellos,
        {},
        now + ctx.plan.scenario.deadlines.reveal,
    )
    hellos_said = Announce(hellos=tuple(phase.hellos[party][1] for party in present))
    announce = chained(ctx, standing, phase.draw, hellos_said)
    return revealing, (
        Report(StepReached(phase.standing.round, "reveal")),
        Journal(phase.standing.round, ANNOUNCED),
        Send(EVERYONE, Place(phase.standing.round, attempt=phase.draw), announce),
    )


def _wait_on(
    ctx: ServerContext, phase: Greeting, present: tuple[PartyId, ...], reason: str, now: float
) -> tuple[ServerPhase, Effects]:
    """Wait for more parties, and longer in each further round for which there are too few."""
    waits = phase.waits + 1
    standing = alone_for(ctx.plan, phase.standing, 1)
    awaited = Report(QuorumAwaited(standing.round, reason, standing.lone_seconds))
    if waits < waits_of(ctx.plan, standing) and not without_quorum(ctx.plan, standing):
        return replace(phase, standing=standing, waits=waits, deadline=now + allowed(ctx.plan, "hello")), (
            awaited,
        )
    standing = replace(standing, lone_rounds=standing.lone_rounds + 1)
    skipped, effects = skip_round(ctx, standing, present, reason, alone=True)
    return skipped, (awaited, *effects)


def on_reveal(
    ctx: ServerContext, phase: Revealing, sender: PartyId, place: Place, message: Reveal, signed: bytes
) -> Revealing:
    """Take one nonce.

    Raises:
        PeerError: another draw, not announced, a second nonce, or not the one committed to.
    """
    round_ = phase.standing.round
    if place != Place(round_, attempt=phase.draw) or sender not in phase.hellos or not signed:
        raise PeerError(sender, "reveals a nonce out of turn")
    if sender in phase.reveals:
        raise PeerError(sender, "reveals twice")
    expected = phase.hellos[sender].commitment
    if commitment(message.nonce, ctx.plan.run, round_, phase.draw, sender) != expected:
        raise PeerError(sender, "reveals another nonce than it committed to")
    return replace(phase, reveals={**phase.reveals, sender: (message, signed)})


def close_reveals(ctx: ServerContext, phase: Revealing, now: float) -> tuple[ServerPhase, Effects]:
    """Relay all nonces and start the instances; or void the draw if a nonce is missing."""
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
    relayed: Effects = (
        *((Journal(round_, ATOMS + formed.hex()),) if formed else ()),
        Journal(round_, drew_step(assignment.clusters)),
        Send(EVERYONE, Place(round_, attempt=phase.draw), Reveals(reveals=frames)),
    )
    if not assignment.participants:
        present = tuple(sorted(nonces))
        skipped, effects = skip_round(ctx, standing, present, unfit(plan, present, drawn))
        return skipped, relayed + effects
    announced = announced_digest(phase.hellos)
    binding = mask_binding(assignment, announced, phase.model, plan.config_digest())
    instances: dict[tuple[int, int], InstancePhase] = {
        (r, j): CollectingKeys(plan.setup(Place(round_, r, j, 0), members, binding))
        for r, row in enumerate(assignment.clusters)
        for j, members in enumerate(row)
    }
    deadlines = dict.fromkeys(instances, now + plan.scenario.deadlines.keys)
    limits = {party: hello.limits for party, hello in phase.hellos.items()}
    view = RoundView(phase.model, announced, limits, drawn, samples)
    summing = Summing(standing, view, instances, deadlines, dict.fromkeys(instances, now))
    return summing, (
        Report(drawn_report(round_, drawn, samples)),
        Report(StepReached(round_, "training")),
        *relayed,
    )


def _redraw(
    ctx: ServerContext, phase: Revealing, withheld: tuple[PartyId, ...], now: float
) -> tuple[ServerPhase, Effects]:
    round_, standing = phase.standing.round, phase.standing
    suspicion = lost_bets(ctx.plan, standing.suspicion, phase.draw, phase.hellos)
    standing = replace(standing, suspicion=suspicion)
    voided = Report(DrawVoided(round_, phase.draw, withheld))
    if phase.draw >= MAX_REDRAWS:
        reason = f"nonces were withheld in {MAX_REDRAWS + 1} draws"
        skipped, effects = skip_round(ctx, standing, tuple(sorted(phase.hellos)), reason)
        return skipped, (voided, *effects)
    excluded = phase.excluded | frozenset(withheld)
    greeting, effects = invite(ctx, standing, phase.draw + 1, phase.model, excluded, now)
    return greeting, (voided, *effects)


def skip_round(
    ctx: ServerContext,
    standing: Standing,
    present: tuple[PartyId, ...],
    reason: str,
    *,
    alone: bool = False,
) -> tuple[ServerPhase, Effects]:
    """End a round without an update; too many of them in a row end the run.

    ``alone``: for want of parties, which is not counted in rounds but in time.
    """
    round_ = standing.round
    late = standing.late | (standing.gone.keys() - frozenset(present))
    standing = replace(standing, late=late)
    standing, done, stepped = without_clusters(ctx.plan, standing, present, alone=alone)
    return Evaluating(standing, done), (
        Report(RoundSkipped(round_, reason)),
        Report(stepped),
        Evaluate(round_, standing.params),
    )


def abort(reason: str) -> tuple[ServerPhase, Effects]:
    """End the run for everybody."""
    goodbye = Goodbye(reason=reason[:1000], aborted=True)
    return Ended(goodbye), (Send(EVERYONE, Place(-1), goodbye), Aborted(reason))
