"""A party's work inside its clusters, from the key lists to the masked inputs (protocol.md, steps 3-5)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from securefl.arrays import F64
from securefl.config.sizes import hides_groups, upload_of, works_of
from securefl.errors import PeerError
from securefl.ids import SERVER, PartyId
from securefl.kernel.effects import ATOMS, Journal, Reject, Report, Send, Train
from securefl.kernel.events import Place, Trained
from securefl.messages.crypten import PeerBox
from securefl.messages.masking import BoxList, Complaint, KeyList, Retry
from securefl.messages.union import AnyMessage
from securefl.messages.validation import DealtTo, HeldList, SketchNonces, Verdicts
from securefl.rounds.groups import model_of
from securefl.rounds.party_crypten import on_crypten_message, submit_shares
from securefl.rounds.party_draw import Effects, begin_instance
from securefl.rounds.party_phases import (
    MemberPhase,
    PartyContext,
    PartyPhase,
    Submitted,
    Working,
)
from securefl.rounds.party_validated import on_validated_message, share_validated
from securefl.rounds.randomness import instance_entropy, update_entropy
from securefl.rounds.reports import ClusterKey, NothingLearned, UpdateEncoded
from securefl.rounds.slots import draw_seat, slot_uploads
from securefl.rounds.upload import Occasion, make_upload
from securefl.secure_sum.crypten import member
from securefl.secure_sum.masking import client
from securefl.secure_sum.masking.client import (
    Advertised,
    BadBoxError,
    Boxed,
    Ready,
    mask,
    on_box_list,
    on_key_list,
)
from securefl.secure_sum.validated import phases as validated

SumMessage = KeyList | BoxList | PeerBox | DealtTo | HeldList | SketchNonces | Verdicts


def on_instance_message(
    ctx: PartyContext, phase: Working, place: Place, message: SumMessage | Retry
) -> tuple[PartyPhase, Effects]:
    """Take one message of one of this party's instances."""
    key = (place.reclustering, place.cluster)
    instance = phase.instances.get(key)
    if place.round != phase.round or instance is None:
        raise PeerError(SERVER, f"sends {type(message).__name__} for an instance that is not ours")
    attempt = instance.setup.instance.attempt
    if isinstance(message, PeerBox | DealtTo) and place.attempt < attempt:
        # Under way when the instance started over: nobody's fault, and no use.
        return phase, ()
    if place.attempt != attempt + isinstance(message, Retry):
        raise PeerError(
            SERVER, f"sends {type(message).__name__} of attempt {place.attempt}, we are in {attempt}"
        )
    entropy = instance_entropy(ctx.entropy, place)
    match message, instance:
        case KeyList(), Advertised():
            boxed, boxes = on_key_list(instance, message, ctx.plan.roster, entropy)
            return _with(phase, key, boxed), (Send(SERVER, place, boxes),)
        case BoxList(), Boxed():
            return _on_boxes(ctx, phase, key, place, instance, message)
        case Retry(), _:
            return _on_retry(ctx, phase, key, place, instance, message)
        case (
            (KeyList() | PeerBox()),
            (member.Advertised() | member.Listed() | member.Computing() | member.Spoiled()),
        ):
            changed, said = on_crypten_message(ctx, instance, message)
            after, more = _submit(ctx, _with(phase, key, changed), key)
            return after, (*said, *more)
        case (
            (KeyList() | PeerBox() | DealtTo() | HeldList() | SketchNonces() | Verdicts()),
            (
                (validated.Advertised() | validated.Gathering() | validated.Holding())
                | (validated.Revealed() | validated.Checking() | validated.Judged() | validated.Spoiled())
            ),
        ):
            moved, told = on_validated_message(ctx, instance, message)
            after, more = _submit(ctx, _with(phase, key, moved), key)
            return after, (*told, *more)
        case _:
            raise PeerError(SERVER, f"sends {type(message).__name__} out of turn")


def on_trained(ctx: PartyContext, phase: Working, event: Trained) -> tuple[PartyPhase, Effects]:
    """Encode the work's update, submit it wherever it is due and the masks are known, and go on to the next.

    One work follows another: a trainer has one model. Where it came to nothing, zeros go the same way, noise
    and all: the server chooses the model, and so on which data training fails, and a party that fell silent
    then would answer it without any noise. Only public facts skip a round.
    """
    work = event.work
    if event.round != phase.round or work != len(phase.uploads):
        return phase, ()
    update, lost = _sendable(ctx, phase, event)
    own = model_of(ctx.plan, phase.params, phase.group)
    entropy = update_entropy(ctx.entropy, phase.round, work)
    upload = make_upload(
        ctx.plan,
        Occasion(phase.round, work, own, phase.assignment.clusters),
        update,
        phase.weights[ctx.me],
        entropy,
        ctx.seams,
    )
    effects: list[Effects] = [(Report(UpdateEncoded(phase.round, work, upload.saturated)),)]
    if lost:
        effects.insert(0, (Report(NothingLearned(phase.round, work, lost)),))
    if work == 0:
        # Durable before the first masked input leaves: a restarted party must not submit a second update.
        effects.insert(0, (Journal(phase.round, "submitted"),))
        if phase.past.founding:
            # Nor, ever, one in other atoms.
            effects.insert(0, (Journal(phase.round, ATOMS + phase.past.founding.hex()),))
    if hides_groups(ctx.plan.scenario):
        seat = draw_seat(entropy, phase.group)
        current = replace(phase, uploads=slot_uploads(ctx.plan, upload, seat), seat=seat)
    else:
        current = replace(phase, uploads=(*phase.uploads, upload))
    for key in phase.instances:
        current, sent = _submit(ctx, current, key)
        effects.append(sent)
    if len(current.uploads) < works_of(ctx.plan.scenario):
        effects.append((Train(phase.round, work + 1, own, phase.past.carry, phase.samples),))
    return current, tuple(effect for group in effects for effect in group)


