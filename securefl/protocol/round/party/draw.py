"""Draw of the clusters at a party: hello, reveal, assignment (protocol.md, 1-3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from securefl.base.arrays import F32
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods.clustering import MAX_DRAWS, commitment, tells_groups, works_of
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round.party import carrying, phases, resolving, verifying
from securefl.protocol.round.server.group_start import model_count
from securefl.protocol.round.shared import budget, choices, randomness, reports, statement
from securefl.protocol.round.shared.additions.addition import NO_VALUES
from securefl.protocol.round.shared.additions.catalogue import check_values
from securefl.protocol.round.shared.atom_seed import atom_seed_of
from securefl.protocol.round.shared.draw import Draw, draw_round, drawn_report, shortage, usable_samples
from securefl.protocol.round.shared.groups import is_valid_group, model_of
from securefl.protocol.round.shared.metric_atoms import (
    CONFLICT,
    atoms_statement,
    is_in_conflict,
    metric_atoms,
)
from securefl.protocol.round.shared.missing import reason_to_leave

MAX_REDRAWS = MAX_DRAWS - 1
"""Draws of nonces after a round's first."""

MISSED_CONFIRMATION = "it was away when the model was confirmed, and too few others say that they were not"
_DRAWING = phases.ModelReceived | phases.Choosing | phases.HelloSent
RelayedT = TypeVar("RelayedT", messages.Hello, messages.Reveal)


def on_model(
    ctx: phases.PartyContext, phase: phases.PartyPhase, place: kernel.Place, message: messages.ModelAnnounce
) -> phases.PartyPhase:
    """Accept the model of a newer round in any phase, or an unchanged resend."""
    if isinstance(phase, _DRAWING) and place.round == phase.round:
        again = statement.read_model(ctx.plan, message.params)
        if statement.model_digest(again, phase.past.values) == phase.model:
            return phase
    if place.round <= phases.last_spent_round(phase):
        raise PeerError(SERVER, f"sends the model of round {place.round} again")
    if place.round >= ctx.plan.scenario.stop.rounds:
        # Each round is three more draws of clusters, and the server need not complete it.
        raise PeerError(
            SERVER,
            f"starts round {place.round}, but the run has {ctx.plan.scenario.stop.rounds} rounds,"
            " counted from 0",
        )
    params = statement.read_model(ctx.plan, message.params)
    past = replace(_with_model(ctx, phase, place.round, params), values=NO_VALUES)
    return phases.ModelReceived(past, place.round, params, statement.model_digest(params))


def on_best(
    ctx: phases.PartyContext, phase: phases.PartyPhase, place: kernel.Place, message: messages.BestModel
) -> reports.Effects:
    """Keep the best model that the server sends; an active server's must be known to this party.

    Raises:
        PeerError: the model is unexpected or unknown, or has another length.
    """
    if len(message.params) != 4 * ctx.plan.total_parameters or ctx.plan.scenario.stop.metric is None:
        raise PeerError(SERVER, f"sends a best model of {len(message.params)} bytes, which was not expected")
    params = np.frombuffer(message.params, dtype="<f4").astype(np.float32)
    seen = frozenset[bytes]() if isinstance(phase, phases.Ended) else phase.past.trained_models
    if ctx.plan.limits.quorum is not None and statement.model_digest(params) not in seen:
        reason = f"names a best model of round {place.round}, which this party does not know"
        raise PeerError(SERVER, reason)
    return (kernel.Report(reports.ModelKept(place.round, params)),)


def _with_model(
    ctx: phases.PartyContext, phase: phases.PartyPhase, round_: int, params: F32
) -> phases.PartyHistory:
    if isinstance(phase, phases.Ended):
        raise PeerError(SERVER, "sends a model after the end")
    past = replace(phase.past, last_spent_round=phases.last_spent_round(phase))
    if not carrying.has_carry(ctx.plan, "global"):
        return past
    if past.model is not None and past.model[0] == round_ and np.array_equal(past.model[1], params):
        # Another server invites to the same round: keep the model before it.
        return past
    # A party that missed the model before starts with zeros.
    last = None if past.model is None or past.model[0] != round_ - 1 else past.model[1]
    step = None if last is None else carrying.last_global_step(ctx.plan, last, params)
    return replace(past, model=(round_, params), carry=step)


