"""Freeze at the server: survivors, admitted sums, and the survivors' data to check them."""

from collections.abc import Collection
from dataclasses import replace

from msgspec import structs

from securefl.base.ids import PartyId
from securefl.methods import clustering
from securefl.protocol import kernel, messages, secure_sum
from securefl.protocol.round.server import phases
from securefl.protocol.round.server.reopening import begin_releasing
from securefl.protocol.round.shared import leakage, reports
from securefl.protocol.round.shared.statement import bound_statement, round_statement


def eligible_survivors(
    ctx: phases.ServerContext,
    phase: phases.Summing,
    lost: Collection[reports.ClusterKey] = (),
) -> frozenset[PartyId]:
    """Return the largest survivor set that the instances allow, without the ``lost``."""
    clusters = {(r, j): m for r, row in enumerate(phase.view.assignment.clusters) for j, m in enumerate(row)}
    return clustering.survivor_set(
        clusters,
        {
            key: i.submitted
            for key, i in phase.instances.items()
            if isinstance(i, secure_sum.CollectingInputs) and key not in lost
        },
        ctx.plan.scenario.secure_sum.min_survivors,
        phase.view.assignment.atoms,
    )


def freeze(
    ctx: phases.ServerContext, phase: phases.Summing, now: float
) -> tuple[phases.Certifying | phases.Releasing, reports.Effects]:
    """Fix the survivor set and the sums to open; send each survivor the data to check them.

    Without admitted sums, or a possible certificate, the round ends unopened.
    """
    plan, view, standing = ctx.plan, phase.view, phase.standing
    waiting = {key: i for key, i in phase.instances.items() if isinstance(i, secure_sum.CollectingInputs)}
    survivors = eligible_survivors(ctx, phase)
    if plan.limits.quorum is not None and len(survivors) < plan.limits.quorum:
        survivors = frozenset()  # no party would release
    question = leakage.LedgerQuestion(
        standing.round, view.assignment, survivors, view.limits, clustering.sums_apart(plan.scenario)
    )
    admission = question.answer()
    able, survivors = survivors, survivors if admission.admitted else frozenset()
    statement = round_statement(
        plan.run, standing.round, view.model, plan.config_digest(), view.announced, view.assignment, survivors
    )
    alive = {key: waiting[key] for key in leakage.opened_keys(view.assignment, survivors, admission.admitted)}
    commitments = {key: i.commitment(survivors) for key, i in sorted(alive.items()) if i.setup.verified}
    if plan.scenario.secure_sum.verified:
        statement = bound_statement(statement, commitments.values())
    frozen = phases.Frozen(survivors, statement, admission.head(), alive, commitments)
    dropped = tuple(p for p in view.assignment.participants if p not in able)
    # Members with rejected updates answered in time, and hold shares of the others' sum.
    late = standing.late | (frozenset(dropped) - frozen.share_holders)
    standing = replace(standing, late=late)
    effects: reports.Effects = (
        kernel.Report(reports.SurvivorsFrozen(standing.round, tuple(sorted(able)), dropped)),
        *map(kernel.Report, leakage.withheld_report(standing.round, admission)),
        *_freeze_messages(standing, frozen),
    )
    deadlines = plan.scenario.deadlines
    if plan.limits.quorum is not None:
        certifying = phases.Certifying(standing, view, frozen, {}, now + deadlines.certify)
        return certifying, (*effects, kernel.Report(reports.StepReached(standing.round, "certify")))
    releasing, kept = begin_releasing(ctx, standing, view, frozen, (), now)
    return releasing, (*kept, *effects, kernel.Report(reports.StepReached(standing.round, "release")))


def _freeze_messages(standing: phases.ServerState, frozen: phases.Frozen) -> reports.Effects:
    attempts = tuple(
        messages.InstanceAttempt(reclustering=r, cluster=j, attempt=i.setup.instance.attempt)
        for (r, j), i in sorted(frozen.instances.items())
        if i.setup.instance.attempt
    )
    receipts: dict[PartyId, list[bytes]] = {party: [] for party in frozen.share_holders}
    for instance in frozen.instances.values():
        members = instance.setup.members
        # Verifiers of a sum need a receipt of every vector in it.
        recipients = instance.summed_members if instance.setup.verified else instance.alive
        others = recipients(frozen.survivors)
        for index in instance.holders(frozen.survivors):
            receipts[members[index]] += [instance.receipts[other] for other in others if other != index]
    freeze = messages.Freeze(survivors=tuple(sorted(frozen.survivors)), attempts=attempts, receipts=())
    if frozen.commitments:
        fixed = tuple(frozen.commitments.values())
        freeze = messages.BindingFreeze(
            survivors=freeze.survivors, attempts=attempts, receipts=(), commitments=fixed
        )
    place = kernel.Place(standing.round)
    return tuple(
        kernel.Send(party, place, structs.replace(freeze, receipts=tuple(receipts[party])))
        for party in sorted(receipts)
    )
