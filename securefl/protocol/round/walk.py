"""Steps from the opened sums of a round to the next model and the end of the run (dataflow.md, 12 to 14)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.methods import robust
from securefl.protocol import kernel
from securefl.protocol.round.server import stacking, stepping
from securefl.protocol.round.server.features.catalogue import FEATURES
from securefl.protocol.round.server.features.feature import Models, RoundStep
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.server.stacking import ClusterSum, RoundAggregate
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.plan import RunPlan

Reports = tuple[reports.AnyReport, ...]


def screen(
    plan: RunPlan, standing: ServerState, opened: OpenedRound
) -> tuple[ServerState, OpenedRound, Reports]:
    """Check the opened sums; return the state, the round without failed sums, and the reports."""
    checked = [(feature, feature.screen(plan, standing.round, opened)) for feature in FEATURES]
    effects = tuple(one for _, found in checked for one in found)
    failed = frozenset((one.reclustering, one.cluster) for one in effects if not one.ok)
    opened = replace(opened, excluded=failed)
    for feature, found in checked:
        standing = feature.record_screen(plan, standing, opened, found)
    return standing, opened, effects


def reclusterings_to_consult(
    plan: RunPlan, sums: Sequence[ClusterSum], excluded: Collection[reports.ClusterKey] = ()
) -> tuple[int, ...]:
    """Return the reclusterings for which the rule needs a gradient of the server's data."""
    if not robust.needs_server_gradient(plan.scenario.aggregation.rule):
        return ()
    return stacking.usable_reclusterings(plan, stacking.sums_for_rule(plan, sums, excluded))


def compute_next_models(
    plan: RunPlan,
    standing: ServerState,
    opened: OpenedRound,
    gradients: Mapping[int, F64] = stacking.NO_GRADIENTS,
) -> tuple[RoundStep, Models]:
    """Aggregate, apply the optimiser, and let features change the step."""
    made = RoundStep(plan, standing, opened, stepping.aggregate(plan, standing, opened, gradients))
    if made.result.update is None:
        return made, Models(standing.params, standing.moments)
    models = Models(*stepping.apply_optimiser(plan, standing, made.result.update))
    for feature in FEATURES:
        models = feature.change_models(made, models)
    return made, models._replace(params=plan.state.prepare(models.params, plan.length))


def update(
    plan: RunPlan,
    standing: ServerState,
    opened: OpenedRound,
    gradients: Mapping[int, F64] = stacking.NO_GRADIENTS,
) -> tuple[ServerState, RoundStep]:
    """Aggregate the opened sums and step; return the state with the new model, and the step's input.

    ``gradients`` are f64 ``(d,)``, by :func:`reclusterings_to_consult`. A rule that lacks one gives no
    update.
    """
    made, models = compute_next_models(plan, standing, opened, gradients)
    after = _store_former_model(plan, standing)
    if made.result.update is None:
        after = stepping.without_update(after, spoilt=_is_spoilt(plan, opened))
    else:
        after = replace(after, **models._asdict(), rounds_without_update=0, updates=standing.updates + 1)
    for feature in FEATURES:
        after = feature.record_step(made, after)
    return after, made


def step(
    plan: RunPlan,
    standing: ServerState,
    opened: OpenedRound,
    gradients: Mapping[int, F64] = stacking.NO_GRADIENTS,
) -> tuple[ServerState, reports.RoundDone, Reports]:
    """Step as :func:`update`; return the state, the report but for the model's test, and further reports."""
    after, made = update(plan, standing, opened, gradients)
    result = made.result
    norm = None if result.update is None else float(np.linalg.norm(result.update))
    done = _make_round_report(standing.round, opened, result)
    effects: Reports = (reports.ModelStepped(standing.round, result.kept, result.rejected, norm),)
    for feature in FEATURES:
        after, done, more = feature.complete_report(made, after, done)
        effects = (*effects, *more)
    moved = reports.ValuesMoved(standing.round, dict(standing.values), dict(after.values))
    return after, _add_feature_state(after, done), (*effects, moved) if standing.values else effects


def end_void_round(
    plan: RunPlan, standing: ServerState, present: tuple[PartyId, ...], *, alone: bool = False
) -> tuple[ServerState, reports.RoundDone, Reports]:
    """End a round without a valid draw; ``alone`` if for lack of parties."""
    after = stepping.without_update(_store_former_model(plan, standing), spoilt=alone)
    done = reports.RoundDone(standing.round, 0.0, 0.0, present, (), (), (), (), ())
    made: Reports = (reports.ModelStepped(standing.round, (), (), None),)
    if standing.values:
        # Audits read the values here, so a void round reports them too.
        made = (*made, reports.ValuesMoved(standing.round, dict(standing.values), dict(after.values)))
    return after, _add_feature_state(after, done), made


def decide_end(
    plan: RunPlan, standing: ServerState, done: reports.RoundDone
) -> tuple[ServerState, kernel.Finished | kernel.Aborted | None]:
    """Decide if and how the run ends with this round; ``done`` has the accuracy of its model.

    Returns:
        The state (of the next round if the run continues), and the end or None.
    """
    aborted = stepping.abort_reason(plan, standing)
    if aborted:
        return standing, kernel.Aborted(aborted)
    reason = ""
    for feature in FEATURES:
        standing, found = feature.check_end(plan, standing, done)
        reason = reason or found
    if not reason:
        return replace(standing, round=standing.round + 1), None
    if not standing.updates:
        return standing, kernel.Aborted(f"{reason}, and none of them gave an update")
    return standing, kernel.Finished(reason)


def _store_former_model(plan: RunPlan, standing: ServerState) -> ServerState:
    for feature in FEATURES:
        standing = feature.store_former_model(plan, standing)
    return standing


def _add_feature_state(standing: ServerState, done: reports.RoundDone) -> reports.RoundDone:
    for feature in FEATURES:
        done = feature.add_state(standing, done)
    return done


def _is_spoilt(plan: RunPlan, opened: OpenedRound) -> bool:
    """Return True if the sums would be enough had none failed a check."""
    seen = stacking.sums_for_rule(plan, opened.sums, opened.excluded)
    enough = bool(stacking.usable_reclusterings(plan, opened.sums))
    return bool(opened.excluded) and not stacking.usable_reclusterings(plan, seen) and enough


def _make_round_report(round_: int, opened: OpenedRound, result: RoundAggregate) -> reports.RoundDone:
    clusters = opened.drawn.assignment.clusters
    found: tuple[reports.ClusterKey, ...] = tuple(one.key for one in opened.sums)
    # Counts of hidden groups are not updates; a closed slot is not a lost sum.
    planned = {(r, j) for r, row in enumerate(clusters) for j in range(len(row))}
    planned = planned if opened.totals is None else {*opened.totals}
    return reports.RoundDone(
        round=round_,
        accuracy=0.0,
        loss=0.0,
        participants=opened.drawn.assignment.participants,
        survivors=tuple(sorted(opened.survivors)),
        opened=found,
        lost=tuple(sorted(planned.difference(found))),
        kept=result.kept,
        rejected=result.rejected,
        failed=tuple(sorted(opened.excluded)),
    )
