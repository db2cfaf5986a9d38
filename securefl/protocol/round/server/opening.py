"""Last part of a round at the server: certify, collect releases, open, aggregate, step, evaluate, stop."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from securefl.base import crypto, text
from securefl.base.arrays import F64, Ring
from securefl.base.errors import PeerError, UsageError
from securefl.base.ids import EVERYONE, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round import walk
from securefl.protocol.round.server import gather, phases, proving, stacking
from securefl.protocol.round.server.accusing import bad_shares_evidence
from securefl.protocol.round.server.features import measuring
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.reopening import begin_releasing
from securefl.protocol.round.server.resuming import checkpoint_effect
from securefl.protocol.round.shared import reports, slots, statement
from securefl.protocol.round.shared.plan import RunPlan


def is_count_instance(plan: RunPlan, key: reports.ClusterKey) -> bool:
    """Return True if an instance sums the counts of hidden groups."""
    return clustering.hides_groups(plan.scenario.groups) and key[0] == clustering.COUNTS


def requested_instances(plan: RunPlan, phase: phases.Releasing) -> Collection[reports.ClusterKey]:
    """Return the instances whose shares are being released."""
    instances = phase.frozen.instances
    if not clustering.hides_groups(plan.scenario.groups):
        return instances.keys()
    if phase.counts is None:
        return {key for key in instances if key[0] == clustering.COUNTS}
    return slots.opened_slots(phase.counts) & instances.keys()


def request_slots(
    ctx: phases.ServerContext, phase: phases.Releasing, sums: Sequence[stacking.ClusterSum], now: float
) -> tuple[phases.Releasing, reports.Effects]:
    """Send each cluster the opened seats of its counts; its members then release slots.

    Impossible counts are not sent: honest members would reject them.
    """
    plan, round_ = ctx.plan, phase.standing.round
    limits = (phase.view.limits[party] for party in phase.frozen.survivors)
    found = slots.count_reports(round_, sums, slots.least_in_slot(plan, limits))
    asking = replace(
        phase,
        released=frozenset(),
        shares={},
        deadline=now + plan.scenario.deadlines.release,
        counts=found,
    )
    survivors = {one.cluster: one.survivors for one in sums}
    tell: reports.Effects = tuple(
        kernel.Send(party, kernel.Place(round_), messages.SlotCounts(seats=one.seats))
        for one in found
        if one.slots
        for party in survivors[one.cluster]
    )
    return asking, (*map(kernel.Report, found), kernel.Report(reports.StepReached(round_, "release")), *tell)


def unmask_all(
    ctx: phases.ServerContext, phase: phases.Releasing
) -> tuple[proving.OpenedSums, reports.Effects]:
    """Open each due sum that has enough releases; report the lost ones."""
    frozen, round_, server = phase.frozen, phase.standing.round, ctx.plan.sums.server
    sums: list[stacking.ClusterSum] = []
    opened_by: dict[reports.ClusterKey, secure_sum.OpenedSecrets] = {}
    effects: list[kernel.Report[reports.AnyReport] | kernel.Reject] = []
    due = requested_instances(ctx.plan, phase)
    for key, instance in sorted(frozen.instances.items()):
        if key not in due:
            continue
        releases, needed = phase.shares.get(key, {}), instance.releases_needed(frozen.survivors)
        if len(releases) < needed:
            reason = f"{text.count(len(releases), 'member')} released shares, {needed} are needed"
            effects.append(kernel.Report(reports.InstanceLost(round_, *key, reason)))
            continue
        try:
            secrets = server.recover_secrets(instance, frozen.survivors, releases)
            ring = _open_sum(ctx, phase, key, secrets)
        except PeerError as error:
            evidence = bad_shares_evidence(ctx.plan, instance, frozen.survivors, releases, error)
            effects += [
                kernel.Reject(error.culprit, error.reason, evidence),
                kernel.Report(reports.InstanceLost(round_, *key, f"{error.culprit} {error.reason}")),
            ]
            continue
        doubt = server.doubt(instance, ring, phase.view.drawn.weights)
        if doubt:
            effects.append(kernel.Report(reports.InstanceLost(round_, *key, doubt)))
            continue
        members = instance.setup.members
        alive = tuple(members[i] for i in instance.alive(frozen.survivors))
        opened = stacking.ClusterSum(*key, members=members, survivors=alive, ring=ring)
        sums.append(opened)
        if instance.setup.verified:
            opened_by[key] = secrets
        if not is_count_instance(ctx.plan, key):
            effects.append(kernel.Report(reports.SumOpened(round_, opened)))
    return proving.OpenedSums(tuple(sums), opened_by), tuple(effects)


def _open_sum(
    ctx: phases.ServerContext,
    phase: phases.Releasing,
    key: reports.ClusterKey,
    secrets: secure_sum.OpenedSecrets,
) -> Ring:
    server, instance = ctx.plan.sums.server, phase.frozen.instances[key]
    fixed = instance.fixed_sum(phase.frozen.survivors)
    if key not in phase.totals:
        return server.sum_of(fixed, secrets, instance.vectors(ctx.store))
    ring = phase.totals[key].copy()
    server.unmask(ring, fixed, secrets)
    return ring


def on_endorse(
    phase: phases.Certifying, sender: PartyId, place: kernel.Place, message: messages.Endorse, signed: bytes
) -> phases.Certifying:
    """Accept a survivor's endorsement of the server's statement.

    Raises:
        PeerError: any other endorsement.
    """
    if place != kernel.Place(phase.standing.round) or sender not in phase.frozen.survivors or not signed:
        raise PeerError(sender, "signs the survivors at the wrong time")
    if sender in phase.endorsements:
        raise PeerError(sender, "signs the survivors twice")
    if message.statement != phase.frozen.statement or message.ledger_head != phase.frozen.ledger:
        raise PeerError(sender, "signs other survivors than the server listed")
    return replace(phase, endorsements={**phase.endorsements, sender: (message, signed)})


def close_certifying(
    ctx: phases.ServerContext, phase: phases.Certifying, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Send the certificate; without a quorum nothing is released."""
    round_, quorum = phase.standing.round, ctx.plan.limits.quorum or 0
    if len(phase.endorsements) < quorum:
        reason = f"{len(phase.endorsements)} signatures, a certificate needs {quorum}"
        lost = tuple(
            kernel.Report(reports.InstanceLost(round_, r, j, reason))
            for r, j in sorted(phase.frozen.instances)
        )
        nothing = phases.Frozen(frozenset(), phase.frozen.statement, phase.frozen.ledger, {})
        return phases.Releasing(phase.standing, phase.view, nothing, frozenset(), {}, now), lost
    frames = tuple(frame for _, (_, frame) in sorted(phase.endorsements.items()))
    releasing, kept = begin_releasing(ctx, phase.standing, phase.view, phase.frozen, frames, now)
    return releasing, (
        *kept,
        kernel.Report(reports.StepReached(round_, "release")),
        kernel.Send(EVERYONE, kernel.Place(round_), messages.Certificate(endorsements=frames)),
    )


