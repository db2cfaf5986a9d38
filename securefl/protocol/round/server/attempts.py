"""Attempts of an instance at the server, and retries without missing members."""

from collections.abc import Mapping
from dataclasses import replace

from securefl.base.ids import PartyId
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.server import phases
from securefl.protocol.round.server.freeze import eligible_survivors
from securefl.protocol.round.server.waiting import least_answers, step_end
from securefl.protocol.round.shared import reports


def is_at_end(instance: secure_sum.ServerPhase, deadline: float, now: float) -> bool:
    """Return True if the instance is lost, or its inputs are complete or overdue."""
    if isinstance(instance, secure_sum.CollectingInputs):
        return not instance.missing or now >= deadline
    return isinstance(instance, secure_sum.Lost)


def attempt_end(ctx: phases.ServerContext, phase: phases.Summing, key: reports.ClusterKey) -> float:
    """Return when an instance's step ends: at its deadline, or earlier by hints."""
    return attempt_end_of(ctx, phase, phase.instances[key], phase.deadlines[key], phase.step_starts[key])


def attempt_end_of(
    ctx: phases.ServerContext,
    phase: phases.Summing,
    instance: secure_sum.ServerPhase,
    deadline: float,
    began: float,
) -> float:
    """Return :func:`attempt_end` of an instance outside the phase."""
    standing, asked = phase.standing, len(phase.view.assignment.participants)
    pace = phase.paces.get(step_kind(instance), standing.session.pace)
    return step_end(
        deadline,
        instance.missing,
        standing.late | standing.session.restarted,
        standing.session.disconnected,
        pace,
        least_answers(ctx.plan, asked),
        began,
    )


def step_kind(instance: secure_sum.ServerPhase) -> str:
    """Return the kind of an instance's step, which takes equally long in all."""
    return type(instance).__name__


def on_complaint(
    ctx: phases.ServerContext,
    phase: phases.Summing,
    event: kernel.Received[messages.AnyMessage],
    message: messages.Complaint,
    instance: secure_sum.ServerPhase,
) -> tuple[phases.Summing, reports.Effects]:
    """Start over without accuser and accused: opening boxes is the only proof of a fault."""
    key, sender = (event.place.reclustering, event.place.cluster), event.sender
    over = not instance.missing or event.now >= attempt_end(ctx, phase, key)
    accused, sums = PartyId(message.accused), ctx.plan.sums
    found = sums.server.complaint(instance, sender, accused, over=over)
    if isinstance(found, secure_sum.Lost):
        return _with_instance(phase, key, found, event.now, event.now), (lost_report(found),)
    rejected = kernel.Reject(accused, f"accused by {sender} of {sums.bad} in {found.setup.describe()}")
    after, effects = _start_over(ctx, phase, key, found, frozenset({sender, accused}), event.now)
    return after, (rejected, *effects)


def retry_without_missing(
    ctx: phases.ServerContext, phase: phases.Summing, now: float
) -> tuple[phases.Summing, reports.Effects]:
    """Retry each instance that needs all of its members, without those that will not survive.

    A party missing in one instance is counted in none, so its others start over too. An instance without
    attempts left is lost with its members, which may cascade.
    """
    limit = ctx.plan.scenario.secure_sum.max_attempts
    phase, flat = _give_up_unfinished(phase, now)
    waiting = {
        key: i
        for key, i in phase.instances.items()
        if isinstance(i, secure_sum.CollectingInputs) and i.setup.everyone
    }
    counted = {key: i.names(i.counted) for key, i in waiting.items()}
    lost: frozenset[reports.ClusterKey] = frozenset()
    while True:
        survivors = eligible_survivors(ctx, phase, lost)
        short = {key for key, members in counted.items() if members & survivors not in {frozenset(), members}}
        spent = {
            key
            for key in short - lost
            if waiting[key].final or waiting[key].setup.instance.attempt + 1 >= limit
        }
        if not spent:
            break
        lost |= spent
    for key in sorted(short | lost):
        instance = waiting[key]
        if instance.final:
            given_up = secure_sum.Lost(instance.setup, instance.final)
            phase = _with_instance(phase, key, given_up, now, now)
            flat += (lost_report(given_up),)
        else:
            excluded = frozenset(instance.setup.members) - (counted[key] & survivors)
            phase, effects = _start_over(ctx, phase, key, instance, excluded, now)
            flat += effects
    return phase, flat


def _give_up_unfinished(phase: phases.Summing, now: float) -> tuple[phases.Summing, reports.Effects]:
    flat: reports.Effects = ()
    for key, instance in phase.instances.items():
        if isinstance(instance, secure_sum.CollectingInputs) and instance.unfinished:
            lost = secure_sum.Lost(instance.setup, instance.unfinished)
            phase = _with_instance(phase, key, lost, now, now)
            flat += (lost_report(lost),)
    return phase, flat


def _start_over(
    ctx: phases.ServerContext,
    phase: phases.Summing,
    key: reports.ClusterKey,
    instance: secure_sum.ServerPhase,
    excluded: frozenset[PartyId],
    now: float,
) -> tuple[phases.Summing, reports.Effects]:
    after = secure_sum.retry(instance, excluded, ctx.plan.scenario.secure_sum.max_attempts)
    if isinstance(after, secure_sum.Lost):
        return _with_instance(phase, key, after, now, now), (lost_report(after),)
    deadline = now + ctx.plan.scenario.deadlines.keys
    return _with_instance(phase, key, after, deadline, now), retry_messages(instance.setup, after.setup)


def retry_messages(before: secure_sum.Setup, after: secure_sum.Setup) -> reports.Effects:
    """Ask all members of an attempt for the next one, and report those left out."""
    place, left_out = after.place, set(before.members) - set(after.members)
    ask: reports.Effects = tuple(
        kernel.Send(m, place, messages.Retry(members=after.members)) for m in before.members
    )
    return (kernel.Report(reports.InstanceRetried(*place, tuple(sorted(left_out)))), *ask)


def _with_instance(
    phase: phases.Summing,
    key: reports.ClusterKey,
    instance: secure_sum.ServerPhase,
    deadline: float,
    now: float,
) -> phases.Summing:
    instances: Mapping[reports.ClusterKey, secure_sum.ServerPhase] = {**phase.instances, key: instance}
    return replace(
        phase,
        instances=instances,
        deadlines={**phase.deadlines, key: deadline},
        step_starts={**phase.step_starts, key: now},
    )


def lost_report(instance: secure_sum.ServerPhase) -> kernel.Report[reports.AnyReport]:
    """Return the report that an instance is lost."""
    i = instance.setup.instance
    reason = instance.reason if isinstance(instance, secure_sum.Lost) else "lost"
    return kernel.Report(reports.InstanceLost(i.round, i.reclustering, i.cluster, reason))
