"""Middle part of a round at the server: R x c parallel instances, until the freeze."""

from dataclasses import replace

from securefl.base.errors import PeerError
from securefl.base.ids import PartyId
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.server import attempts, phases
from securefl.protocol.round.server.freeze import freeze
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.allowance import allowed_seconds


def on_instance_message(
    ctx: phases.ServerContext,
    phase: phases.Summing,
    event: kernel.Received[messages.AnyMessage],
    message: messages.SumToServer,
) -> tuple[phases.Summing, reports.Effects]:
    """Accept a member's message for one instance; :func:`advance` closes the step."""
    sender, place = event.sender, event.place
    key = (place.reclustering, place.cluster)
    instance = phase.instances.get(key)
    if place.round != phase.standing.round or instance is None:
        raise PeerError(sender, f"sends {type(message).__name__} for a cluster that does not exist")
    attempt = instance.setup.instance.attempt
    if place.attempt < attempt:
        # Sent before the instance was retried; not an error.
        return phase, ()
    if place.attempt > attempt:
        raise PeerError(sender, f"sends {type(message).__name__} of attempt {place.attempt}")
    if isinstance(message, messages.Complaint):
        return attempts.on_complaint(ctx, phase, event, message, instance)
    taken = ctx.plan.sums.server.receive(instance, sender, message, event.signed, ctx.store)
    relayed: reports.Effects = tuple(kernel.Send(to, place, passed) for to, passed in taken.relayed)
    return replace(phase, instances={**phase.instances, key: taken.phase}), relayed


def awaited_members(phase: phases.Summing) -> frozenset[PartyId]:
    """Return the parties that some instance still waits for."""
    missing = (instance.missing for instance in phase.instances.values())
    return frozenset(party for some in missing for party in some)


def all_members(phase: phases.Summing) -> frozenset[PartyId]:
    """Return the members of all instances."""
    return frozenset(party for instance in phase.instances.values() for party in instance.setup.members)


def collects_inputs(phase: phases.Summing) -> bool:
    """Return True if every instance collects masked inputs or is lost."""
    return all(
        isinstance(instance, secure_sum.CollectingInputs | secure_sum.Lost)
        for instance in phase.instances.values()
    )


def advance(
    ctx: phases.ServerContext, phase: phases.Summing, now: float
) -> tuple[phases.Summing | phases.Certifying | phases.Releasing, reports.Effects]:
    """Close complete or overdue instance steps; freeze when all are at their end."""
    instances, deadlines, began = dict(phase.instances), dict(phase.deadlines), dict(phase.step_starts)
    effects: list[reports.Effects] = []
    for key in phase.instances:
        while True:
            until = attempts.attempt_end_of(ctx, phase, instances[key], deadlines[key], began[key])
            if attempts.is_at_end(instances[key], until, now) or (instances[key].missing and now < until):
                break
            instances[key], deadlines[key], sent = _close(ctx, instances[key], now)
            began[key] = now
            effects.append(sent)
    flat = tuple(effect for group in effects for effect in group)
    current = replace(phase, instances=instances, deadlines=deadlines, step_starts=began)
    if not _all_at_end(ctx, current, now):
        return current, flat
    current, again = attempts.retry_without_missing(ctx, current, now)
    flat += again
    if not _all_at_end(ctx, current, now):
        return current, flat
    frozen, sent = freeze(ctx, current, now)
    return frozen, flat + sent


def record_pace(
    before: phases.Summing, after: phases.Summing, event: kernel.Received[messages.AnyMessage]
) -> phases.Summing:
    """Record the time of a message that an instance's step waited for."""
    key, party = (event.place.reclustering, event.place.cluster), event.sender
    instance, now = before.instances.get(key), after.instances.get(key)
    if instance is None or now is None or type(instance) is not type(now):
        return after
    if party not in instance.missing or party in now.missing:
        return after
    step = attempts.step_kind(instance)
    pace = after.paces.get(step, after.standing.session.pace).with_answer(
        party, event.now, after.step_starts[key]
    )
    return replace(after, paces={**after.paces, step: pace})


def _all_at_end(ctx: phases.ServerContext, phase: phases.Summing, now: float) -> bool:
    return all(
        attempts.is_at_end(i, attempts.attempt_end(ctx, phase, key), now)
        for key, i in phase.instances.items()
    )


def next_deadline(ctx: phases.ServerContext, phase: phases.Summing, now: float) -> float:
    """Return when the first instance that waits for a party stops waiting.

    Deadlines of instances at their end are past: waking for them would stop time.
    """
    ends = {key: attempts.attempt_end(ctx, phase, key) for key in phase.instances}
    return min(end for key, end in ends.items() if not attempts.is_at_end(phase.instances[key], end, now))


def _close(
    ctx: phases.ServerContext, instance: secure_sum.ServerPhase, now: float
) -> tuple[secure_sum.ServerPhase, float, reports.Effects]:
    plan = ctx.plan
    closed = plan.sums.server.close(instance, plan.scenario.secure_sum.max_attempts)
    after, place = closed.phase, closed.phase.setup.place
    effects: reports.Effects = ()
    if closed.passed is not None:
        passed = closed.passed
        effects = (
            kernel.Report(
                reports.UpdatesValidated(*place, passed.accepted, passed.rejected, passed.projections)
            ),
        )
    if isinstance(after, secure_sum.Lost):
        return after, now, (*effects, attempts.lost_report(after))
    if isinstance(after, secure_sum.CollectingKeys):
        effects += attempts.retry_messages(instance.setup, after.setup)
    deadlines = plan.scenario.deadlines
    wait = {"keys": deadlines.keys, "shares": deadlines.shares, "training": deadlines.training}[closed.step]
    if closed.vectors and closed.step != "keys":
        wait = allowed_seconds(plan, closed.step)
    return (
        after,
        now + wait,
        (*effects, *(kernel.Send(to, place, message) for to, message in closed.outgoing)),
    )
