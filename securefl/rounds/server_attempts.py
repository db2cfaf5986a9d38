"""Attempts at the server: who is missing from an instance, and starting over without them (protocol.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from securefl.errors import PeerError
from securefl.ids import DEALER, PartyId
from securefl.kernel.effects import Reject, Report, Send
from securefl.kernel.events import Received
from securefl.messages.masking import Complaint, Retry
from securefl.messages.union import AnyMessage
from securefl.rounds.party_draw import Effects
from securefl.rounds.reports import ClusterKey, InstanceLost, InstanceRetried
from securefl.rounds.server_freeze import eligible
from securefl.rounds.server_phases import InstancePhase, ServerContext, Summing
from securefl.rounds.server_validated import missing_from_checks
from securefl.rounds.waiting import due, least_of
from securefl.secure_sum.masking.server import (
    CollectingBoxes,
    CollectingInputs,
    CollectingKeys,
    Lost,
    retry,
)
from securefl.secure_sum.validated.server import AwaitingHeld, AwaitingNonces, AwaitingVerdicts


def is_at_end(instance: InstancePhase, deadline: float, now: float) -> bool:
    """Lost, or collecting inputs with nobody left to wait for."""
    if isinstance(instance, CollectingInputs):
        return not missing_from(instance) or now >= deadline
    return isinstance(instance, Lost)


def due_of(ctx: ServerContext, phase: Summing, key: ClusterKey) -> float:
    """Return when the step of an instance ends: at its deadline, or earlier by hints."""
    return due_in(ctx, phase, phase.instances[key], phase.deadlines[key], phase.began[key])


def due_in(
    ctx: ServerContext, phase: Summing, instance: InstancePhase, deadline: float, began: float
) -> float:
    """The same for an instance that is not yet in the phase."""
    standing, asked = phase.standing, len(phase.view.assignment.participants)
    pace = phase.paces.get(step_of(instance), standing.pace)
    missing = missing_from(instance)
    return due(deadline, missing, standing.late, standing.gone, pace, least_of(ctx.plan, asked), began)


def step_of(instance: InstancePhase) -> str:
    """The kind of step that an instance is at: what takes as long in all of them."""
    return type(instance).__name__


def missing_from(instance: InstancePhase) -> frozenset[PartyId]:
    """Return the members whose answer the instance's step still lacks."""
    setup = instance.setup
    match instance:
        case CollectingKeys():
            answered = frozenset(instance.adverts)
            expected = frozenset(range(len(setup.members)))
        case CollectingBoxes():
            answered, expected = frozenset(instance.boxes), frozenset(instance.adverts)
        case CollectingInputs():
            answered = frozenset(instance.inputs.keys() & instance.receipts.keys())
            expected = instance.sharers
        case Lost():
            return frozenset()
        case AwaitingHeld() | AwaitingNonces() | AwaitingVerdicts():
            return missing_from_checks(instance)
        case _:
            assert_never(instance)
    missing = frozenset(setup.members[i] for i in expected - answered)
    return missing - instance.stalled if isinstance(instance, CollectingInputs) else missing


def on_complaint(
    ctx: ServerContext,
    phase: Summing,
    event: Received[AnyMessage],
    message: Complaint,
    instance: CollectingInputs,
) -> tuple[Summing, Effects]:
    """Start over without accuser and accused: nobody can prove who of the two lies without opening boxes.

    An accused dealer leaves nothing to start over with: the sum is lost.
    """
    setup, sender = instance.setup, event.sender
    key = (event.place.reclustering, event.place.cluster)
    accused = PartyId(message.accused)
    sharing = {setup.members[i] for i in instance.sharers}
    # An honest member complains instead of submitting: whoever has submitted may not undo others' work.
    if accused == DEALER and sender in sharing and ctx.plan.validation is not None:
        lost = Lost(setup, f"{sender} got triples of the dealer that it cannot use")
        return _with(phase, key, lost, event.now, event.now), (report_lost(lost),)
    submitted = setup.index(sender) in instance.inputs.keys() | instance.receipts.keys()
    over = is_at_end(instance, due_of(ctx, phase, key), event.now)
    if sender == accused or submitted or over or not {sender, accused} <= sharing:
        raise PeerError(sender, f"complains about {message.accused} out of turn in {setup.describe()}")
    bad = "a message that cannot be" if setup.everyone else "a bad share box"
    rejected = Reject(message.accused, f"accused by {sender} of {bad} in {setup.describe()}")
    after, effects = _start_over(ctx, phase, key, instance, frozenset({sender, accused}), event.now)
    return after, (rejected, *effects)


