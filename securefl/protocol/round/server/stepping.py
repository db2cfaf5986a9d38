"""The global step on cluster sums, and the end of a run (docs/dataflow.md, steps 11 to 14)."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from securefl import scenario
from securefl.base import text
from securefl.base.arrays import F32, F64
from securefl.base.ids import PartyId
from securefl.methods import robust, server_optimisers
from securefl.protocol import kernel
from securefl.protocol.round.party.carrying import carries
from securefl.protocol.round.server import stacking
from securefl.protocol.round.server.group_start import parted
from securefl.protocol.round.server.group_sums import aggregate_groups
from securefl.protocol.round.server.measuring import end_by_metric
from securefl.protocol.round.server.phases import Standing
from securefl.protocol.round.server.suspicion import suspects_of
from securefl.protocol.round.shared import budget, reports
from securefl.protocol.round.shared.allowance import allowed
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan

MAX_FRUITLESS = 3
"""Rounds in a row with enough parties, and without any update, after which the run is aborted.

Those do not count whose sums would have been enough if the checks had left none out, nor those in which the
server lost the broker. Rounds with too few parties are counted in time: ``deadlines.quorum``.
"""


def to_consult(
    plan: RunPlan, sums: Sequence[stacking.ClusterSum], excluded: Collection[reports.ClusterKey] = ()
) -> tuple[int, ...]:
    """The reclusterings for which the rule needs a gradient of the server's own data; none for most rules."""
    if not robust.needs_server_gradient(plan.scenario.aggregation.rule):
        return ()
    return stacking.usable(plan, stacking.counted(plan, sums, excluded))


def after_sums(
    plan: RunPlan,
    standing: Standing,
    drawn: Draw,
    survivors: Collection[PartyId],
    sums: Sequence[stacking.ClusterSum],
    gradients: Mapping[int, F64] = stacking.NO_GRADIENTS,
    excluded: Collection[reports.ClusterKey] = (),
    totals: Mapping[reports.ClusterKey, int] | None = None,
) -> tuple[Standing, reports.RoundDone, reports.ModelStepped]:
    """Aggregate what was opened and step.

    Args:
        plan: of the run.
        standing: of the round that ends.
        drawn: its clusters and weights.
        survivors: the frozen survivor set.
        sums: all that were opened, in the order of (reclustering, cluster).
        gradients: f64 ``(d,)`` for each of :func:`to_consult`. Without them a rule that needs one is not
            applied, and the round gives no update.
        excluded: sums that failed a check.
        totals: members in each sum of a hidden group's updates; None without such.

    Returns:
        The standing with the new model, and the two reports; accuracy and loss are still to be filled in.
    """
    reference = server_optimisers.past_update(plan.optimiser, standing.moments, plan.averaged)
    result = (
        stacking.aggregate_round(
            plan, sums, drawn.weights, drawn.seed, reference, gradients, standing.trust, excluded
        )
        if plan.models == 1
        else aggregate_groups(plan, sums, drawn, reference, totals)
    )
    releases = budget.with_round(plan, standing.releases, drawn.assignment.participants)
    standing = replace(_keeping(plan, standing), trust=result.trust, releases=releases)
    norm: float | None = None
    if result.update is None:
        # Parties that spoil sums shall not end the run by that: the checks do what they are for.
        spoilt = (
            excluded
            and not stacking.usable(plan, stacking.counted(plan, sums, excluded))
            and stacking.usable(plan, sums)
        )
        if not spoilt and not standing.interrupted:
            standing = replace(standing, fruitless_rounds=standing.fruitless_rounds + 1)
    else:
        norm = float(np.linalg.norm(result.update))
        params, moments = next_models(
            plan, standing.round, standing.params, standing.moments, result, sums, drawn, totals
        )
        standing = replace(
            standing, params=params, moments=moments, fruitless_rounds=0, updates=standing.updates + 1
        )
    opened: tuple[reports.ClusterKey, ...] = tuple((s.reclustering, s.cluster) for s in sums)
    planned = {(r, j) for r, row in enumerate(drawn.assignment.clusters) for j in range(len(row))}
    if totals is not None:
        # Counts are no updates, and a slot that stays closed is not lost.
        planned = {*totals}
    done = reports.RoundDone(
        round=standing.round,
        accuracy=0.0,
        loss=0.0,
        participants=drawn.assignment.participants,
        survivors=tuple(sorted(survivors)),
        opened=opened,
        lost=tuple(sorted(planned.difference(opened))),
        kept=result.kept,
        rejected=result.rejected,
        failed=tuple(sorted(excluded)),
        suspects=suspects_of(standing.suspicion),
    )
    return standing, done, reports.ModelStepped(standing.round, result.kept, result.rejected, norm)


def next_models(
    plan: RunPlan,
    round_: int,
    params: F32,
    moments: F64,
    result: stacking.RoundAggregate,
    sums: Sequence[stacking.ClusterSum],
    drawn: Draw,
    totals: Mapping[reports.ClusterKey, int] | None = None,
) -> tuple[F32, F64]:
    """Parameters f32 ``(k d,)`` and moments f64 ``(s, k d)`` after a round: for who makes or audits the step.

    Args:
        plan: of the run.
        round_: its number.
        params: of the round's models, f32 ``(k d,)``.
        moments: of the optimiser, f64 ``(s, k d)``.
        result: what the rule made of the sums; without an update everything stays.
        sums: the same, of which models are parted.
        drawn: the round's clusters, weights and seed.
        totals: members in each sum, where groups are hidden.
    """
    if result.update is None:
        return params, moments
    made, kept = server_optimisers.server_step(
        plan.optimiser, params, moments, result.update, round_, plan.averaged
    )
    if not result.moved.all():
        # Without an update of its own a group's model stays where it is; momentum does not carry it on.
        made, kept = np.where(result.moved, made, params), np.where(result.moved, kept, moments)
    made, kept = parted(plan, round_, made, kept, sums, drawn, totals)
    return plan.state.prepare(made, plan.length), kept


