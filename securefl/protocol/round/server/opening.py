"""The server's last third of a round: certify, collect releases, open, aggregate, step, evaluate, stop.

A rule that needs a gradient of the server's own data gets it between opening and aggregating.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from securefl.base.arrays import F64, Ring
from securefl.base.crypto import BoxError
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import EVERYONE, PartyId
from securefl.base.text import count
from securefl.methods.clustering import COUNTS, hides_groups
from securefl.protocol.kernel import (
    Aborted,
    Consult,
    Consulted,
    Evaluate,
    Evaluated,
    Finished,
    Place,
    Reject,
    Report,
    Send,
)
from securefl.protocol.messages import Certificate, Endorse, Goodbye, Release, ReleasedShares, SlotCounts
from securefl.protocol.round.server.accusing import of_deals
from securefl.protocol.round.server.checking import checks_of, failed, too_long
from securefl.protocol.round.server.gather import abort, begin_round, close_hellos, skip_round
from securefl.protocol.round.server.measuring import first_unused, judged, kept_model, with_metrics
from securefl.protocol.round.server.phases import (
    Attesting,
    Certifying,
    Consulting,
    Ended,
    Evaluating,
    Frozen,
    Releasing,
    ServerContext,
    ServerPhase,
    Standing,
)
from securefl.protocol.round.server.proving import (
    CLAIMED_OTHERWISE,
    Unmasked,
    attesting_time,
    claim_step,
    claimed_otherwise,
    confirmation,
    confirmed,
    unconfirmed,
    without_claim,
)
from securefl.protocol.round.server.reopening import begin_releasing
from securefl.protocol.round.server.resuming import keep
from securefl.protocol.round.server.stacking import NO_GRADIENTS, ClusterSum
from securefl.protocol.round.server.stepping import after_evaluation, after_sums, to_consult
from securefl.protocol.round.server.suspicion import weighed
from securefl.protocol.round.shared.blame import ConvictedError, with_charge
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import (
    AnyReport,
    ClaimRefused,
    ClusterKey,
    ConsultingFailed,
    Convicted,
    Effects,
    InstanceLost,
    ModelFinal,
    StepReached,
    SumOpened,
)
from securefl.protocol.round.shared.slots import counted, least_in_slot, opened_slots, totals_of
from securefl.protocol.round.shared.statement import release_context, slots_statement
from securefl.protocol.secure_sum import OpenedSecrets, Opening
from securefl.protocol.wire import decode_struct


def is_count(plan: RunPlan, key: ClusterKey) -> bool:
    """Whether an instance sums counts of hidden groups."""
    return hides_groups(plan.scenario.groups) and key[0] == COUNTS


def due_now(plan: RunPlan, phase: Releasing) -> Collection[ClusterKey]:
    """The instances whose shares are being released."""
    instances = phase.frozen.instances
    if not hides_groups(plan.scenario.groups):
        return instances.keys()
    if phase.counts is None:
        return {key for key in instances if key[0] == COUNTS}
    return opened_slots(phase.counts) & instances.keys()


def ask_slots(
    ctx: ServerContext, phase: Releasing, sums: Sequence[ClusterSum], now: float
) -> tuple[Releasing, Effects]:
    """Tell every cluster whose counts were opened which seats are taken; its members know what to release.

    A cluster whose counts are impossible is told nothing: an honest member would refuse them.
    """
    plan, round_ = ctx.plan, phase.standing.round
    limits = (phase.view.limits[party] for party in phase.frozen.survivors)
    found = counted(round_, sums, least_in_slot(plan, limits))
    asking = replace(
        phase,
        released=frozenset(),
        shares={},
        deadline=now + plan.scenario.deadlines.release,
        counts=found,
    )
    survivors = {one.cluster: one.survivors for one in sums}
    tell: Effects = tuple(
        Send(party, Place(round_), SlotCounts(seats=one.seats))
        for one in found
        if one.slots
        for party in survivors[one.cluster]
    )
    return asking, (*map(Report, found), Report(StepReached(round_, "release")), *tell)


def unmask_all(ctx: ServerContext, phase: Releasing) -> tuple[Unmasked, Effects]:
    """Open every sum that is due, as far as its releases allow; what is lost is reported."""
    frozen, round_, server = phase.frozen, phase.standing.round, ctx.plan.sums.server
    sums: list[ClusterSum] = []
    opened_by: dict[ClusterKey, OpenedSecrets] = {}
    effects: list[Report[AnyReport] | Reject] = []
    due = due_now(ctx.plan, phase)
    for key, instance in sorted(frozen.instances.items()):
        if key not in due:
            continue
        releases, needed = phase.shares.get(key, {}), instance.needed(frozen.survivors)
        if len(releases) < needed:
            reason = f"{count(len(releases), 'member')} released shares, {needed} are needed"
            effects.append(Report(InstanceLost(round_, *key, reason)))
            continue
        try:
            secrets = server.recovered(instance, frozen.survivors, releases)
            ring = _opened(ctx, phase, key, secrets)
        except PeerError as error:
            effects += [
                Reject(error.culprit, error.reason),
                Report(InstanceLost(round_, *key, f"{error.culprit} {error.reason}")),
            ]
            found = with_charge(error, of_deals(ctx.plan, instance, frozen.survivors, releases), ctx.plan)
            if isinstance(found, ConvictedError):
                effects.append(Report(Convicted(round_, *found.conviction, found.charge)))
            continue
        doubt = server.doubt(instance, ring, phase.view.drawn.weights)
        if doubt:
            effects.append(Report(InstanceLost(round_, *key, doubt)))
            continue
        members = instance.setup.members
        alive = tuple(members[i] for i in instance.alive(frozen.survivors))
        opened = ClusterSum(*key, members=members, survivors=alive, ring=ring)
        sums.append(opened)
        if instance.setup.verified:
            opened_by[key] = secrets
        if not is_count(ctx.plan, key):
            effects.append(Report(SumOpened(round_, opened)))
    return Unmasked(tuple(sums), opened_by), tuple(effects)


def _opened(ctx: ServerContext, phase: Releasing, key: ClusterKey, secrets: OpenedSecrets) -> Ring:
    """The sum, of vectors that are added up already, or now.

    Raises:
        PeerError: somebody's secret is another one than it advertised.
    """
    server, instance = ctx.plan.sums.server, phase.frozen.instances[key]
    fixed = instance.fixed(phase.frozen.survivors)
    if key not in phase.totals:
        return server.sum_of(fixed, secrets, instance.vectors(ctx.store))
    ring = phase.totals[key].copy()
    server.unmask(ring, fixed, secrets)
    return ring


def on_endorse(
    phase: Certifying, sender: PartyId, place: Place, message: Endorse, signed: bytes
) -> Certifying:
    """Take one endorsement.

    Raises:
        PeerError: not a survivor, a second one, or of something else than the frozen statement.
    """
    if place != Place(phase.standing.round) or sender not in phase.frozen.survivors or not signed:
        raise PeerError(sender, "endorses out of turn")
    if sender in phase.endorsements:
        raise PeerError(sender, "endorses twice")
    if message.statement != phase.frozen.statement or message.ledger_head != phase.frozen.ledger:
        raise PeerError(sender, "endorses another statement than the frozen one")
    return replace(phase, endorsements={**phase.endorsements, sender: (message, signed)})


def close_certifying(ctx: ServerContext, phase: Certifying, now: float) -> tuple[ServerPhase, Effects]:
    """Send the certificate; without a quorum nothing will be released."""
    round_, quorum = phase.standing.round, ctx.plan.limits.quorum or 0
    if len(phase.endorsements) < quorum:
        reason = f"{len(phase.endorsements)} endorsements, a certificate needs {quorum}"
        lost = tuple(Report(InstanceLost(round_, r, j, reason)) for r, j in sorted(phase.frozen.instances))
        nothing = Frozen(frozenset(), phase.frozen.statement, phase.frozen.ledger, {})
        return Releasing(phase.standing, phase.view, nothing, frozenset(), {}, now), lost
    frames = tuple(frame for _, (_, frame) in sorted(phase.endorsements.items()))
    releasing, kept = begin_releasing(ctx, phase.standing, phase.view, phase.frozen, frames, now)
    return releasing, (
        *kept,
        Report(StepReached(round_, "release")),
        Send(EVERYONE, Place(round_), Certificate(endorsements=frames)),
    )


def on_release(
    ctx: ServerContext, phase: Releasing, sender: PartyId, place: Place, message: Release
) -> tuple[Releasing, Effects]:
    """Take one survivor's shares. A wrong share in one instance does not spoil the sender's others.

    Raises:
        PeerError: not a survivor, a second release, or a box that does not open.
    """
    if place != Place(phase.standing.round) or sender not in phase.awaited:
        raise PeerError(sender, "releases out of turn")
    if sender in phase.released:
        if phase.again:
            return phase, ()
        raise PeerError(sender, "releases twice")
    try:
        opened = ctx.identity.open_sealed(message.sealed, release_context(_stated(phase, sender), sender))
    except BoxError as error:
        raise PeerError(sender, "its release does not open") from error
    released = decode_struct(ReleasedShares, opened, sender)
    shares = {key: dict(held) for key, held in phase.shares.items()}
    rejects: list[Reject] = []
    due = due_now(ctx.plan, phase)
    for item in released.instances:
        try:
            shares.setdefault(_checked(ctx, phase.frozen, due, sender, item), {})[sender] = item
        except PeerError as error:
            rejects.append(Reject(error.culprit, error.reason))
    return replace(phase, released=phase.released | {sender}, shares=shares), tuple(rejects)


def _stated(phase: Releasing, sender: PartyId) -> bytes:
    """The statement that the sender's release is bound to."""
    told = next(
        (
            one.seats
            for one in phase.counts or ()
            if sender in phase.view.assignment.clusters[COUNTS][one.cluster]
        ),
        None,
    )
    return phase.frozen.statement if told is None else slots_statement(phase.frozen.statement, told)


