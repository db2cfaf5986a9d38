"""Checks of a party before it releases any share (protocol.md, steps 6-9, with the attacks stopped)."""

from collections.abc import Mapping
from dataclasses import replace

from securefl.base.errors import PeerError
from securefl.base.ids import SERVER, PartyId
from securefl.methods import clustering
from securefl.methods.leakage import Admission, Given, crossed_together, doubtful_members, join_releases
from securefl.protocol import kernel, messages, secure_sum, wire
from securefl.protocol.round.party import carrying, phases
from securefl.protocol.round.party.resolving import record_release
from securefl.protocol.round.party.shares import release
from securefl.protocol.round.party.sums import submitted_instances
from securefl.protocol.round.shared import leakage, reports
from securefl.protocol.round.shared.chain import CertifiedRound
from securefl.protocol.round.shared.charges import RoundPreimage
from securefl.protocol.round.shared.statement import (
    announced_digest,
    bound_statement,
    lists_statement,
    round_statement,
)


def on_freeze(
    ctx: phases.PartyContext, phase: phases.Working, place: kernel.Place, message: messages.Freeze
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Check the survivor set; then endorse it (active server) or release (curious server)."""
    if place.round != phase.round:
        raise PeerError(SERVER, f"sends the survivors of round {place.round} in round {phase.round}")
    survivors = frozenset(PartyId(name) for name in message.survivors)
    dropped = tuple(p for p in phase.assignment.participants if p not in survivors)
    frozen: kernel.Report[reports.AnyReport] = kernel.Report(
        reports.SurvivorsFrozen(phase.round, tuple(sorted(survivors)), dropped)
    )
    instances = submitted_instances(ctx, phase)
    if ctx.me not in survivors:
        if not _holds_needed_shares(ctx, phase, instances, survivors):
            return phases.sit_out(phase), (
                frozen,
                kernel.Report(reports.SatOut(phase.round, "not in the survivor set")),
            )
        frozen = kernel.Report(
            reports.SatOut(phase.round, "its update was refused; it helps to open the others")
        )
    if instances is None:
        raise PeerError(SERVER, "lists this party as a survivor, although it has not sent all of its inputs")
    _check_survivors(ctx, phase, survivors)
    question = _ledger_question(ctx, phase, survivors)
    admission = question.answer()
    if not admission.admitted:
        raise _limit_error(admission)
    given = leakage.sums_by_model(ctx.plan, phase.params, phase.assignment, survivors, admission.admitted)
    instances = {key: i for key, i in instances.items() if key[0] in admission.admitted}
    _check_attempts(instances, message)
    stated = _check_receipts(ctx, phase, instances, survivors, message, admission)
    commitments = _check_commitments(ctx, phase, instances, survivors, message, admission, stated)
    if (repeats := _reason_from_repeats(ctx, phase.past, given, phase.round)) is not None:
        return phases.sit_out(phase), (frozen, kernel.Report(reports.SatOut(phase.round, repeats)))
    statement = _statement(ctx, phase, survivors, commitments)
    certified: CertifiedRound | None = None
    if commitments is not None:
        certified = CertifiedRound(phase.round, statement, phase.drawn, survivors, commitments)
    endorsed = phases.Endorsed(
        phase.past,
        _state_after_release(ctx, phase, given, certified, instances, survivors),
        phase.round,
        statement,
        survivors,
        question,
        admission,
        given,
        instances,
        phase.seat,
    )
    reports_sent: reports.Effects = (
        frozen,
        *map(kernel.Report, leakage.withheld_report(phase.round, admission)),
    )
    if ctx.plan.limits.quorum is None:
        outside, effects = release(ctx, endorsed)
        return outside, (*reports_sent, *effects)
    if ctx.me not in survivors:
        return endorsed, reports_sent
    own_lists = lists_statement((r, j, i.lists_digest) for (r, j), i in instances.items())
    endorse = messages.Endorse(statement=statement, lists=own_lists, ledger_head=admission.head())
    return endorsed, (*reports_sent, kernel.Send(SERVER, kernel.Place(phase.round), endorse))


def _state_after_release(
    ctx: phases.PartyContext,
    phase: phases.Working,
    given: Given,
    certified: CertifiedRound | None,
    instances: Mapping[reports.ClusterKey, secure_sum.InputSent],
    survivors: frozenset[PartyId],
) -> phases.PartyHistory:
    after = record_release(ctx, phase.past, phase.round)
    after = replace(after, released_sums=join_releases(after.released_sums, given))
    if certified is not None:
        sums = {key: secure_sum.repeatable(instance, survivors) for key, instance in instances.items()}
        record = RoundPreimage(
            draw=phase.drawn.number,
            model=phase.model,
            hellos=tuple(sorted(phase.hellos.items())),
            nonces=tuple(sorted(phase.nonces.items())),
            survivors=tuple(sorted(survivors)),
            commitments=tuple(certified.commitments.values()),
        )
        after = replace(
            after,
            verifying=phases.VerifiableRound(certified, phase.params, sums, record, values=phase.past.values),
        )
    if carrying.has_carry(ctx.plan, "own") and ctx.me in survivors:
        after = replace(
            after, carry=carrying.decode_own_upload(ctx.plan, phase.uploads[-1], phase.weights[ctx.me])
        )
    return after


def _statement(
    ctx: phases.PartyContext,
    phase: phases.Working,
    survivors: frozenset[PartyId],
    commitments: Mapping[reports.ClusterKey, bytes] | None,
) -> bytes:
    statement = round_statement(
        ctx.plan.run,
        phase.round,
        phase.model,
        ctx.plan.config_digest(),
        announced_digest(phase.hellos),
        phase.assignment,
        survivors,
    )
    return statement if commitments is None else bound_statement(statement, commitments.values())


def _holds_needed_shares(
    ctx: phases.PartyContext,
    phase: phases.Working,
    instances: Mapping[reports.ClusterKey, secure_sum.InputSent] | None,
    survivors: frozenset[PartyId],
) -> bool:
    """Return True if this party is not counted, but holds shares of counted updates."""
    mates = (phase.assignment.clusters[r][j] for r, j in instances or ())
    return ctx.sums.dropouts_release and any(survivors.intersection(members) for members in mates)


def on_certificate(
    ctx: phases.PartyContext, phase: phases.Endorsed, place: kernel.Place, message: messages.Certificate
) -> tuple[phases.PartyPhase, reports.Effects]:
    """Release once more than (N + q) / 2 roster identities have endorsed the same statement."""
    if place.round != phase.round:
        raise PeerError(SERVER, f"sends a certificate of round {place.round} in round {phase.round}")
    signers: set[PartyId] = set()
    head = phase.admission.head()
    for frame in message.endorsements:
        delivery = wire.open_relayed(frame, ctx.plan.roster, ctx.plan.run, SERVER, SERVER)
        endorse = delivery.message
        if (
            not isinstance(endorse, messages.Endorse)
            or delivery.place != kernel.Place(phase.round)
            or endorse.statement != phase.statement
            or endorse.ledger_head != head
            or delivery.sender not in phase.survivors
        ):
            raise PeerError(SERVER, "the certificate has signatures of another statement")
        if delivery.sender in signers:
            raise PeerError(SERVER, f"the certificate has two signatures of {delivery.sender}")
        signers.add(delivery.sender)
    quorum = ctx.plan.limits.quorum
    if quorum is None or len(signers) < quorum:
        raise PeerError(SERVER, f"the certificate has {len(signers)} signatures, {quorum} are needed")
    if not phase.admission.certain:
        # Survivors may have been chosen to suit the first primes; no party knew these.
        seed = leakage.certified_prime_seed(phase.statement, message.endorsements)
        if phase.question.answer(seed).admitted != phase.admission.admitted:
            raise PeerError(SERVER, "the choice of survivors would evade the leakage limits")
    return release(ctx, _with_certificate(phase, message.endorsements))


def _with_certificate(phase: phases.Endorsed, endorsements: tuple[bytes, ...]) -> phases.Endorsed:
    verifying = phase.history_after_release.verifying
    if verifying is None or verifying.certified.round != phase.round:
        return phase
    kept = replace(verifying, certificate=endorsements)
    return replace(phase, history_after_release=replace(phase.history_after_release, verifying=kept))


def _ledger_question(
    ctx: phases.PartyContext, phase: phases.Working, survivors: frozenset[PartyId]
) -> leakage.LedgerQuestion:
    limits = {party: hello.limits for party, hello in phase.hellos.items()}
    return leakage.LedgerQuestion(
        phase.round,
        phase.assignment,
        survivors,
        limits | {ctx.me: ctx.plan.published_limits},
        clustering.sums_apart(ctx.plan.scenario),
    )


def _reason_from_repeats(
    ctx: phases.PartyContext, past: phases.PartyHistory, now: Given, round_: int
) -> str | None:
    """Return why a round's sums exceed the limits together with earlier sums on the same models, or None.

    Accounts differ, so the party sits out and the certificate stays. Honest servers repeat a model after a
    round without an update, so no peer is blamed.
    """
    own = leakage.repeat_limits(ctx.plan)
    if own is None:
        return None
    seed = ctx.entropy.child("ledger of repeats", round_).draw(32)
    known = doubtful_members(record_release(ctx, past, round_).unresolved, ctx.me)
    found = crossed_together(past.released_sums, now, own, seed, known)
    if not found:
        return None
    return (
        "with sums of earlier rounds or runs on the same model, those of this round exceed the leakage"
        f" limits: {found[0].party}, {found[0].reason}"
    )


def _limit_error(admission: Admission) -> PeerError:
    return PeerError(
        SERVER, f"asks to open sums that exceed the leakage limits: {leakage.first_crossing(admission)}"
    )


def _check_survivors(ctx: phases.PartyContext, phase: phases.Working, survivors: frozenset[PartyId]) -> None:
    """Check all limits in every instance of the round, not only in this party's."""
    assignment = phase.assignment
    if not survivors <= set(assignment.participants):
        raise PeerError(SERVER, "lists survivors that do not take part")
    clusters = {(r, j): m for r, row in enumerate(assignment.clusters) for j, m in enumerate(row)}
    wanted = max(phase.hellos[party].limits.min_survivors for party in survivors)
    if not clustering.is_closed(clusters, survivors, max(wanted, ctx.plan.scenario.secure_sum.min_survivors)):
        raise PeerError(SERVER, f"lists so few survivors that a cluster has fewer than {wanted} members")
    if clustering.splits(assignment.atoms, survivors):
        raise PeerError(SERVER, "lists survivors that split an atom")
    quorum = ctx.plan.limits.quorum
    if quorum is not None and len(survivors) < quorum:
        raise PeerError(
            SERVER, f"{len(survivors)} survivors are fewer than the {quorum} signatures of a certificate"
        )


def _check_attempts(
    instances: Mapping[reports.ClusterKey, secure_sum.InputSent], message: messages.Freeze
) -> None:
    frozen = {(a.reclustering, a.cluster): a.attempt for a in message.attempts}
    for key, instance in instances.items():
        if frozen.get(key, 0) != instance.setup.instance.attempt:
            raise PeerError(SERVER, f"lists survivors of another attempt of {instance.setup.describe()}")


def _check_receipts(
    ctx: phases.PartyContext,
    phase: phases.Working,
    instances: Mapping[reports.ClusterKey, secure_sum.InputSent],
    survivors: frozenset[PartyId],
    message: messages.Freeze,
    admission: Admission,
) -> dict[tuple[reports.ClusterKey, PartyId], messages.Receipt]:
    """Check that all survivors of our instances masked under our lists; return their receipts.

    Otherwise a server could make one member share masks with colluders only, and have others release its
    seed. Survivors are those of the assigned cluster: one that a retry left out would be missing from this
    sum only, and the difference of two reclusterings would be its update.
    """
    stated = _read_receipts(ctx, instances, message, admission)
    for key, instance in instances.items():
        held = {instance.setup.members[owner] for owner in instance.sharers}
        alive = survivors.intersection(phase.assignment.clusters[key[0]][key[1]])
        if instance.setup.everyone and alive != held:
            raise PeerError(SERVER, f"lists some of the members only in {instance.setup.describe()}")
        if not alive <= held:
            raise PeerError(SERVER, f"lists survivors without masks in {instance.setup.describe()}")
        if len(alive) < instance.setup.min_survivors:
            raise PeerError(
                SERVER, f"lists fewer survivors than min_survivors in {instance.setup.describe()}"
            )
        for party in alive - {ctx.me}:
            receipt = stated.get((key, party))
            if receipt is None or receipt.lists_digest != instance.lists_digest:
                raise PeerError(
                    SERVER, f"has no receipt of {party} for our lists in {instance.setup.describe()}"
                )
    return stated


def _check_commitments(
    ctx: phases.PartyContext,
    phase: phases.Working,
    instances: Mapping[reports.ClusterKey, secure_sum.InputSent],
    survivors: frozenset[PartyId],
    message: messages.Freeze,
    admission: Admission,
    stated: Mapping[tuple[reports.ClusterKey, PartyId], messages.Receipt],
) -> dict[reports.ClusterKey, bytes] | None:
    """Return the commitments that fix each sum before anything opens; ours must match our receipts.

    None if sums are not verified.
    """
    if not ctx.plan.scenario.secure_sum.verified:
        return None
    keys = leakage.opened_keys(phase.assignment, survivors, admission.admitted)
    if not isinstance(message, messages.BindingFreeze) or len(message.commitments) != len(keys):
        raise PeerError(SERVER, "lists survivors, but not the inputs of each sum")
    commitments = dict(zip(keys, message.commitments, strict=True))
    for key, instance in instances.items():
        inputs = {instance.setup.index(ctx.me): instance.input_digest}
        for (of, party), receipt in stated.items():
            if of == key:
                inputs[instance.setup.index(party)] = secure_sum.stated_input(receipt)
        whole = sorted(inputs) == list(instance.summed_members(survivors)) and all(inputs.values())
        if (
            not whole
            or secure_sum.commitment_of(instance.setup, instance.lists_digest, inputs) != commitments[key]
        ):
            raise PeerError(SERVER, f"lists other inputs than the receipts of {instance.setup.describe()}")
    return commitments


def _read_receipts(
    ctx: phases.PartyContext,
    instances: Mapping[reports.ClusterKey, secure_sum.InputSent],
    message: messages.Freeze,
    admission: Admission,
) -> dict[tuple[reports.ClusterKey, PartyId], messages.Receipt]:
    stated: dict[tuple[reports.ClusterKey, PartyId], messages.Receipt] = {}
    for frame in message.receipts:
        delivery = wire.open_relayed(frame, ctx.plan.roster, ctx.plan.run, SERVER, SERVER)
        key = (delivery.place.reclustering, delivery.place.cluster)
        instance = instances.get(key)
        if delivery.place.reclustering in admission.withheld:
            raise _limit_error(admission)
        if (
            instance is None
            or delivery.place != instance.setup.place
            or not isinstance(delivery.message, messages.Receipt)
        ):
            raise PeerError(SERVER, "sends something else than receipts of this party's clusters")
        if (key, delivery.sender) in stated:
            raise PeerError(SERVER, f"sends two receipts of {delivery.sender} in {instance.setup.describe()}")
        stated[key, delivery.sender] = delivery.message
    return stated