def on_release(
    ctx: phases.ServerContext,
    phase: phases.Releasing,
    sender: PartyId,
    place: kernel.Place,
    message: messages.Release,
) -> tuple[phases.Releasing, reports.Effects]:
    """Accept a survivor's shares; a wrong share in one instance leaves the others valid.

    Raises:
        PeerError: it is unexpected, or cannot be decrypted.
    """
    if place != kernel.Place(phase.standing.round) or sender not in phase.awaited_parties:
        raise PeerError(sender, "releases shares at the wrong time")
    if sender in phase.released:
        if phase.is_repeated:
            return phase, ()
        raise PeerError(sender, "releases shares twice")
    try:
        opened = ctx.identity.open_sealed(
            message.sealed, statement.release_context(_release_statement(phase, sender), sender)
        )
    except crypto.BoxError as error:
        raise PeerError(sender, "its released shares cannot be decrypted") from error
    released = wire.decode_struct(messages.ReleasedShares, opened, sender)
    shares = {key: dict(held) for key, held in phase.shares.items()}
    rejects: list[kernel.Reject] = []
    due = requested_instances(ctx.plan, phase)
    for item in released.instances:
        try:
            shares.setdefault(_check_release(ctx, phase.frozen, due, sender, item), {})[sender] = item
        except PeerError as error:
            rejects.append(kernel.Reject(error.culprit, error.reason))
    return replace(phase, released=phase.released | {sender}, shares=shares), tuple(rejects)


def _release_statement(phase: phases.Releasing, sender: PartyId) -> bytes:
    counts = next(
        (
            one.seats
            for one in phase.counts or ()
            if sender in phase.view.assignment.clusters[clustering.COUNTS][one.cluster]
        ),
        None,
    )
    return (
        phase.frozen.statement
        if counts is None
        else statement.slots_statement(phase.frozen.statement, counts)
    )


