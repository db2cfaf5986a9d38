"""The server's middle of a round: R x c instances side by side, until the survivor set is frozen."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from securefl.errors import PeerError, UsageError
from securefl.ids import PartyId
from securefl.kernel.effects import Send
from securefl.kernel.events import Received
from securefl.messages.crypten import PeerBox
from securefl.messages.masking import Complaint, KeyAdvert, MaskedInput, Receipt, ShareBoxes
from securefl.messages.union import AnyMessage
from securefl.messages.validation import Dealt, Held, SketchNonce, Verdict
from securefl.rounds.allowance import allowed
from securefl.rounds.party_draw import Effects
from securefl.rounds.server_attempts import (
    due_in,
    due_of,
    is_at_end,
    missing_from,
    on_complaint,
    report_lost,
    step_of,
    without_missing,
)
from securefl.rounds.server_freeze import freeze
from securefl.rounds.server_phases import (
    Certifying,
    InstancePhase,
    Releasing,
    ServerContext,
    Summing,
)
from securefl.rounds.server_validated import close_validated, on_validated_message
from securefl.secure_sum.crypten import server as crypten
from securefl.secure_sum.crypten.server import relay
from securefl.secure_sum.masking import server
from securefl.secure_sum.masking.server import (
    CollectingBoxes,
    CollectingInputs,
    CollectingKeys,
    Lost,
    close_boxes,
    close_keys,
    on_advert,
    on_boxes,
    on_input,
    on_receipt,
)
from securefl.secure_sum.validated.server import (
    AwaitingHeld,
    AwaitingNonces,
    AwaitingVerdicts,
    ValidatedPhase,
)

InstanceMessage = (KeyAdvert | ShareBoxes | MaskedInput | Receipt | Complaint | PeerBox) | (
    Dealt | Held | SketchNonce | Verdict
)


def on_instance_message(
    ctx: ServerContext, phase: Summing, event: Received[AnyMessage], message: InstanceMessage
) -> tuple[Summing, Effects]:
    """Take one member's message for one instance; its step is closed by :func:`advance`."""
    sender, place = event.sender, event.place
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
    if isinstance(instance, AwaitingHeld) and isinstance(message, Complaint):
        return on_complaint(ctx, phase, event, message, instance.base)
    if isinstance(instance, ValidatedPhase):
        moved, effects = on_validated_message(event, message, instance)
        return replace(phase, instances={**phase.instances, key: moved}), effects
    return _taken(ctx, phase, event, message, instance)


def _taken(
    ctx: ServerContext,
    phase: Summing,
    event: Received[AnyMessage],
    message: InstanceMessage,
    instance: server.InstancePhase,
) -> tuple[Summing, Effects]:
    sender, place, signed = event.sender, event.place, event.signed
    key = (place.reclustering, place.cluster)
    match message, instance:
        case KeyAdvert(), CollectingKeys():
            changed: server.InstancePhase = on_advert(instance, sender, message, signed)
        case ShareBoxes(), CollectingBoxes():
            changed = on_boxes(instance, sender, message)
        case MaskedInput(), CollectingInputs():
            changed = on_input(instance, sender, message, ctx.store)
        case Receipt(), CollectingInputs():
            changed = on_receipt(instance, sender, message, signed)
        case PeerBox(), CollectingInputs() if instance.setup.everyone:
            counted, receiver, passed = relay(instance, sender, message)
            relayed = replace(phase, instances={**phase.instances, key: counted})
            return relayed, (Send(receiver, place, passed),)
        case Complaint(), CollectingInputs():
            return on_complaint(ctx, phase, event, message, instance)
        case _:
            raise PeerError(
                sender, f"sends {type(message).__name__} out of turn in {instance.setup.describe()}"
            )
    return replace(phase, instances={**phase.instances, key: changed}), ()


def awaited_members(phase: Summing) -> frozenset[PartyId]:
    """Return whose messages some instance still waits for."""
    missing = (missing_from(instance) for instance in phase.instances.values())
    return frozenset(party for some in missing for party in some)


def advance(
    ctx: ServerContext, phase: Summing, now: float
) -> tuple[Summing | Certifying | Releasing, Effects]:
    """Close every instance step that is complete or past its deadline; freeze when all are at their end."""
    instances, deadlines, began = dict(phase.instances), dict(phase.deadlines), dict(phase.began)
    effects: list[Effects] = []
    for key in phase.instances:
        while True:
            until = due_in(ctx, phase, instances[key], deadlines[key], began[key])
            if is_at_end(instances[key], until, now) or (missing_from(instances[key]) and now < until):
                break
            close = close_validated if ctx.plan.validation is not None else _close
            instances[key], deadlines[key], sent = close(ctx, instances[key], now)
            began[key] = now
            effects.append(sent)
    flat = tuple(effect for group in effects for effect in group)
    current = replace(phase, instances=instances, deadlines=deadlines, began=began)
    if not _all_at_end(ctx, current, now):
        return current, flat
    current, again = without_missing(ctx, current, now)
    flat += again
    if not _all_at_end(ctx, current, now):
        return current, flat
    frozen, sent = freeze(ctx, current, now)
    return frozen, flat + sent


def heard(before: Summing, after: Summing, event: Received[AnyMessage]) -> Summing:
    """Note how long a member took, if its message is what a step of an instance lacked of it."""
    key, party = (event.place.reclustering, event.place.cluster), event.sender
    instance, now = before.instances.get(key), after.instances.get(key)
    if instance is None or now is None or type(instance) is not type(now):
        return after
    if party not in missing_from(instance) or party in missing_from(now):
        return after
    step = step_of(instance)
    pace = after.paces.get(step, after.standing.pace).answered(party, event.now, after.began[key])
    return replace(after, paces={**after.paces, step: pace})


def _all_at_end(ctx: ServerContext, phase: Summing, now: float) -> bool:
    return all(is_at_end(i, due_of(ctx, phase, key), now) for key, i in phase.instances.items())


def next_deadline(ctx: ServerContext, phase: Summing, now: float) -> float:
    """Return when the first instance that still waits for somebody stops waiting.

    Instances at their end have deadlines in the past; waking for those would never let time pass.
    """
    ends = {key: due_of(ctx, phase, key) for key in phase.instances}
    return min(end for key, end in ends.items() if not is_at_end(phase.instances[key], end, now))


def _close(ctx: ServerContext, instance: InstancePhase, now: float) -> tuple[InstancePhase, float, Effects]:
    """End the current step of one instance with those who answered."""
    deadlines, place = ctx.plan.scenario.deadlines, instance.setup.place
    match instance:
        case CollectingKeys():
            close = crypten.close_keys if instance.setup.everyone else close_keys
            after, key_list = close(instance)
            if isinstance(after, Lost) or key_list is None:
                return after, now, (report_lost(after),)
            boxes = isinstance(after, CollectingBoxes)
            wait = deadlines.shares if boxes else allowed(ctx.plan, "training")
            listed = [instance.setup.members[i] for i in after.adverts]
            return after, now + wait, tuple(Send(m, place, key_list) for m in listed)
        case CollectingBoxes():
            inputs, lists = close_boxes(instance)
            if isinstance(inputs, Lost):
                return inputs, now, (report_lost(inputs),)
            wait = allowed(ctx.plan, "training")
            return inputs, now + wait, tuple(Send(m, place, b) for m, b in lists.items())
        case CollectingInputs() | Lost():
            return instance, now, ()
        case AwaitingHeld() | AwaitingNonces() | AwaitingVerdicts():
            raise UsageError("a run without validation has no checks to wait for")
        case _:
            assert_never(instance)
