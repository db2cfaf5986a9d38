"""Attempts at the server: who is missing from an instance, and starting over without them (protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from securefl.base.ids import PartyId
from securefl.protocol.kernel import Received, Reject, Report, Send
from securefl.protocol.messages import AnyMessage, Complaint, Retry
from securefl.protocol.round.server.freeze import eligible
from securefl.protocol.round.server.phases import ServerContext, Summing
from securefl.protocol.round.server.waiting import due, least_answers
from securefl.protocol.round.shared.reports import (
    AnyReport,
    ClusterKey,
    Effects,
    InstanceLost,
    InstanceRetried,
)
from securefl.protocol.secure_sum import CollectingInputs, Lost, ServerPhase, Setup, retry


def is_at_end(instance: ServerPhase, deadline: float, now: float) -> bool:
    """Lost, or collecting inputs with nobody left to wait for."""
    if isinstance(instance, CollectingInputs):
        return not instance.missing or now >= deadline
    return isinstance(instance, Lost)


def due_of(ctx: ServerContext, phase: Summing, key: ClusterKey) -> float:
    """Return when the step of an instance ends: at its deadline, or earlier by hints."""
    return due_in(ctx, phase, phase.instances[key], phase.deadlines[key], phase.began[key])


def due_in(ctx: ServerContext, phase: Summing, instance: ServerPhase, deadline: float, began: float) -> float:
    """The same for an instance that is not yet in the phase."""
    standing, asked = phase.standing, len(phase.view.assignment.participants)
    pace = phase.paces.get(step_of(instance), standing.pace)
    return due(
        deadline, instance.missing, standing.late, standing.gone, pace, least_answers(ctx.plan, asked), began
    )


def step_of(instance: ServerPhase) -> str:
    """The kind of step that an instance is at: what takes as long in all of them."""
    return type(instance).__name__


def on_complaint(
    ctx: ServerContext, phase: Summing, event: Received[AnyMessage], message: Complaint, instance: ServerPhase
) -> tuple[Summing, Effects]:
    """Start over without accuser and accused: nobody can prove who of the two lies without opening boxes."""
    key, sender = (event.place.reclustering, event.place.cluster), event.sender
    over = not instance.missing or event.now >= due_of(ctx, phase, key)
    accused, sums = PartyId(message.accused), ctx.plan.sums
    found = sums.server.complaint(instance, sender, accused, over=over)
    if isinstance(found, Lost):
        return _with(phase, key, found, event.now, event.now), (report_lost(found),)
    rejected = Reject(accused, f"accused by {sender} of {sums.bad} in {found.setup.describe()}")
    after, effects = _start_over(ctx, phase, key, found, frozenset({sender, accused}), event.now)
    return after, (rejected, *effects)


def without_missing(ctx: ServerContext, phase: Summing, now: float) -> tuple[Summing, Effects]:
    """Start over every instance with members that will not survive, where all open or nothing does.

    Whoever is missing in one instance is counted in none, so its other instances start over, too. An instance
    that has no attempt left is lost, and its members with it, which may cascade. Who only waits for one that
    is missing is not.
    """
    limit = ctx.plan.scenario.secure_sum.max_attempts
    phase, flat = _without_unfinished(phase, now)
    waiting = {
        key: i for key, i in phase.instances.items() if isinstance(i, CollectingInputs) and i.setup.everyone
    }
    counted = {key: i.names(i.counted) for key, i in waiting.items()}
    lost: frozenset[ClusterKey] = frozenset()
    while True:
        survivors = eligible(ctx, phase, lost, waiting=True)
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
            given_up = Lost(instance.setup, instance.final)
            phase = _with(phase, key, given_up, now, now)
            flat += (report_lost(given_up),)
        else:
            excluded = frozenset(instance.setup.members) - (counted[key] & survivors)
            phase, effects = _start_over(ctx, phase, key, instance, excluded, now)
            flat += effects
    return phase, flat


def _without_unfinished(phase: Summing, now: float) -> tuple[Summing, Effects]:
    """Give up sums that cannot open without those that are missing now."""
    flat: Effects = ()
    for key, instance in phase.instances.items():
        if isinstance(instance, CollectingInputs) and instance.unfinished:
            lost = Lost(instance.setup, instance.unfinished)
            phase = _with(phase, key, lost, now, now)
            flat += (report_lost(lost),)
    return phase, flat


def _start_over(
    ctx: ServerContext,
    phase: Summing,
    key: ClusterKey,
    instance: ServerPhase,
    excluded: frozenset[PartyId],
    now: float,
) -> tuple[Summing, Effects]:
    """Begin the next attempt of an instance, or give it up."""
    after = retry(instance, excluded, ctx.plan.scenario.secure_sum.max_attempts)
    if isinstance(after, Lost):
        return _with(phase, key, after, now, now), (report_lost(after),)
    deadline = now + ctx.plan.scenario.deadlines.keys
    return _with(phase, key, after, deadline, now), asked_again(instance.setup, after.setup)


def asked_again(before: Setup, after: Setup) -> Effects:
    """Ask all members of an attempt for the next one, and say who is left out."""
    place, left_out = after.place, set(before.members) - set(after.members)
    ask: Effects = tuple(Send(m, place, Retry(members=after.members)) for m in before.members)
    return (Report(InstanceRetried(*place, tuple(sorted(left_out)))), *ask)


def _with(phase: Summing, key: ClusterKey, instance: ServerPhase, deadline: float, now: float) -> Summing:
    instances: Mapping[ClusterKey, ServerPhase] = {**phase.instances, key: instance}
    return replace(
        phase,
        instances=instances,
        deadlines={**phase.deadlines, key: deadline},
        began={**phase.began, key: now},
    )


def report_lost(instance: ServerPhase) -> Report[AnyReport]:
    """Say that an instance will not be opened."""
    i = instance.setup.instance
    reason = instance.reason if isinstance(instance, Lost) else "lost"
    return Report(InstanceLost(i.round, i.reclustering, i.cluster, reason))