def on_invite(
    ctx: phases.PartyContext,
    phase: phases.ModelReceived | phases.Choosing | phases.HelloSent | phases.NonceRevealed,
    place: kernel.Place,
    message: messages.Invite,
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Send a hello with a fresh commitment; a new draw voids earlier nonces."""
    due = 0 if isinstance(phase, phases.ModelReceived) else phase.draw + 1
    if place.round != phase.round or place.attempt != due or due > MAX_REDRAWS:
        raise PeerError(SERVER, f"starts draw {place.attempt} of round {place.round} at the wrong time")
    if message.config_digest != ctx.plan.config_digest():
        raise PeerError(SERVER, "runs another configuration than this party")
    if isinstance(phase, phases.ModelReceived):
        phase = _with_values(ctx, phase, message)
    if message.model_digest != phase.model:
        raise PeerError(SERVER, f"starts the round with another model than it sent in round {place.round}")
    if ctx.me in message.excluded:
        return _sit_out(phase, "left out for a withheld nonce or a wrong secret")
    if budget.is_spent(ctx.plan, phase.past.releases, ctx.own_budget):
        made, allowed = phase.past.releases, budget.allowed_releases(ctx.plan, ctx.own_budget)
        return _sit_out(phase, f"its privacy budget is spent: {made} of {allowed} releases are made")
    if isinstance(phase, phases.Choosing):
        return replace(phase, draw=place.attempt), ()
    if isinstance(phase, phases.ModelReceived):
        return _begin_hello(ctx, phase, place.attempt)
    return _send_hello(ctx, phase, place.attempt, phase.group, phase.no_choice_reason)


def _with_values(
    ctx: phases.PartyContext, phase: phases.ModelReceived, message: messages.Invite
) -> phases.ModelReceived:
    sent = message.values if isinstance(message, messages.ValuedInvite) else NO_VALUES
    values = check_values(ctx.plan.scenario, sent)
    model = statement.model_digest(phase.params, values)
    return replace(phase, past=replace(phase.past, values=values), model=model)


def _begin_hello(
    ctx: phases.PartyContext, phase: phases.ModelReceived, draw: int
) -> tuple[phases.PartyPhase, reports.Effects]:
    named = phase.past.stated_group
    if named is not None and named[0] == phase.round:
        return _send_hello(ctx, phase, draw, *named[1:])
    if choices.is_choosing(ctx.plan, phase.round, phase.past.choice):
        there = model_count(ctx.plan, phase.round)
        choosing = phases.Choosing(phase.past, phase.round, draw, phase.params, phase.model)
        return choosing, (kernel.Choose(phase.round, phase.params[: there * ctx.plan.length]),)
    return _send_hello(ctx, phase, draw, phase.past.choice.group)


def is_repeated_invitation(
    ctx: phases.PartyContext,
    phase: phases.Choosing | phases.HelloSent,
    place: kernel.Place,
    message: messages.Invite,
) -> bool:
    """Return True if the party has this invitation already."""
    same = (message.config_digest, message.model_digest) == (ctx.plan.config_digest(), phase.model)
    return same and place == kernel.Place(phase.round, attempt=phase.draw) and ctx.me not in message.excluded


def on_chosen(
    ctx: phases.PartyContext, phase: phases.Choosing, event: kernel.Chosen
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Send the hello with the chosen task group, fixed for all draws of this round.

    A party that cannot choose sends one too: absence would disclose something about its data.
    """
    if event.round != phase.round:
        return phase, ()
    group = choices.group_to_name(ctx.plan, phase.round, event.group, ctx.entropy)
    no_choice = "" if event.group is not None else event.failure or "no task group was chosen"
    epsilon = ctx.plan.scenario.groups.choice_epsilon
    if epsilon is None:
        return _send_hello(ctx, phase, phase.draw, group, no_choice)
    # Durable before it is sent: a restarted party must not answer the same question twice.
    kept = choices.LastChoice(choices.choices_due(ctx.plan.scenario.groups, phase.round), group)
    noted: reports.Effects = (
        kernel.Enter(kernel.ChoiceGiven(phase.round, epsilon, kept.choices_made, kept.group)),
        kernel.Journal(phase.round, kernel.CHOSE + f"{kept.choices_made} {kept.group}"),
    )
    after, effects = _send_hello(
        ctx, replace(phase, past=replace(phase.past, choice=kept)), phase.draw, group, no_choice
    )
    return after, (*noted, *effects)


def _send_hello(
    ctx: phases.PartyContext,
    phase: phases.ModelReceived | phases.Choosing | phases.HelloSent | phases.NonceRevealed,
    draw: int,
    group: int,
    no_choice: str = "",
) -> tuple[phases.PartyPhase, reports.Effects]:
    nonce = randomness.nonce_entropy(ctx.entropy, phase.round, draw).draw(32)
    hello = messages.Hello(
        samples=ctx.samples,
        model_digest=phase.model,
        config_digest=ctx.plan.config_digest(),
        commitment=commitment(nonce, ctx.plan.run, phase.round, draw, ctx.me),
        limits=ctx.plan.published_limits,
        atom_seed=phase.past.atom_seed or atoms_statement(ctx.plan, ctx.me, ctx.metric_atoms),
        group=group if tells_groups(ctx.plan.scenario.groups) else messages.NO_GROUP,
        leader=phase.past.leader,
    )
    hello = resolving.with_statements(phase.past, hello)
    greeted = phases.HelloSent(
        phase.past, phase.round, draw, phase.params, phase.model, nonce, hello, group, no_choice
    )
    return greeted, (kernel.Send(SERVER, kernel.Place(phase.round, attempt=draw), hello),)


def on_announce(
    ctx: phases.PartyContext, phase: phases.HelloSent, place: kernel.Place, message: messages.Announce
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Check all hellos and reveal the nonce; all commitments are fixed by now."""
    hellos = read_relayed(
        ctx, kernel.Place(phase.round, attempt=phase.draw), place, message.hellos, messages.Hello
    )
    if hellos.get(ctx.me) != phase.hello:
        return _sit_out(phase, "the announcement came without this party's hello")
    _check_hellos(ctx, phase, hellos)
    reveal: messages.Reveal = messages.Reveal(nonce=phase.nonce)
    noted: reports.Effects = ()
    (past, resolved), unseen = resolving.apply_statements(ctx, phase.past, hellos), None
    if ctx.plan.scenario.secure_sum.verified:
        known = past.link
        past, link, sure, noted = verifying.follow(ctx, past, place, message, phase.model)
        if sure:
            past, missing = resolving.count_missing(ctx, past, known, link)
            noted = (*noted, *missing)
            if reason := reason_to_leave(past.outcomes):
                return phases.Ended(), (*resolved, *noted, kernel.Aborted(reason, decide=True))
        reveal = messages.ChainedReveal(nonce=phase.nonce, root=link.root if sure else b"")
        unseen = None if sure else link
    revealed = phases.NonceRevealed(
        past,
        phase.round,
        phase.draw,
        phase.params,
        phase.model,
        hellos,
        phase.group,
        phase.no_choice_reason,
        unseen,
    )
    # Durable before it is sent: a server with all nonces could restart parties, and draw again.
    begun = kernel.Journal(phase.round, f"{kernel.REVEALED}{phase.draw}")
    return revealed, (
        *resolved,
        *noted,
        begun,
        kernel.Send(SERVER, kernel.Place(phase.round, attempt=phase.draw), reveal),
    )


def _check_hellos(
    ctx: phases.PartyContext, phase: phases.HelloSent, hellos: Mapping[PartyId, messages.Hello]
) -> None:
    for party, hello in hellos.items():
        if hello.model_digest != phase.model or hello.config_digest != phase.hello.config_digest:
            raise PeerError(SERVER, f"announces {party} with another model or configuration")
        if hello.leader != phase.hello.leader:
            raise PeerError(SERVER, f"announces {party}, which joined another server")
        if hello.limits != phase.hello.limits:
            raise PeerError(SERVER, f"announces {party} with other leakage limits than it configured")
        if not is_valid_group(ctx.plan, hello.group):
            raise PeerError(SERVER, f"announces {party} in group {hello.group}, which does not exist")
    if shortage(ctx.plan, hellos.keys(), _atom_seed_of(ctx, phase.past, hellos)) is not None:
        raise PeerError(SERVER, f"announces {len(hellos)} parties, too few for a round")


def on_reveals(
    ctx: phases.PartyContext, phase: phases.NonceRevealed, place: kernel.Place, message: messages.Reveals
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Recompute the clusters, draw this party's keys for each instance, and start training."""
    at = kernel.Place(phase.round, attempt=phase.draw)
    reveals = read_relayed(ctx, at, place, message.reveals, messages.Reveal)
    nonces = {p: r.nonce for p, r in reveals.items()}
    certified = compute_draw(ctx, phase, nonces)
    assignment = certified.assignment
    samples = {party: hello.samples for party, hello in phase.hellos.items()}
    drawn = kernel.Report(drawn_report(phase.round, certified, samples))
    past = replace(phase.past, atom_seed=certified.atom_seed)
    noted: reports.Effects = ()
    if phase.unconfirmed_link is not None:
        if not verifying.is_vouched_for(ctx, phase.unconfirmed_link, reveals):
            return phases.sit_out(phase, past), (
                drawn,
                kernel.Report(reports.SatOut(phase.round, MISSED_CONFIRMATION)),
            )
        known = past.link
        past, noted = verifying.accept_link(past, phase.unconfirmed_link)
        past, missing = resolving.count_missing(ctx, past, known, phase.unconfirmed_link)
        noted = (*noted, *missing)
        if reason := reason_to_leave(past.outcomes):
            return phases.Ended(), (*noted, drawn, kernel.Aborted(reason, decide=True))
    if ctx.me not in assignment.participants:
        return phases.sit_out(phase, past), (
            *noted,
            drawn,
            kernel.Report(reports.SatOut(phase.round, _reason_not_drawn(ctx))),
        )
    counting = metric_atoms(ctx.plan, certified.atom_seed)
    if is_in_conflict(counting, ctx.metric_atoms, ctx.me):
        return phases.sit_out(phase, past), (
            *noted,
            drawn,
            kernel.Report(reports.SatOut(phase.round, CONFLICT)),
        )
    clusters = resolving.drawn_clusters_of(ctx, phase.params, assignment)
    if resolving.is_blocked(ctx, past, clusters):
        waiting = resolving.record_taken_round(ctx, past, phase.round)
        return phases.sit_out(phase, waiting), (
            *noted,
            drawn,
            kernel.Report(reports.SatOut(phase.round, resolving.BLOCKED)),
        )
    announced = statement.announced_digest(phase.hellos)
    binding = statement.mask_binding(assignment, announced, phase.model, ctx.plan.config_digest())
    instances: dict[tuple[int, int], secure_sum.MemberPhase | None] = {}
    adverts: list[kernel.Send[messages.AnyMessage]] = []
    for r, j in assignment.of(ctx.me):
        instance, advert = begin_instance(
            ctx, kernel.Place(phase.round, r, j, 0), assignment.clusters[r][j], binding, certified.weights
        )
        instances[r, j] = instance
        adverts.append(kernel.Send(SERVER, kernel.Place(phase.round, r, j, 0), advert))
    # From here on the update counts as released.
    past = replace(
        past,
        releases=past.releases + works_of(ctx.plan.scenario.clustering),
        rounds_without_release=(*past.rounds_without_release, (ctx.plan.run, phase.round))[
            -messages.MAX_STATED :
        ],
    )
    if ctx.plan.scenario.stop.metric is not None:
        past = replace(past, trained_models=past.trained_models | {statement.model_digest(phase.params)})
    samples_used = usable_samples(ctx.plan, certified)
    working = phases.Working(
        past,
        phase.round,
        phase.params,
        phase.model,
        certified,
        phase.hellos,
        nonces,
        samples_used,
        instances,
        clusters,
        counted_atoms=counting,
        group=phase.group,
        no_choice_reason=phase.no_choice_reason,
        is_training_due=True,
    )
    working, training = begin_training(ctx, working)
    return working, (drawn, *noted, *adverts, *training)


def begin_training(
    ctx: phases.PartyContext, phase: phases.Working, *, wait: bool = True
) -> tuple[phases.Working, reports.Effects]:
    """Start the round's first training, if due.

    With ``PartyContext.trains_last`` it is due when only the inputs are, or without ``wait``.
    """
    if not phase.is_training_due:
        return phase, ()
    if ctx.trains_last and wait:
        instances = [one for one in phase.instances.values() if one is not None]
        if not instances or not all(ctx.sums.member.awaits_update(one) for one in instances):
            return phase, ()
    own = model_of(ctx.plan, phase.params, phase.group)
    first = kernel.Train(phase.round, 0, own, phase.past.carry, phase.samples)
    return replace(phase, is_training_due=False), (first,)


def begin_instance(
    ctx: phases.PartyContext,
    place: kernel.Place,
    members: tuple[PartyId, ...],
    binding: bytes,
    weights: Mapping[PartyId, float],
) -> tuple[secure_sum.MemberPhase, messages.KeyAdvert]:
    """Draw the fresh keys of one attempt of one instance.

    ``binding`` commits to the hellos, so to the weights that bound validated inputs.
    """
    setup, entropy = ctx.plan.setup(place, members, binding), randomness.instance_entropy(ctx.entropy, place)
    return ctx.sums.member.advertise(setup, ctx.me, weights, entropy)


def compute_draw(
    ctx: phases.PartyContext, phase: phases.NonceRevealed, nonces: Mapping[PartyId, bytes]
) -> Draw:
    """Return the draw that follows from all nonces.

    Raises:
        PeerError: a nonce is missing or does not match its commitment.
    """
    plan = ctx.plan
    if nonces.keys() != phase.hellos.keys():
        raise PeerError(SERVER, "sends nonces of other parties than it announced")
    for party, nonce in nonces.items():
        if commitment(nonce, plan.run, phase.round, phase.draw, party) != phase.hellos[party].commitment:
            raise PeerError(party, "revealed another nonce than it committed to")
    samples = {party: hello.samples for party, hello in phase.hellos.items()}
    atom_seed = _atom_seed_of(ctx, phase.past, phase.hellos)
    groups = {party: hello.group for party, hello in phase.hellos.items()}
    return draw_round(plan, phase.round, phase.draw, phase.model, nonces, samples, atom_seed, groups)


def _atom_seed_of(
    ctx: phases.PartyContext, past: phases.PartyHistory, hellos: Mapping[PartyId, messages.Hello]
) -> bytes:
    return atom_seed_of(ctx.plan, hellos, past.atom_seed)


def _reason_not_drawn(ctx: phases.PartyContext) -> str:
    clustering = ctx.plan.scenario.clustering
    if tells_groups(ctx.plan.scenario.groups):
        return "its task group is too small for a cluster, or more than clusters hold"
    if clustering.fixed:
        return "too few of its fixed cluster are there"
    return "not drawn for this round" if clustering.atoms == 1 else "its atom is not whole, or not drawn"


def read_relayed(
    ctx: phases.PartyContext,
    due: kernel.Place,
    place: kernel.Place,
    frames: Sequence[bytes],
    kind: type[RelayedT],
) -> dict[PartyId, RelayedT]:
    """Return each party's message of a kind, from relayed frames.

    Raises:
        PeerError: the list is untimely, or a frame is forged, of another draw, or a party's second one.
    """
    if place != due:
        raise PeerError(SERVER, f"sends lists of {kind.__name__} at the wrong time")
    received: dict[PartyId, RelayedT] = {}
    for frame in frames:
        delivery = wire.open_relayed(frame, ctx.plan.roster, ctx.plan.run, SERVER, SERVER)
        if delivery.place != due or not isinstance(delivery.message, kind) or delivery.sender in received:
            raise PeerError(SERVER, f"must send one {kind.__name__} of each party")
        if delivery.sender not in ctx.plan.roster.parties:
            # The server is on the roster; as a member it would be one more colluder.
            raise PeerError(SERVER, f"relays a {kind.__name__} of {delivery.sender}, which is not a party")
        received[delivery.sender] = delivery.message
    return received


def _sit_out(phase: phases.RunningPhase, reason: str) -> tuple[phases.PartyPhase, reports.Effects]:
    return phases.sit_out(phase), (kernel.Report(reports.SatOut(phase.round, reason)),)