def _checked(
    ctx: ServerContext, frozen: Frozen, due: Collection[ClusterKey], sender: PartyId, item: Opening
) -> ClusterKey:
    key = (item.reclustering, item.cluster)
    if key in frozen.instances and key not in due:
        raise PeerError(sender, f"releases shares of instance {key}, which nobody asked for")
    instance = frozen.instances.get(key)
    if instance is None or item.attempt != instance.setup.instance.attempt:
        raise PeerError(
            sender, f"releases shares of instance {key} attempt {item.attempt}, which is not frozen"
        )
    ctx.plan.sums.server.check_release(instance, frozen.survivors, sender, item)
    return key


def close_releasing(ctx: ServerContext, phase: Releasing, now: float) -> tuple[ServerPhase, Effects]:
    """Open what can be opened, and check it; then step, or first ask the server's own data if need be.

    With hidden groups the counts come first, and if any slot may be opened its shares are waited for.
    """
    unmasked, effects = unmask_all(ctx, phase)
    if phase.counts is None and hides_groups(ctx.plan.scenario.groups):
        asking, more = ask_slots(ctx, phase, unmasked.sums, now)
        if asking.awaited:
            return asking, (*effects, *more)
        phase, unmasked, effects = asking, Unmasked(), (*effects, *more)
    wrong = frozenset(
        one.item.culprit for one in effects if isinstance(one, Report) and isinstance(one.item, Convicted)
    )
    secure, lost = ctx.plan.scenario.secure_sum, len(phase.frozen.instances) - len(unmasked.sums)
    if secure.verified and lost > secure.lost_clusters:
        # The server is to have no choice among subsets: all certified sums count, or there is no step.
        allowed = f"all but {secure.lost_clusters}" if secure.lost_clusters else "all"
        reason = f"{count(lost, 'certified sum')} did not open, and a step takes {allowed} of them"
        unmasked, effects = Unmasked(), (*effects, Report(ClaimRefused(phase.standing.round, reason)))
    evaluating, more = _close_opened(ctx, phase, unmasked)
    if claimed_otherwise(ctx, evaluating.standing):
        # Two claims would convict this server, which cannot prove the first one any more.
        effects = (*effects, Report(ClaimRefused(phase.standing.round, CLAIMED_OTHERWISE)))
        evaluating, more = _close_opened(ctx, phase, Unmasked())
    ctx.store.discard_all()
    if wrong:
        # It costs this round at most; and each of them one round of the run, not the run.
        standing = evaluating.standing
        standing = replace(
            standing,
            barred=standing.barred | {PartyId(name) for name in wrong},
            fruitless_rounds=min(standing.fruitless_rounds, phase.standing.fruitless_rounds),
        )
        evaluating = replace(evaluating, standing=standing)
    return evaluating, (*effects, *more)


