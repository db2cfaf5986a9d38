"""Global step of the models, rounds without an update, reasons to abort a run."""

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.methods import server_optimisers
from securefl.protocol.round.server import stacking
from securefl.protocol.round.server.group_sums import aggregate_groups
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.shared.additions.catalogue import encoded_unit
from securefl.protocol.round.shared.allowance import allowed_seconds
from securefl.protocol.round.shared.plan import RunPlan

MAX_ROUNDS_WITHOUT_UPDATE = 3
"""Rounds in a row with enough parties but no update after which the run aborts.

Rounds spoilt only by failed checks or a lost broker do not count.
"""


def without_update(standing: ServerState, *, spoilt: bool) -> ServerState:
    """Return the state after a round without an update.

    ``spoilt`` rounds do not count: parties must not end the run with sums that fail checks, or by absence.
    """
    if spoilt or standing.session.lost_broker:
        return standing
    return replace(standing, rounds_without_update=standing.rounds_without_update + 1)


def aggregate(
    plan: RunPlan, standing: ServerState, opened: OpenedRound, gradients: Mapping[int, F64]
) -> stacking.RoundAggregate:
    """Return the aggregate of the opened sums."""
    reference = server_optimisers.past_update(plan.optimiser, standing.moments, plan.averaged)
    drawn, sums = opened.drawn, opened.sums
    if plan.models > 1:
        return aggregate_groups(plan, sums, drawn, reference, opened.totals)
    return stacking.aggregate_round(
        plan,
        sums,
        drawn.weights,
        drawn.seed,
        reference,
        gradients,
        standing.trust,
        opened.excluded,
        unit=encoded_unit(standing.values),
    )


def apply_optimiser(plan: RunPlan, standing: ServerState, update: F64) -> tuple[F32, F64]:
    """Return parameters f32 ``(k d,)`` and moments f64 ``(s, k d)`` after the optimiser's step."""
    return server_optimisers.server_step(
        plan.optimiser, standing.params, standing.moments, update, standing.round, plan.averaged
    )


def allowed_waits(plan: RunPlan, standing: ServerState) -> int:
    """Return the hello deadlines that a round waits for enough parties, doubled after each such round.

    The last round of a run without any update waits for ``deadlines.quorum``.
    """
    if standing.round + 1 >= plan.scenario.stop.rounds and not standing.updates:
        return sys.maxsize
    return 1 << min(standing.quorum.skipped_in_a_row, 16)


def add_waits(plan: RunPlan, standing: ServerState, waits: int) -> ServerState:
    """Return the state after further waits with too few parties."""
    return replace(
        standing,
        quorum=replace(
            standing.quorum,
            waited_seconds=standing.quorum.waited_seconds + waits * allowed_seconds(plan, "hello"),
        ),
    )


def is_quorum_overdue(plan: RunPlan, standing: ServerState) -> bool:
    """Return True if too few parties lasted for ``deadlines.quorum``."""
    return standing.quorum.waited_seconds >= plan.scenario.deadlines.quorum


def add_skipped_round(plan: RunPlan, standing: ServerState) -> ServerState:
    """Return the state after all waits of a round without further parties."""
    for _ in range(allowed_waits(plan, standing)):
        standing = add_waits(plan, standing, 1)
        if is_quorum_overdue(plan, standing):
            break
    return replace(
        standing, quorum=replace(standing.quorum, skipped_in_a_row=standing.quorum.skipped_in_a_row + 1)
    )


def abort_reason(plan: RunPlan, standing: ServerState) -> str:
    """Return why a run cannot continue after a round; empty if it can."""
    if standing.rounds_without_update >= MAX_ROUNDS_WITHOUT_UPDATE:
        reason = f"no sum could be used in {MAX_ROUNDS_WITHOUT_UPDATE} rounds in a row"
        if not standing.updates:
            reason += "; if an earlier run began with the same model, give another --seed (docs/privacy.md)"
        return reason
    if is_quorum_overdue(plan, standing):
        seconds = plan.scenario.deadlines.quorum
        return f"too few parties for a round in {seconds:g} s online (deadlines.quorum)"
    if not np.isfinite(standing.params).all():
        # Parties could not train on it and would send zeros: no later round would show it.
        return "the model is no longer finite: lower server_optimiser.learning_rate"
    return ""
