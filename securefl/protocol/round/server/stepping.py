"""The global step of the models, rounds without an update, and the reasons to abort a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.methods import server_optimisers
from securefl.protocol.round.server import stacking
from securefl.protocol.round.server.group_start import parted
from securefl.protocol.round.server.phases import Standing
from securefl.protocol.round.shared import reports
from securefl.protocol.round.shared.allowance import allowed
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan

MAX_FRUITLESS = 3
"""Rounds in a row with enough parties, and without any update, after which the run is aborted.

Those do not count whose sums would have been enough if the checks had left none out, nor those in which the
server lost the broker. Rounds with too few parties are counted in time: ``deadlines.quorum``.
"""


def without_update(standing: Standing, *, spoilt: bool) -> Standing:
    """Return the state after a round without an update.

    Args:
        standing: state before it.
        spoilt: True if the round does not count as fruitless: parties whose sums fail the checks, or too few
            parties, must not end the run by that.
    """
    if spoilt or standing.session.interrupted:
        return standing
    return replace(standing, fruitless_rounds=standing.fruitless_rounds + 1)


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


def waits_of(plan: RunPlan, standing: Standing) -> int:
    """The number of hello deadlines that a round waits for enough parties: twice that of the one before.

    A round that too few come to is a round less: while parties stay away, few of them are spent. The last
    round of a run that has learned nothing yet waits for as long as ``deadlines.quorum`` allows.
    """
    if standing.round + 1 >= plan.scenario.stop.rounds and not standing.updates:
        return sys.maxsize
    return 1 << min(standing.quorum.lone_rounds, 16)


def alone_for(plan: RunPlan, standing: Standing, waits: int) -> Standing:
    """The standing after so many further waits with too few parties."""
    return replace(
        standing,
        quorum=replace(
            standing.quorum, lone_seconds=standing.quorum.lone_seconds + waits * allowed(plan, "hello")
        ),
    )


def without_quorum(plan: RunPlan, standing: Standing) -> bool:
    """Whether there have been too few parties for as long as ``deadlines.quorum`` allows."""
    return standing.quorum.lone_seconds >= plan.scenario.deadlines.quorum


def lone_round(plan: RunPlan, standing: Standing) -> Standing:
    """The standing after all waits of a round to which nobody else will come."""
    for _ in range(waits_of(plan, standing)):
        standing = alone_for(plan, standing, 1)
        if without_quorum(plan, standing):
            break
    return replace(standing, quorum=replace(standing.quorum, lone_rounds=standing.quorum.lone_rounds + 1))


def abort_reason(plan: RunPlan, standing: Standing) -> str:
    """Return the reason for which a run cannot go on after a round; empty if it can."""
    if standing.fruitless_rounds >= MAX_FRUITLESS:
        reason = f"no sum could be used in {MAX_FRUITLESS} rounds in a row"
        if not standing.updates:
            reason += "; if an earlier run began with the same model, give another --seed (docs/privacy.md)"
        return reason
    if without_quorum(plan, standing):
        seconds = plan.scenario.deadlines.quorum
        return f"too few parties for a round in {seconds:g} s online (deadlines.quorum)"
    if not np.isfinite(standing.params).all():
        # No party could learn from it, and parties that cannot train send zeros: no round would show it.
        return "the model is no longer finite: lower server_optimiser.learning_rate"
    return ""