def _keeping(plan: RunPlan, standing: Standing) -> Standing:
    """The standing with the model that it is about to leave, where that is needed."""
    return replace(standing, before=standing.params) if carries(plan, "global") else standing


def waits_of(plan: RunPlan, standing: Standing) -> int:
    """The number of hello deadlines that a round waits for enough parties: twice that of the one before.

    A round that too few come to is a round less: while parties stay away, few of them are spent. The last
    round of a run that has learned nothing yet waits for as long as ``deadlines.quorum`` allows.
    """
    if standing.round + 1 >= plan.scenario.stop.rounds and not standing.updates:
        return sys.maxsize
    return 1 << min(standing.lone_rounds, 16)


def alone_for(plan: RunPlan, standing: Standing, waits: int) -> Standing:
    """The standing after so many further waits with too few parties."""
    return replace(standing, lone_seconds=standing.lone_seconds + waits * allowed(plan, "hello"))


def without_quorum(plan: RunPlan, standing: Standing) -> bool:
    """Whether there have been too few parties for as long as ``deadlines.quorum`` allows."""
    return standing.lone_seconds >= plan.scenario.deadlines.quorum


def lone_round(plan: RunPlan, standing: Standing) -> Standing:
    """The standing after all waits of a round to which nobody else will come."""
    for _ in range(waits_of(plan, standing)):
        standing = alone_for(plan, standing, 1)
        if without_quorum(plan, standing):
            break
    return replace(standing, lone_rounds=standing.lone_rounds + 1)


def without_clusters(
    plan: RunPlan, standing: Standing, present: tuple[PartyId, ...], *, alone: bool = False
) -> tuple[Standing, reports.RoundDone, reports.ModelStepped]:
    """End a round without a draw that stands; ``alone`` where there were too few parties for one."""
    standing = _keeping(plan, standing)
    if not alone and not standing.interrupted:
        standing = replace(standing, fruitless_rounds=standing.fruitless_rounds + 1)
    suspects = suspects_of(standing.suspicion)
    done = reports.RoundDone(standing.round, 0.0, 0.0, present, (), (), (), (), (), suspects=suspects)
    return standing, done, reports.ModelStepped(standing.round, (), (), None)


def after_evaluation(
    plan: RunPlan, standing: Standing, done: reports.RoundDone
) -> tuple[Standing, kernel.Finished | kernel.Aborted | None]:
    """Note the accuracy of the round's model; say whether and how the run ends with it.

    Args:
        plan: of the run.
        standing: after the round's step.
        done: the round, with the accuracy of the model that it made: None where the server tests nothing.

    Returns:
        The standing, of the next round where there is one, and the end, None where the run goes on.
    """
    stop = plan.scenario.stop
    if standing.fruitless_rounds >= MAX_FRUITLESS:
        reason = f"no sum could be used in {MAX_FRUITLESS} rounds in a row"
        if not standing.updates:
            reason += "; if an earlier run began with the same model, give another --seed (docs/privacy.md)"
        return standing, kernel.Aborted(reason)
    if without_quorum(plan, standing):
        seconds = plan.scenario.deadlines.quorum
        return standing, kernel.Aborted(
            f"too few parties for a round in {seconds:g} s online (deadlines.quorum)"
        )
    if not np.isfinite(standing.params).all():
        # Nobody could learn from it, and parties that cannot send zeros: no round would tell.
        return standing, kernel.Aborted("the model is no longer finite: lower server_optimiser.learning_rate")
    reason, accuracy = end_by_metric(plan, standing, done), done.accuracy
    if accuracy is not None and stop.metric is None:
        better = accuracy > standing.best_accuracy + (stop.min_gain or 0.0)
        standing = replace(
            standing,
            best_accuracy=accuracy if better else standing.best_accuracy,
            stale_rounds=0 if better else standing.stale_rounds + 1,
        )
        reason = _end_by_accuracy(stop, standing, accuracy)
    if not reason and standing.round + 1 >= stop.rounds:
        reason = f"{text.count(stop.rounds, 'round')} done"
    reason = reason or budget.ending(plan, standing.releases) or ""
    if not reason:
        return replace(standing, round=standing.round + 1), None
    if not standing.updates:
        return standing, kernel.Aborted(f"{reason}, and none of them gave an update")
    return standing, kernel.Finished(reason)


def _end_by_accuracy(stop: scenario.Stop, standing: Standing, accuracy: float) -> str:
    """Why the run ends with a model of this accuracy; empty where it goes on."""
    if stop.target_accuracy is not None and accuracy >= stop.target_accuracy:
        return f"accuracy {accuracy:.4f} reached the target {stop.target_accuracy:g}"
    if stop.patience is not None and standing.stale_rounds >= stop.patience:
        return f"no better accuracy in {stop.patience} rounds"
    return ""
