"""Work of a party in its clusters, from key lists to masked inputs (protocol.md, steps 3-5)."""

from dataclasses import replace

import numpy as np

from securefl.base.arrays import F64
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.party import draw, phases
from securefl.protocol.round.party.resolving import record_input
from securefl.protocol.round.party.upload import UpdateId, make_upload
from securefl.protocol.round.shared import metric_atoms, randomness, reports
from securefl.protocol.round.shared.groups import model_of
from securefl.protocol.round.shared.slots import draw_seat, slot_uploads
from securefl.protocol.round.shared.unresolved import max_silent_members


def on_instance_message(
    ctx: phases.PartyContext,
    phase: phases.Working,
    place: kernel.Place,
    message: messages.SumToMember | messages.Retry,
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Handle a message for one of this party's instances."""
    key = (place.reclustering, place.cluster)
    instance = phase.instances.get(key)
    if place.round != phase.round or instance is None:
        raise PeerError(SERVER, f"sends {type(message).__name__} for a cluster of other parties")
    attempt = instance.setup.instance.attempt
    if isinstance(message, messages.PassedOn) and place.attempt < attempt:
        # Sent before the instance was retried; not an error.
        return phase, ()
    if place.attempt != attempt + isinstance(message, messages.Retry):
        raise PeerError(
            SERVER, f"sends {type(message).__name__} of attempt {place.attempt}, this is attempt {attempt}"
        )
    if isinstance(message, messages.Retry):
        return _on_retry(ctx, phase, key, place, instance, message)
    entropy = randomness.instance_entropy(ctx.entropy, place)
    step = ctx.sums.member.receive(instance, message, ctx.plan.roster, entropy)
    after = phase if step.phase is instance else _with_instance(phase, key, step.phase)
    after, more = _submit(ctx, after, key)
    after, training = draw.begin_training(ctx, after)
    return after, (*_step_effects(step), *more, *training)


def on_trained(
    ctx: phases.PartyContext, phase: phases.Working, event: kernel.Trained
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Encode the update, submit it to every ready sum, and start the next training.

    If training fails, zeros with the usual noise are sent: silence would disclose something about the data.
    """
    work = event.work
    if event.round != phase.round:
        return phase, ()
    if phase.submit_at is not None:
        return _keep_result(ctx, phase, event)
    if work != len(phase.uploads):
        return phase, ()
    update, lost = _values_to_send(ctx, phase, event)
    update = metric_atoms.with_allowed_metrics(ctx.plan, phase.counted_atoms, ctx.me, update)
    own = model_of(ctx.plan, phase.params, phase.group)
    entropy = randomness.update_entropy(ctx.entropy, phase.round, work)
    upload = make_upload(
        ctx.plan,
        UpdateId(phase.round, work, own, phase.assignment.clusters, phase.past.values),
        update,
        phase.weights[ctx.me],
        entropy,
        ctx.seams,
    )
    effects: list[reports.Effects] = [
        (kernel.Report(reports.UpdateEncoded(phase.round, work, upload.saturated)),)
    ]
    if lost:
        effects.insert(0, (kernel.Report(reports.NothingLearned(phase.round, work, lost)),))
    if work == 0:
        effects.insert(0, _record_submission(ctx, phase))
        phase = replace(phase, past=record_input(ctx, phase.past, phase.round, phase.clusters))
    if clustering.hides_groups(ctx.plan.scenario.groups):
        seat = draw_seat(entropy, phase.group)
        current = replace(phase, uploads=slot_uploads(ctx.plan, upload, seat), seat=seat)
    else:
        current = replace(phase, uploads=(*phase.uploads, upload))
    for key in phase.instances:
        current, sent = _submit(ctx, current, key)
        effects.append(sent)
    if len(current.uploads) < clustering.works_of(ctx.plan.scenario.clustering):
        effects.append((kernel.Train(phase.round, work + 1, own, phase.past.carry, phase.samples),))
    return current, tuple(effect for group in effects for effect in group)


def _record_submission(ctx: phases.PartyContext, phase: phases.Working) -> reports.Effects:
    """Record the update durably before the first masked input.

    A restarted party must never submit a second update, nor metrics in other atoms.
    """
    seed, atoms = phase.past.atom_seed, phase.counted_atoms
    works = clustering.works_of(ctx.plan.scenario.clustering)
    given = kernel.UpdateGiven(phase.round, works, seed, phase.clusters, max_silent_members(ctx.plan))
    return (
        *((kernel.Journal(phase.round, kernel.ATOMS + seed.hex()),) if seed else ()),
        *(
            (kernel.Enter(kernel.AtomsCounted(atoms)),)
            if atoms and metric_atoms.own_atom(atoms, ctx.me)
            else ()
        ),
        kernel.Enter(given),
        kernel.Journal(phase.round, "submitted"),
    )


def _keep_result(
    ctx: phases.PartyContext, phase: phases.Working, event: kernel.Trained
) -> tuple[phases.Working, reports.Effects]:
    if event.work != len(phase.kept_results):
        return phase, ()
    current = replace(phase, kept_results=(*phase.kept_results, event))
    if len(current.kept_results) == clustering.works_of(ctx.plan.scenario.clustering):
        return current, ()
    own = model_of(ctx.plan, phase.params, phase.group)
    return current, (kernel.Train(phase.round, event.work + 1, own, phase.past.carry, phase.samples),)


def on_late(
    ctx: phases.PartyContext, phase: phases.Working, now: float
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Submit zeros for unfinished trainings, as :func:`on_trained` does."""
    current: phases.PartyPhase = replace(phase, late_at=None, is_training_due=False, train_at=None)
    effects = list[reports.Effects]()
    for work in range(len(phase.uploads), clustering.works_of(ctx.plan.scenario.clustering)):
        if isinstance(current, phases.Working):
            late = kernel.Trained(now, phase.round, work, None, "training has not ended in time")
            current, more = on_trained(ctx, current, late)
            effects.append(tuple(effect for effect in more if not isinstance(effect, kernel.Train)))
    return current, tuple(effect for group in effects for effect in group)


def on_submit(
    ctx: phases.PartyContext, phase: phases.Working, now: float
) -> tuple[phases.Working, reports.Effects]:
    """Send all masked inputs at the time common to all parties (``Scenario.submit_seconds``).

    Zeros replace unfinished works, because training time depends on the data. All is encoded now, for equal
    delay.
    """
    current, effects = (
        replace(phase, submit_at=None, kept_results=(), is_training_due=False, train_at=None),
        list[reports.Effects](),
    )
    for work in range(clustering.works_of(ctx.plan.scenario.clustering)):
        late = kernel.Trained(now, phase.round, work, None, "training had not ended by deadlines.submit")
        after, more = on_trained(
            ctx, current, phase.kept_results[work] if work < len(phase.kept_results) else late
        )
        if isinstance(after, phases.Working):
            current = after
        effects.append(tuple(effect for effect in more if not isinstance(effect, kernel.Train)))
    for key in current.instances:
        current, sent = _submit(ctx, current, key)
        effects.append(sent)
    return current, tuple(effect for group in effects for effect in group)


def _values_to_send(
    ctx: phases.PartyContext, phase: phases.Working, event: kernel.Trained
) -> tuple[F64, str]:
    """Return the values to send, f64 ``(d + w,)``, and the reason if they are zeros."""
    nothing = np.zeros(ctx.plan.upload_length, dtype=np.float64)
    if phase.no_choice_reason:
        # It trains all the same, so that the answer takes as long as any other.
        return nothing, phase.no_choice_reason
    if event.update is None:
        return nothing, event.failure or "training failed"
    if event.update.shape != nothing.shape or event.update.dtype != nothing.dtype:
        # If the shape depends on the data, an error would disclose it.
        return nothing, "training ended in an update of another shape or type"
    if not np.isfinite(event.update).all():
        return nothing, "training ended in an update not finite"
    return event.update, ""


def _on_retry(
    ctx: phases.PartyContext,
    phase: phases.Working,
    key: reports.ClusterKey,
    place: kernel.Place,
    instance: secure_sum.MemberPhase,
    message: messages.Retry,
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Start over with fresh keys. No share of the old attempt is released, so it never opens."""
    members = tuple(PartyId(name) for name in message.members)
    _check_retry(ctx, place, instance, members)
    if ctx.me not in members:
        # The other instances may have waited for this one.
        return draw.begin_training(ctx, _with_instance(phase, key, None))
    fresh, advert = draw.begin_instance(ctx, place, members, instance.setup.binding, phase.weights)
    return _with_instance(phase, key, fresh), (kernel.Send(SERVER, place, advert),)


def _check_retry(
    ctx: phases.PartyContext,
    place: kernel.Place,
    instance: secure_sum.MemberPhase,
    members: tuple[PartyId, ...],
) -> None:
    """Check that a retry has fewer of the same members, enough of them, and attempts left.

    A known sketch rules it out. Other members could be enough colluders to open the update before the freeze.
    """
    sums = ctx.plan.scenario.secure_sum
    if place.attempt >= sums.max_attempts:
        raise PeerError(SERVER, f"asks for more than {sums.max_attempts} attempts")
    if list(members) != sorted(set(members)) or not set(members) < set(instance.setup.members):
        raise PeerError(SERVER, "repeats a sum, but not with fewer of its members")
    if ctx.sums.member.is_final(instance):
        raise PeerError(SERVER, "repeats a validated sum, which is possible once only")
    if len(members) < sums.min_survivors:
        raise PeerError(SERVER, "repeats a sum with fewer members than min_survivors")


def _submit(
    ctx: phases.PartyContext, phase: phases.Working, key: reports.ClusterKey
) -> tuple[phases.Working, reports.Effects]:
    instance, work = phase.instances[key], clustering.upload_of(ctx.plan.scenario, key[0])
    if work >= len(phase.uploads) or instance is None:
        return phase, ()
    without = ctx.seams.left_out_components(instance.setup.certain, phase.round)
    entropy = randomness.instance_entropy(ctx.entropy, instance.setup.place)
    ring = phase.uploads[work].ring[: ctx.plan.sum_length(key[0])]
    step = ctx.sums.member.submit(instance, ring, entropy, without)
    return (phase, ()) if step is None else (_with_instance(phase, key, step.phase), _step_effects(step))


def _step_effects(step: secure_sum.MemberStep) -> reports.Effects:
    place = step.phase.setup.place
    refused = () if step.refused is None else (kernel.Reject(step.refused.culprit, step.refused.reason),)
    return (*refused, *(kernel.Send(SERVER, place, message) for message in step.outgoing))


def _with_instance(
    phase: phases.Working, key: reports.ClusterKey, instance: secure_sum.MemberPhase | None
) -> phases.Working:
    return replace(phase, instances={**phase.instances, key: instance})


def submitted_instances(
    ctx: phases.PartyContext, phase: phases.Working
) -> dict[reports.ClusterKey, secure_sum.InputSent] | None:
    """Return all instances if each has this party's masked input, else None."""
    done: dict[reports.ClusterKey, secure_sum.InputSent] = {}
    for key, instance in phase.instances.items():
        sent = None if instance is None else ctx.sums.member.input_sent(instance)
        if sent is None:
            return None
        done[key] = sent
    return done