def _close_opened(
    ctx: ServerContext, phase: Releasing, unmasked: Unmasked
) -> tuple[Evaluating | Consulting, Effects]:
    sums = unmasked.sums
    standing, drawn, survivors = phase.standing, phase.view.drawn, phase.frozen.survivors
    checked, long = checks_of(ctx.plan, standing.round, sums), too_long(ctx.plan, standing.round, sums)
    effects: Effects = tuple(map(Report, (*checked, *long)))
    excluded = failed((*checked, *long))
    standing = replace(standing, suspicion=weighed(ctx.plan, standing.suspicion, drawn, sums, checked))
    asked = to_consult(ctx.plan, sums, excluded)
    if not asked:
        totals = None if phase.counts is None else totals_of(phase.counts)
        evaluating, more = _step(ctx, standing, drawn, survivors, sums, excluded, totals=totals)
        if evaluating.standing.updates == standing.updates:
            return evaluating, (*effects, *more)
        claimed, proofs = claim_step(ctx, standing, evaluating.standing, phase.view, phase.frozen, unmasked)
        return replace(evaluating, standing=claimed), (*effects, *proofs, *more)
    consulting = Consulting(standing, drawn, survivors, sums, excluded, asked)
    consult = Consult(standing.round, standing.params, asked)
    return consulting, (*effects, Report(StepReached(standing.round, "consult")), consult)