def _sendable(ctx: PartyContext, phase: Working, event: Trained) -> tuple[F64, str]:
    """What is sent of a training, f64 ``(d,)``, and why it is nothing where it is."""
    nothing = np.zeros(ctx.plan.length, dtype=np.float64)
    if phase.groupless:
        # It has trained all the same, so that its answer takes as long as any other.
        return nothing, phase.groupless
    if event.update is None:
        return nothing, event.failure or "training failed"
    if not np.isfinite(event.update).all():
        return nothing, "training ended in an update not finite"
    return event.update, ""


def _on_boxes(
    ctx: PartyContext, phase: Working, key: ClusterKey, place: Place, instance: Boxed, message: BoxList
) -> tuple[PartyPhase, Effects]:
    try:
        ready = on_box_list(instance, message)
    except BadBoxError as error:
        complaint: Send[AnyMessage] = Send(SERVER, place, Complaint(accused=error.culprit))
        return phase, (Reject(error.culprit, error.reason), complaint)
    return _submit(ctx, _with(phase, key, ready), key)


def _on_retry(
    ctx: PartyContext, phase: Working, key: ClusterKey, place: Place, instance: MemberPhase, message: Retry
) -> tuple[PartyPhase, Effects]:
    """Start over with fresh keys. Nothing of the last attempt is ever opened: no share leaves for it."""
    members = tuple(PartyId(name) for name in message.members)
    _check_retry(ctx, place, instance, members)
    if ctx.me not in members:
        return _with(phase, key, None), ()
    fresh, advert = begin_instance(ctx, place, members, instance.setup.binding, phase.weights)
    return _with(phase, key, fresh), (Send(SERVER, place, advert),)


def _check_retry(
    ctx: PartyContext, place: Place, instance: MemberPhase, members: tuple[PartyId, ...]
) -> None:
    """Fewer of the same members, and enough of them, a bounded number of times, before the sketch is known.

    Members from outside the cluster could be colluders enough to open the update before any freeze.
    """
    sums = ctx.plan.scenario.secure_sum
    if place.attempt >= sums.max_attempts:
        raise PeerError(SERVER, f"asks for more than {sums.max_attempts} attempts")
    if list(members) != sorted(set(members)) or not set(members) < set(instance.setup.members):
        raise PeerError(SERVER, "retries with members that are not fewer of the same")
    if ctx.plan.validation is not None and isinstance(instance, validated.NO_RETURN):
        raise PeerError(SERVER, "retries an instance whose sketch may be known: there is no second one")
    if len(members) < sums.min_survivors:
        raise PeerError(SERVER, "retries with fewer than min_survivors members")


def _submit(ctx: PartyContext, phase: Working, key: ClusterKey) -> tuple[Working, Effects]:
    instance, work = phase.instances[key], upload_of(ctx.plan.scenario, key[0])
    if work >= len(phase.uploads) or not isinstance(instance, Ready | member.Listed | validated.Gathering):
        return phase, ()
    if isinstance(instance, validated.Gathering):
        if instance.shared:
            return phase, ()
        gathering, told = share_validated(ctx, instance, phase.uploads[work].ring)
        return _with(phase, key, gathering), told
    without = ctx.seams.without(instance.setup.certain, phase.round)
    if isinstance(instance, member.Listed):
        shared, said = submit_shares(ctx, instance, phase.uploads[work].ring, without)
        return _with(phase, key, shared), said
    submitted, masked, receipt = mask(instance, phase.uploads[work].ring, without)
    place = submitted.setup.place
    return _with(phase, key, submitted), (Send(SERVER, place, masked), Send(SERVER, place, receipt))


def _with(phase: Working, key: ClusterKey, instance: MemberPhase | None) -> Working:
    return replace(phase, instances={**phase.instances, key: instance})


def submitted_instances(phase: Working) -> dict[ClusterKey, Submitted] | None:
    """Return all instances when every one of them has this party's masked input, else None."""
    done = {
        key: i for key, i in phase.instances.items() if isinstance(i, client.Submitted | member.Submitted)
    }
    return done if len(done) == len(phase.instances) else None
