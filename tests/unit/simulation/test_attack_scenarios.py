"""The bundled scenarios of attacks: they win against the mean and fail against the rule of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.base.ids import RunId
from securefl.runtime.report.expect import judge
from securefl.runtime.report.metrics import RunMetrics
from securefl.runtime.report.outcome import Outcome
from securefl.runtime.simulation.federation import assemble
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.scenario.load import load_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"
MEAN = ("aggregation.rule.type=mean", "aggregation.claim=none")


def ended(name: str, *overrides: str) -> tuple[Outcome, bool]:
    """How a simulation ends, and whether that is what the scenario expects."""
    scenario = load_scenario(SCENARIOS / f"{name}.toml", overrides)
    federation = assemble(scenario, RunId("test"), 1)
    metrics = RunMetrics(scenario)
    SimulatedRounds(federation, (metrics,)).run(federation.evaluator.evaluate)
    outcome = metrics.outcome()
    return outcome, all(judgement.ok for judgement in judge(scenario.expect, outcome))


@pytest.mark.parametrize("name", ["backdoor", "coalition"])
def test_the_rule_withstands_the_attack(name: str) -> None:
    _, expected = ended(name)
    assert expected


def test_the_backdoor_wins_against_the_mean_and_accuracy_does_not_show_it() -> None:
    outcome, _ = ended("backdoor", *MEAN)
    assert outcome.backdoor_success is not None
    assert outcome.backdoor_success > 0.8
    assert outcome.accuracy is not None
    assert outcome.accuracy > 0.9


def test_the_coalition_destroys_the_mean() -> None:
    outcome, _ = ended("coalition", *MEAN)
    assert outcome.accuracy is not None
    assert outcome.accuracy < 0.3


TRIM = ("aggregation.rule={type='trimmed-mean',trim=2}", "aggregation.claim=none")


def test_two_clusters_too_many_are_what_a_trimmed_mean_cannot_bear() -> None:
    all_four, _ = ended("coalition", *TRIM)
    two, _ = ended("coalition", *TRIM, "behaviours.0.actors=2")
    assert all_four.accuracy is not None
    assert two.accuracy is not None
    # On one processor .53, on others less than a half: the last bits of training decide the later clusters.
    assert all_four.accuracy < 0.6
    assert two.accuracy > 0.85
