"""The round that pools statistics, of the scenario that trains."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility import check
from securefl.scenario import Scenario, statistics_round, to_toml
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import scenario_digest

BASE = """
name = "columns"
parties = 6
[model]
type = "weights"
[clustering]
size = 4
atoms = 2
reclusterings = 2
[encoding]
clip = 1
range = 1
[statistics]
features = [{ name = "Age (years)", lower = 0, upper = 110 }]
[stop]
rounds = 7
"""
NOISE = "privacy={unit='party',multiplier=2,delta=1e-5}"


def round_of(*overrides: str) -> Scenario:
    return statistics_round(parse_scenario(BASE, overrides))


def test_it_is_one_round_of_the_same_federation_that_can_be_written_and_run() -> None:
    found = round_of()
    check(found)
    assert (found.model.name, found.stop.rounds, found.clustering.reclusterings) == ("statistics", 1, 1)
    assert [(one.name, one.kind, one.words) for one in found.evaluation.metrics] == [
        ("Age (years)", "column", 22)
    ]
    assert parse_scenario(to_toml(found)) == found


@pytest.mark.parametrize("size", ["2", "3", "6"])
def test_without_noise_and_atoms_each_cluster_is_an_atom(size: str) -> None:
    found = round_of("clustering.atoms=1", f"clustering.size={size}")
    check(found)
    assert found.clustering.atoms == int(size)
    accepted = round_of("clustering.atoms=1", "evaluation.repeats='accept'")
    check(accepted)
    assert accepted.clustering.atoms == 1
    assert round_of(NOISE, "statistics.multiplier=1.5", "statistics.samples=100").clustering.atoms == 2


def test_what_is_asked_changes_nothing_for_the_training() -> None:
    other = parse_scenario(BASE, ("statistics.bins=5",))
    assert scenario_digest(other) == scenario_digest(parse_scenario(BASE))


def test_noise_on_the_statistics_is_what_is_asked() -> None:
    found = round_of(NOISE, "statistics.multiplier=1.5", "statistics.samples=100")
    check(found)
    assert found.privacy.multiplier is not None
    assert found.privacy.multiplier * found.evaluation.noise == pytest.approx(1.5)
    assert round_of(NOISE, "statistics.epsilon=0.5", "statistics.samples=100").privacy.epsilon == 0.5


def test_the_budget_of_the_training_is_not_that_of_the_statistics() -> None:
    """Its releases are of other noise, and a round of statistics spends what was asked for it."""
    training = "privacy={unit='party',epsilon=2,delta=1e-5,budget=3,releases=7}"
    found = round_of(training, "statistics.epsilon=5", "statistics.samples=100")
    assert (found.privacy.epsilon, found.privacy.budget, found.privacy.releases) == (5.0, None, None)
    assert found.privacy.delta == 1e-5, "what failure is accepted stays"


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("statistics={}",), "statistics.features: is missing"),
        (("statistics.epsilon=1",), "statistics.epsilon: works with privacy noise only"),
        ((NOISE,), "statistics.epsilon: is missing: statistics need"),
        (
            (NOISE, "statistics.epsilon=1", "statistics.multiplier=1"),
            "statistics.epsilon: is missing: statistics need",
        ),
        (
            (NOISE, "statistics.epsilon=1"),
            "statistics.samples: is missing: the noise must hide the largest site",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(overrides: tuple[str, ...], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        round_of(*overrides)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ("evaluation.metrics=[]", "needs columns"),
        ("evaluation.metrics=[{name='loss',kind='mean'}]", "loss needs a model"),
        ("evaluation.metrics=[{name='c',kind='classes',classes=1}]", "classes needs 2 classes or more"),
        ("evaluation.metrics=[{name='c',kind='column',lower=1,upper=1}]", "is not above lower"),
    ],
)
def test_a_round_of_statistics_has_columns_only(changes: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        check(parse_scenario(to_toml(round_of()), (changes,)))
