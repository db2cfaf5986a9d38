"""Numbers that stopping and the best model go by: precise enough, and better by a gain that counts."""

from __future__ import annotations

import pytest

from securefl.methods.metrics import Measured, gain_of, is_better, why_unused
from securefl.methods.metrics.derived import bounds_of, names_of
from securefl.scenario import Scenario
from securefl.scenario.load import parse_scenario
from tests.looped import looped

NOISE = ("privacy={unit='party',multiplier=1,delta=1e-5}", "encoding.clip=1")
TEXT = """
name = "m"
parties = 30
[model]
type = "weights"
[clustering]
size = 3
[evaluation]
samples = 100
metrics = [
    { name = "scores", kind = "histogram" },
    { name = "loss", kind = "mean", upper = 8, better = "lower" },
    { name = "rmse", kind = "mean", upper = 400, root = true },
    { name = "gain", kind = "sum", lower = -1, upper = 2 },
    { name = "age", kind = "column", lower = 20, upper = 80 },
]
[stop]
metric = "scores.auc"
"""


def scenario(*overrides: str) -> Scenario:
    return parse_scenario(TEXT, overrides)


def number(name: str, value: float, deviation: float) -> Measured:
    higher = names_of(scenario().evaluation)[name]
    return Measured(name, value, value, value, value, value, 1, higher, deviation)


@looped(
    "metric, value, deviation, reason",
    [
        ("scores.auc", 0.959, 0.01, ""),
        ("scores.auc", 0.959, 0.0101, "its deviation by noise is 0.0101, and stop.min_gain is 0.01"),
        ("scores.auc", 0.985, 0.0076, "its deviation by noise is 0.0076, over half its distance to 1"),
        ("scores.auc", 0.985, 0.0075, ""),
        ("scores.auc", 1.0, 1e-9, "its deviation by noise is 1e-09, over half its distance to 1"),
        ("scores.auc", 0.01, 0.006, "its deviation by noise is 0.006, over half its distance to 0"),
        ("loss", 0.1, 0.06, "its deviation by noise is 0.06, over half its distance to 0"),
        ("loss", 0.1, 0.05, ""),
        ("loss", 4.0, 0.081, "its deviation by noise is 0.081, and stop.min_gain is 0.08"),
        ("rmse", 10.0, 0.2, ""),
        ("rmse", 10.0, 0.21, "its deviation by noise is 0.21, and stop.min_gain is 0.2"),
        ("gain", -31.0, 0.1, "its deviation by noise is 0.1, over half its distance to -30"),
        ("gain", 0.0, 0.9, ""),
        ("age.mean", 21.0, 0.51, "its deviation by noise is 0.51, over half its distance to 20"),
    ],
)
def test_a_noised_number_counts_if_it_is_precise(
    metric: str, value: float, deviation: float, reason: str
) -> None:
    asked = scenario(*NOISE, f"stop.metric='{metric}'")
    assert why_unused(asked, number(metric, value, deviation)) == reason


def test_a_number_without_noise_always_counts() -> None:
    assert why_unused(scenario(), number("scores.auc", 1.0, 0.0)) == ""
    assert why_unused(scenario("stop.min_gain=0.5"), number("scores.auc", 1.0, 0.0)) == ""


def test_the_gain_that_counts() -> None:
    assert gain_of(scenario()) == 0
    assert gain_of(scenario("stop.min_gain=0.002")) == 0.002
    assert gain_of(scenario(*NOISE)) == pytest.approx(0.01)
    assert gain_of(scenario(*NOISE, "stop.metric='loss'")) == pytest.approx(0.08)
    assert gain_of(scenario(*NOISE, "stop.metric='gain'")) == pytest.approx(0.9)
    assert gain_of(scenario(*NOISE, "stop.min_gain=0.3")) == 0.3


def test_better_is_by_more_than_the_gain() -> None:
    high, low = number("scores.auc", 0.75, 0.0), number("loss", 0.75, 0.0)
    assert is_better(high, None, 0.5)
    assert is_better(high, 0.5, 0.2)
    assert not is_better(high, 0.5, 0.25)
    assert is_better(low, 1.0, 0.2)
    assert not is_better(low, 1.0, 0.25)
    assert not is_better(high, 0.75, 0.0)


def test_every_number_has_bounds() -> None:
    asked = scenario().evaluation
    bounds = bounds_of(asked, 30)
    assert bounds.keys() == names_of(asked).keys()
    assert bounds["rmse"] == (0.0, 20.0)
    assert bounds["gain"] == (-30.0, 60.0)
    assert bounds["age.count"] == (0.0, 3000.0)
    assert bounds["age.std"] == (0.0, 30.0)
    assert bounds["age.median"] == (20.0, 80.0)