def without_missing(ctx: ServerContext, phase: Summing, now: float) -> tuple[Summing, Effects]:
    """Start over every CrypTen instance with members that will not survive: it opens with all or not at all.

    Whoever is missing in one instance is counted in none, so its other instances start over, too. An instance
    that has no attempt left is lost, and its members with it, which may cascade. Who only waits for one that
    is missing is not.
    """
    limit = ctx.plan.scenario.secure_sum.max_attempts
    phase, flat = _without_unfinished(phase, now)
    sharing = {
        key: frozenset(i.setup.members[n] for n in (i.sharers if i.accepted is None else i.accepted))
        for key, i in phase.instances.items()
        if isinstance(i, CollectingInputs) and i.setup.everyone
    }
    lost: frozenset[ClusterKey] = frozenset()
    while True:
        survivors = eligible(ctx, phase, lost, waiting=True)
        short = {key for key, members in sharing.items() if members & survivors not in {frozenset(), members}}
        # Of a validated sum the sketch is known: it is lost, and not tried again.
        spent = {
            key
            for key in short - lost
            if ctx.plan.validation is not None or phase.instances[key].setup.instance.attempt + 1 >= limit
        }
        if not spent:
            break
        lost |= spent
    for key in sorted(short | lost):
        instance = phase.instances[key]
        if isinstance(instance, CollectingInputs) and instance.accepted is not None:
            given_up = Lost(instance.setup, "a member that was accepted here is missing elsewhere")
            phase = _with(phase, key, given_up, now, now)
            flat += (report_lost(given_up),)
        elif isinstance(instance, CollectingInputs):
            excluded = frozenset(instance.setup.members) - (sharing[key] & survivors)
            phase, effects = _start_over(ctx, phase, key, instance, excluded, now)
            flat += effects
    return phase, flat


def _without_unfinished(phase: Summing, now: float) -> tuple[Summing, Effects]:
    """Give up validated sums that lack a member's share: there is no second sketch."""
    flat: Effects = ()
    for key, instance in phase.instances.items():
        if isinstance(instance, CollectingInputs) and instance.accepted is not None:
            names = ", ".join(sorted(missing_from(instance)))
            if names:
                lost = Lost(instance.setup, f"no share of the sum from {names}")
                phase = _with(phase, key, lost, now, now)
                flat += (report_lost(lost),)
    return phase, flat


def _start_over(
    ctx: ServerContext,
    phase: Summing,
    key: ClusterKey,
    instance: CollectingInputs,
    excluded: frozenset[PartyId],
    now: float,
) -> tuple[Summing, Effects]:
    """Begin the next attempt of an instance, or give it up."""
    after = retry(instance, excluded, ctx.plan.scenario.secure_sum.max_attempts)
    if isinstance(after, Lost):
        return _with(phase, key, after, now, now), (report_lost(after),)
    place = after.setup.place
    retried = Report(InstanceRetried(place.round, *key, place.attempt, tuple(sorted(excluded))))
    ask: Effects = tuple(Send(m, place, Retry(members=after.setup.members)) for m in instance.setup.members)
    deadline = now + ctx.plan.scenario.deadlines.keys
    return _with(phase, key, after, deadline, now), (retried, *ask)


def _with(phase: Summing, key: ClusterKey, instance: InstancePhase, deadline: float, now: float) -> Summing:
    instances: Mapping[ClusterKey, InstancePhase] = {**phase.instances, key: instance}
    return replace(
        phase,
        instances=instances,
        deadlines={**phase.deadlines, key: deadline},
        began={**phase.began, key: now},
    )


def report_lost(instance: InstancePhase) -> Report:
    """Say that an instance will not be opened."""
    i = instance.setup.instance
    reason = instance.reason if isinstance(instance, Lost) else "lost"
    return Report(InstanceLost(i.round, i.reclustering, i.cluster, reason))
