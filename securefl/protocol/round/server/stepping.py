"""The global step of the models, rounds without an update, and the reasons to abort a run."""

import sys
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.methods import server_optimisers
from securefl.protocol.round.server import stacking
from securefl.protocol.round.server.group_sums import aggregate_groups
from securefl.protocol.round.server.opened import OpenedRound
from securefl.protocol.round.server.phases import Standing
from securefl.protocol.round.shared.additions.catalogue import unit_of
from securefl.protocol.round.shared.allowance import allowed
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


def aggregate(
    plan: RunPlan, standing: Standing, opened: OpenedRound, gradients: Mapping[int, F64]
) -> stacking.RoundAggregate:
    """Return the aggregate of the opened sums; see :func:`securefl.protocol.round.walk.update`."""
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
        unit=unit_of(standing.values),
    )


def optimised(plan: RunPlan, standing: Standing, update: F64) -> tuple[F32, F64]:
    """Return parameters f32 ``(k d,)`` and moments f64 ``(s, k d)`` that the optimiser makes of an update."""
    return server_optimisers.server_step(
        plan.optimiser, standing.params, standing.moments, update, standing.round, plan.averaged
    )


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