def on_consulted(ctx: ServerContext, phase: Consulting, event: Consulted) -> tuple[ServerPhase, Effects]:
    """Aggregate with the gradients and step; without them the model stays as it is.

    Raises:
        UsageError: not one finite f64 ``(d,)`` gradient for each reclustering asked for: a bug.
    """
    standing, gradients = phase.standing, NO_GRADIENTS
    failing: Effects = ()
    if event.gradients is None:
        failing = (Report(ConsultingFailed(standing.round, event.failure)),)
    elif len(event.gradients) != len(phase.asked):
        raise UsageError(f"{len(event.gradients)} gradients for {len(phase.asked)} reclusterings")
    else:
        gradients = dict(zip(phase.asked, event.gradients, strict=True))
    evaluating, effects = _step(
        ctx, standing, phase.drawn, phase.survivors, phase.sums, phase.excluded, gradients
    )
    return evaluating, (*failing, *effects)


def _step(
    ctx: ServerContext,
    standing: Standing,
    drawn: Draw,
    survivors: Collection[PartyId],
    sums: Sequence[ClusterSum],
    excluded: Collection[ClusterKey],
    gradients: Mapping[int, F64] = NO_GRADIENTS,
    totals: Mapping[ClusterKey, int] | None = None,
) -> tuple[Evaluating, Effects]:
    """Aggregate, step and ask for an evaluation."""
    params = standing.params
    standing, done, stepped = after_sums(
        ctx.plan, standing, drawn, survivors, sums, gradients, excluded, totals
    )
    done = with_metrics(ctx.plan, done, sums)
    standing = judged(ctx.plan, standing, params, done)
    unused = map(Report, first_unused(ctx.plan, standing, done))
    return Evaluating(standing, done), (Report(stepped), *unused, Evaluate(standing.round, standing.params))


def on_evaluated(ctx: ServerContext, phase: Evaluating, event: Evaluated) -> tuple[ServerPhase, Effects]:
    """Report the round; then stop, give up, or begin the next one."""
    tested = replace(
        phase.done, accuracy=event.accuracy, loss=event.loss, backdoor_success=event.backdoor_success
    )
    done = Report(tested)
    standing, outcome = after_evaluation(ctx.plan, phase.standing, tested)
    if outcome is None and phase.again and standing.pending is not None:
        return Attesting(standing, event.now + attesting_time(ctx), None), (done,)
    if outcome is None:
        greeting, effects = begin_round(ctx, standing, event.now)
        return greeting, (done, *effects)
    if isinstance(outcome, Finished) and standing.pending is not None:
        return Attesting(standing, event.now + attesting_time(ctx), outcome), (done,)
    ended, effects = _end(without_claim(standing), outcome)
    return ended, (done, *effects)


def close_attesting(ctx: ServerContext, phase: Attesting, now: float) -> tuple[ServerPhase, Effects]:
    """Go on with the model that verifiers confirm, or without the round that made it."""
    standing, pending = phase.standing, phase.standing.pending
    if pending is None:
        raise UsageError("nothing is claimed")
    lacks = unconfirmed(ctx, pending)
    told: Report[AnyReport]
    if lacks is None:
        standing, told = confirmed(ctx, standing), Report(confirmation(pending))
    else:
        standing, told = without_claim(standing), Report(ClaimRefused(pending.certified.round, lacks))
    if isinstance(phase.then, Finished):
        outcome = (
            phase.then if standing.updates else Aborted(f"{phase.then.reason}, and no update was confirmed")
        )
        ended, effects = _end(standing, outcome)
        return ended, (told, *effects)
    noted = keep(standing)
    if phase.then is None:
        begun, effects = begin_round(ctx, standing, now)
        return begun, (told, noted, *effects)
    greeting = replace(phase.then, standing=standing)
    if lacks is None:
        # Verifiers do not say again what they have seen confirmed.
        after, effects = close_hellos(ctx, greeting, now)
        effects = (noted, *effects)
    else:
        after, effects = skip_round(
            ctx, standing, tuple(sorted(greeting.hellos)), f"nobody trains on it: {lacks}"
        )
    return after, (told, *effects)


def _end(standing: Standing, outcome: Finished | Aborted) -> tuple[ServerPhase, Effects]:
    final = Report(ModelFinal(standing.round, standing.params))
    if isinstance(outcome, Aborted):
        ended, effects = abort(outcome.reason)
        return ended, (final, *effects)
    goodbye = Goodbye(reason=outcome.reason, aborted=False)
    best = () if standing.best is None else kept_model(standing.best)
    return Ended(goodbye), (final, *best, Send(EVERYONE, Place(-1), goodbye), outcome)