def _check_release(
    ctx: phases.ServerContext,
    frozen: phases.Frozen,
    due: Collection[reports.ClusterKey],
    sender: PartyId,
    item: secure_sum.Opening,
) -> reports.ClusterKey:
    key = (item.reclustering, item.cluster)
    if key in frozen.instances and key not in due:
        raise PeerError(sender, f"releases shares of instance {key}, which were not requested")
    instance = frozen.instances.get(key)
    if instance is None or item.attempt != instance.setup.instance.attempt:
        raise PeerError(
            sender, f"releases shares of instance {key} attempt {item.attempt}, which was not requested"
        )
    ctx.plan.sums.server.check_release(instance, frozen.survivors, sender, item)
    return key


def close_releasing(
    ctx: phases.ServerContext, phase: phases.Releasing, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Open and check the sums; then step, or consult the server's own data first.

    With hidden groups open the counts first, then wait for slots' shares.
    """
    unmasked, effects = unmask_all(ctx, phase)
    if phase.counts is None and clustering.hides_groups(ctx.plan.scenario.groups):
        asking, more = request_slots(ctx, phase, unmasked.sums, now)
        if asking.awaited_parties:
            return asking, (*effects, *more)
        phase, unmasked, effects = asking, proving.OpenedSums(), (*effects, *more)
    # Committed shares that open no sum are their owner's fault alone.
    wrong = {PartyId(one.culprit) for one in effects if isinstance(one, kernel.Reject) and one.evidence}
    secure, lost = ctx.plan.scenario.secure_sum, len(phase.frozen.instances) - len(unmasked.sums)
    if secure.verified and lost:
        # The server must not choose a subset: all certified sums count, or there is no step.
        reason = f"{text.count(lost, 'certified sum')} could not be opened, but the model needs all of them"
        unmasked, effects = (
            proving.OpenedSums(),
            (*effects, kernel.Report(reports.ClaimRefused(phase.standing.round, reason))),
        )
    evaluating, more = _close_opened(ctx, phase, unmasked)
    if proving.contradicts_earlier_claim(ctx, evaluating.standing):
        # Two claims would convict this server, which can no longer prove the first one.
        effects = (
            *effects,
            kernel.Report(reports.ClaimRefused(phase.standing.round, proving.CLAIMED_OTHERWISE)),
        )
        evaluating, more = _close_opened(ctx, phase, proving.OpenedSums())
    ctx.store.discard_all()
    if wrong:
        # A fault costs at most this round, and each culprit one round of the run.
        standing = evaluating.standing
        standing = replace(
            standing,
            excluded=standing.excluded | wrong,
            rounds_without_update=min(standing.rounds_without_update, phase.standing.rounds_without_update),
        )
        evaluating = replace(evaluating, standing=standing)
    return evaluating, (*effects, *more)


def _close_opened(
    ctx: phases.ServerContext, phase: phases.Releasing, unmasked: proving.OpenedSums
) -> tuple[phases.Evaluating | phases.Consulting, reports.Effects]:
    totals = None if phase.counts is None else slots.slot_totals(phase.counts)
    opened = OpenedRound(phase.view.drawn, phase.frozen.survivors, unmasked.sums, totals)
    standing, opened, checked = walk.screen(ctx.plan, phase.standing, opened)
    effects: reports.Effects = tuple(map(kernel.Report, checked))
    asked = walk.reclusterings_to_consult(ctx.plan, opened.sums, opened.excluded)
    if asked:
        consult = kernel.Consult(standing.round, standing.params, asked)
        waiting = kernel.Report(reports.StepReached(standing.round, "consult"))
        return phases.Consulting(standing, opened, asked), (*effects, waiting, consult)
    evaluating, more = _step(ctx, standing, opened)
    if evaluating.standing.updates == standing.updates:
        return evaluating, (*effects, *more)
    claimed, proofs = proving.claim_step(
        ctx, standing, evaluating.standing, phase.view, phase.frozen, unmasked
    )
    return replace(evaluating, standing=claimed), (*effects, *proofs, *more)


def on_consulted(
    ctx: phases.ServerContext, phase: phases.Consulting, event: kernel.Consulted
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Aggregate with the gradients and step; without gradients keep the model.

    Raises:
        UsageError: a requested reclustering lacks a finite f64 ``(d,)`` gradient: a bug.
    """
    if event.gradients is None:
        failing = kernel.Report(reports.ConsultingFailed(phase.standing.round, event.failure))
        evaluating, effects = _step(ctx, phase.standing, phase.opened)
        return evaluating, (failing, *effects)
    if len(event.gradients) != len(phase.verifiers):
        raise UsageError(
            f"gradients must have one entry for each of {len(phase.verifiers)} reclusterings, found"
            f" {len(event.gradients)}"
        )
    gradients = dict(zip(phase.verifiers, event.gradients, strict=True))
    return _step(ctx, phase.standing, phase.opened, gradients)


def _step(
    ctx: phases.ServerContext,
    standing: phases.ServerState,
    opened: OpenedRound,
    gradients: Mapping[int, F64] = stacking.NO_GRADIENTS,
) -> tuple[phases.Evaluating, reports.Effects]:
    after, done, effects = walk.step(ctx.plan, standing, opened, gradients)
    evaluate = kernel.Evaluate(after.round, after.params)
    norm = next(one.update_norm for one in effects if isinstance(one, reports.ModelStepped))
    return phases.Evaluating(after, done, norm), (*map(kernel.Report, effects), evaluate)


def on_evaluated(
    ctx: phases.ServerContext, phase: phases.Evaluating, event: kernel.Evaluated
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Report the round; then stop, abort, or start the next one."""
    tested = replace(
        phase.done, accuracy=event.accuracy, loss=event.loss, backdoor_success=event.backdoor_success
    )
    done = kernel.Report(tested)
    standing, outcome = walk.decide_end(ctx.plan, phase.standing, tested)
    if outcome is None and phase.is_repeated and standing.claims.pending is not None:
        return phases.Attesting(standing, event.now + proving.attesting_time(ctx), None), (done,)
    if outcome is None:
        greeting, effects = gather.begin_round(ctx, standing, event.now)
        return greeting, (done, *effects)
    if isinstance(outcome, kernel.Finished) and standing.claims.pending is not None:
        return phases.Attesting(standing, event.now + proving.attesting_time(ctx), outcome), (done,)
    ended, effects = _end(proving.without_claim(standing), outcome)
    return ended, (done, *effects)


def close_attesting(
    ctx: phases.ServerContext, phase: phases.Attesting, now: float
) -> tuple[phases.ServerPhase, reports.Effects]:
    """Continue with the model if verifiers confirm it, else without its round."""
    standing, pending = phase.standing, phase.standing.claims.pending
    if pending is None:
        raise UsageError("cannot settle a claim: the server has no pending claim in this round")
    lacks = proving.missing_confirmations(ctx, pending)
    confirmation: kernel.Report[reports.AnyReport]
    if lacks is None:
        standing, confirmation = (
            proving.with_confirmed_claim(ctx, standing),
            kernel.Report(proving.confirmation_report(pending)),
        )
    else:
        standing, confirmation = (
            proving.without_claim(standing),
            kernel.Report(reports.ClaimRefused(pending.certified.round, lacks)),
        )
    if isinstance(phase.next_phase, kernel.Finished):
        outcome = (
            phase.next_phase
            if standing.updates
            else kernel.Aborted(f"{phase.next_phase.reason}, and no update was confirmed")
        )
        ended, effects = _end(standing, outcome)
        return ended, (confirmation, *effects)
    noted = checkpoint_effect(standing)
    if phase.next_phase is None:
        begun, effects = gather.begin_round(ctx, standing, now)
        return begun, (confirmation, noted, *effects)
    greeting = replace(phase.next_phase, standing=standing)
    if lacks is None:
        # Verifiers do not attest a confirmed claim again.
        after, effects = gather.close_hellos(ctx, greeting, now)
        effects = (noted, *effects)
    else:
        after, effects = gather.skip_round(
            ctx, standing, tuple(sorted(greeting.hellos)), f"nobody trains on it: {lacks}"
        )
    return after, (confirmation, *effects)


def _end(
    standing: phases.ServerState, outcome: kernel.Finished | kernel.Aborted
) -> tuple[phases.ServerPhase, reports.Effects]:
    final = kernel.Report(reports.ModelFinal(standing.round, standing.params))
    if isinstance(outcome, kernel.Aborted):
        ended, effects = gather.abort(outcome.reason)
        return ended, (final, *effects)
    goodbye = messages.Goodbye(reason=outcome.reason, aborted=False)
    best = () if standing.progress.best is None else measuring.best_model_effects(standing.progress.best)
    return phases.Ended(goodbye), (final, *best, kernel.Send(EVERYONE, kernel.Place(-1), goodbye), outcome)
