"""The server's middle of a round: R x c instances side by side, until the survivor set is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from securefl.errors import PeerError
from securefl.ids import PartyId
from securefl.kernel.effects import Reject, Report, Send
from securefl.kernel.events import Received
from securefl.messages.masking import Complaint, KeyAdvert, MaskedInput, Receipt, Retry, ShareBoxes
from securefl.messages.union import AnyMessage
from securefl.rounds.party_draw import Effects
from securefl.rounds.reports import (
    ClusterKey,
    InstanceLost,
    InstanceRetried,
)
from securefl.rounds.server_freeze import freeze
from securefl.rounds.server_phases import (
    Certifying,
    Releasing,
    ServerContext,
    Summing,
)
from securefl.rounds.waiting import shortened
from securefl.secagg.server import (
    CollectingBoxes,
    CollectingInputs,
    CollectingKeys,
    InstancePhase,
    Lost,
    close_boxes,
    close_keys,
    on_advert,
    on_boxes,
    on_input,
    on_receipt,
    retry,
)

InstanceMessage = KeyAdvert | ShareBoxes | MaskedInput | Receipt | Complaint


def on_instance_message(
    ctx: ServerContext, phase: Summing, event: Received[AnyMessage], message: InstanceMessage
) -> tuple[Summing, Effects]:
    """Take one member's message for one instance; its step is closed by :func:`advance`."""
    sender, place, signed = event.sender, event.place, event.signed
    key = (place.reclustering, place.cluster)
    instance = phase.instances.get(key)
    if place.round != phase.standing.round or instance is None:
        raise PeerError(sender, f"sends {type(message).__name__} for an instance that does not exist")
    attempt = instance.setup.instance.attempt
    if place.attempt < attempt:
        # Under way when the instance started over: nobody's fault, and no use.
        return phase, ()
    if place.attempt > attempt:
        raise PeerError(sender, f"sends {type(message).__name__} of attempt {place.attempt}")
    match message, instance:
        case KeyAdvert(), CollectingKeys():
            changed: InstancePhase = on_advert(instance, sender, message, signed)
        case ShareBoxes(), CollectingBoxes():
            changed = on_boxes(instance, sender, message)
        case MaskedInput(), CollectingInputs():
            changed = on_input(instance, sender, message, ctx.store)
        case Receipt(), CollectingInputs():
            changed = on_receipt(instance, sender, message, signed)
        case Complaint(), CollectingInputs():
            return _on_complaint(ctx, phase, event, message, instance)
        case _:
            raise PeerError(
                sender, f"sends {type(message).__name__} out of turn in {instance.setup.describe()}"
            )
    return replace(phase, instances={**phase.instances, key: changed}), ()


def advance(
    ctx: ServerContext, phase: Summing, now: float
) -> tuple[Summing | Certifying | Releasing, Effects]:
    """Close every instance step that is complete or past its deadline; freeze when all are at their end."""
    instances, deadlines = dict(phase.instances), dict(phase.deadlines)
    effects: list[Effects] = []
    for key in phase.instances:
        while not _is_at_end(instances[key], deadlines[key], now):
            missing = _missing(instances[key])
            hinted = phase.standing.gone | phase.standing.late
            deadlines[key] = shortened(deadlines[key], now, missing, hinted)
            if missing and now < deadlines[key]:
                break
            instances[key], deadlines[key], sent = _close(ctx, instances[key], now)
            effects.append(sent)
    flat = tuple(effect for group in effects for effect in group)
    current = replace(phase, instances=instances, deadlines=deadlines)
    if not all(_is_at_end(instances[key], deadlines[key], now) for key in instances):
        return current, flat
    frozen, sent = freeze(ctx, current, now)
    return frozen, flat + sent


def next_deadline(phase: Summing, now: float) -> float:
    """Return when the first instance that still waits for somebody stops waiting.

    Instances at their end have deadlines in the past; waking for those would never let time pass.
    """
    return min(d for key, d in phase.deadlines.items() if not _is_at_end(phase.instances[key], d, now))


def _is_at_end(instance: InstancePhase, deadline: float, now: float) -> bool:
    """Lost, or collecting inputs with nobody left to wait for."""
    if isinstance(instance, CollectingInputs):
        return not _missing(instance) or now >= deadline
    return isinstance(instance, Lost)


def _missing(instance: InstancePhase) -> frozenset[PartyId]:
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
        case _:
            assert_never(instance)
    return frozenset(setup.members[i] for i in expected - answered)


def _close(ctx: ServerContext, instance: InstancePhase, now: float) -> tuple[InstancePhase, float, Effects]:
    """End the current step of one instance with those who answered."""
    deadlines, place = ctx.plan.scenario.deadlines, instance.setup.place
    match instance:
        case CollectingKeys():
            after, key_list = close_keys(instance)
            if isinstance(after, CollectingBoxes) and key_list is not None:
                listed = [instance.setup.members[i] for i in after.adverts]
                return after, now + deadlines.shares, tuple(Send(m, place, key_list) for m in listed)
            return after, now, (_lost(after),)
        case CollectingBoxes():
            inputs, lists = close_boxes(instance)
            if isinstance(inputs, Lost):
                return inputs, now, (_lost(inputs),)
            return inputs, now + deadlines.training, tuple(Send(m, place, b) for m, b in lists.items())
        case CollectingInputs() | Lost():
            return instance, now, ()
        case _:
            assert_never(instance)


def _on_complaint(
    ctx: ServerContext,
    phase: Summing,
    event: Received[AnyMessage],
    message: Complaint,
    instance: CollectingInputs,
) -> tuple[Summing, Effects]:
    """Start over without accuser and accused: nobody can prove who of the two lies without opening boxes."""
    setup, sender = instance.setup, event.sender
    key = (event.place.reclustering, event.place.cluster)
    accused = PartyId(message.accused)
    sharing = {setup.members[i] for i in instance.sharers}
    # An honest member complains instead of submitting: whoever has submitted may not undo others' work.
    submitted = setup.index(sender) in instance.inputs.keys() | instance.receipts.keys()
    over = _is_at_end(instance, phase.deadlines[key], event.now)
    if sender == accused or submitted or over or not {sender, accused} <= sharing:
        raise PeerError(sender, f"complains about {message.accused} out of turn in {setup.describe()}")
    after = retry(instance, frozenset({sender, accused}), ctx.plan.scenario.secure_sum.max_attempts)
    rejected = Reject(message.accused, f"accused by {sender} of a bad share box in {setup.describe()}")
    place = after.setup.place
    deadline = event.now + ctx.plan.scenario.deadlines.keys
    if isinstance(after, Lost):
        return _with(phase, key, after, event.now), (rejected, _lost(after))
    retried = InstanceRetried(place.round, *key, place.attempt, tuple(sorted({sender, accused})))
    ask: Effects = tuple(Send(m, place, Retry(members=after.setup.members)) for m in setup.members)
    return _with(phase, key, after, deadline), (rejected, Report(retried), *ask)


def _with(phase: Summing, key: ClusterKey, instance: InstancePhase, deadline: float) -> Summing:
    instances: Mapping[ClusterKey, InstancePhase] = {**phase.instances, key: instance}
    return replace(phase, instances=instances, deadlines={**phase.deadlines, key: deadline})


def _lost(instance: InstancePhase) -> Report:
    i = instance.setup.instance
    reason = instance.reason if isinstance(instance, Lost) else "lost"
    return Report(InstanceLost(i.round, i.reclustering, i.cluster, reason))
