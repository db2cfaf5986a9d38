"""Early stop and best model by a metric with noise: rounds that are too noisy change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from securefl.base.ids import PartyId
from securefl.methods.metrics import Measured
from securefl.protocol.round.server.features.measuring import (
    reason_by_metric,
    record_metrics,
    unused_metric_report,
)
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import MetricUnused, RoundDone
from securefl.scenario.load import parse_scenario
from tests.unit.round.samples import plan_of

TEXT = """
name = "noised"
parties = 8
[model]
type = "weights"
[clustering]
size = 4
[secure_sum]
threshold = 3
min_survivors = 3
[privacy]
unit = "party"
multiplier = 1.0
delta = 1e-5
[encoding]
clip = 1.0
range = 1.0
scale_bits = 8
[[evaluation.metrics]]
name = "scores"
kind = "histogram"
[stop]
metric = "scores.auc"
target = 0.9
patience = 2
"""
PLAN = plan_of(parse_scenario(TEXT))
BOTH = (PartyId("p00"), PartyId("p01"))
BEGINNING = ServerState(0, np.zeros(4, np.float32), np.zeros((1, 4)))


def done(round_: int, *numbers: tuple[float, float], opened: bool = True) -> RoundDone:
    """A round with these values and deviations of the AUC, one or none."""
    metrics = tuple(
        Measured("scores.auc", value, value, value, value, value, 1, higher=True, deviation=deviation)
        for value, deviation in numbers
    )
    return RoundDone(round_, None, None, BOTH, BOTH, ((0, 0),) if opened else (), (), (), (), metrics=metrics)


def after(plan: RunPlan, *rounds: RoundDone) -> tuple[ServerState, list[MetricUnused], str]:
    """The standing after rounds, what was reported, and why the last one ends the run."""
    told, reason = list[MetricUnused](), ""
    standing = BEGINNING
    for one in rounds:
        params = np.full(4, one.round, np.float32)
        standing = record_metrics(plan, replace(standing, round=one.round), params, one)
        told += unused_metric_report(plan, standing, one)
        reason = reason_by_metric(plan, standing, one)
    return standing, told, reason


def test_a_value_within_its_noise_is_neither_best_nor_a_target_nor_stale() -> None:
    standing, told, reason = after(
        PLAN, done(0, (0.7, 0.005)), done(1, (0.97, 0.2)), done(2, (0.3, 0.2)), done(3, (0.6, 0.2))
    )
    assert standing.progress.best is not None
    assert (standing.progress.best.round, standing.progress.best.value) == (0, 0.7)
    assert (standing.progress.stale_rounds, standing.progress.unused_rounds, reason) == (0, 3, "")
    (once,) = told
    assert once == MetricUnused(1, "scores.auc", "its deviation by noise is 0.2, and stop.min_gain is 0.01")


def test_no_model_is_the_best_if_no_round_is_precise() -> None:
    standing, told, reason = after(PLAN, done(0, (0.95, 0.2)), done(1), done(2, (0.999, 0.009)))
    assert standing.progress.best is None
    assert (standing.progress.unused_rounds, len(told), reason) == (3, 1, "")


def test_a_precise_value_is_used() -> None:
    standing, told, reason = after(PLAN, done(0, (0.7, 0.005)), done(1, (0.92, 0.005)))
    assert standing.progress.best is not None
    assert standing.progress.best.round == 1
    assert not told
    assert reason == "scores.auc 0.9200 reached the target 0.9"


def test_a_gain_below_the_one_that_counts_is_stale() -> None:
    standing, _, reason = after(
        PLAN, done(0, (0.7, 0.005)), done(1, (0.709, 0.005)), done(2, (0.7095, 0.005))
    )
    assert standing.progress.best is not None
    assert standing.progress.best.round == 0
    assert (standing.progress.stale_rounds, reason) == (2, "no better scores.auc in 2 rounds")


@pytest.mark.parametrize("opened", [True, False])
def test_a_round_without_the_number_is_noisy_if_sums_have_opened(opened: bool) -> None:
    standing, told, _ = after(PLAN, done(0, opened=opened))
    assert standing.progress.unused_rounds == len(told) == int(opened)
    assert [one.reason for one in told] == ["its samples do not exceed the noise on them"] * opened


def test_without_noise_the_first_value_is_the_best_whatever_it_is() -> None:
    plain = plan_of(parse_scenario(TEXT, ("privacy={}", "encoding={}", "evaluation.repeats='accept'")))
    standing, told, reason = after(plain, done(0), done(1, (1.0, 0.0)))
    assert standing.progress.best is not None
    assert (standing.progress.best.round, standing.progress.unused_rounds, told) == (1, 0, [])
    assert reason == "scores.auc 1.0000 reached the target 0.9"
