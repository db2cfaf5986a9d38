"""Tables of a scenario that Python makes are checked as those of a file are."""

import re
from typing import Any

import numpy as np
import pytest

import securefl.scenario
from securefl import ConfigError, rules
from securefl.rules import Mean, NormClipping, TrimmedMean
from securefl.scenario.load import parse_scenario

# Any: the type checker would refuse what these tests give.
scenario: Any = securefl.scenario
Scenario: Any = securefl.Scenario
own: Any = rules


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scenario(name="x", parties=-3), "Scenario.parties: expected int >= 1, found -3"),
        (lambda: Scenario(name="x", parties="3"), 'Scenario.parties: expected int, found "3"'),
        (lambda: Scenario(name="A B", parties=3), "Scenario.name: expected 1 to 32 of a-z"),
        (
            lambda: Scenario(name="x", parties=3, stop=None),
            "Scenario.stop: expected Stop, found None (pass instances;",
        ),
        (
            lambda: Scenario(name="x", parties=3, clustering={"size": 3}),
            "Scenario.clustering: expected Clustering",
        ),
        (lambda: scenario.Stop(rounds=0), "Stop.rounds: expected int >= 1, found 0"),
        (lambda: scenario.Aggregation(rule="mean"), 'Aggregation.rule: expected Rule, found "mean" (pass'),
        (
            lambda: scenario.Aggregation(pre_aggregation=[Mean()]),
            "Aggregation.pre_aggregation: expected a tuple of PreAggregation, found [Mean()]",
        ),
        (
            lambda: scenario.Aggregation(claim="all"),
            'Aggregation.claim: expected "none" or "average-case" or',
        ),
        (lambda: own.TrimmedMean(trim=-1), "TrimmedMean.trim: expected int >= 0, found -1"),
        (
            lambda: own.TrimmedMean(trim=True),
            "TrimmedMean.trim: expected int or string, found True",
        ),
        (lambda: Scenario(parties=3), "Scenario.name: is missing"),
        (lambda: scenario.Stop(ruonds=3), "Stop.ruonds: is not a field (did you mean rounds?)"),
        (lambda: own.Krum(bizantine=1), "Krum.bizantine: is not a field (did you mean byzantine?)"),
        (
            lambda: scenario.SecureSum(server="x"),
            'SecureSum.server: expected "curious" or "active", found "x"',
        ),
        (lambda: NormClipping(radius=0), "NormClipping.radius: expected float > 0.0, found 0"),
    ],
)
def test_a_wrong_value_is_refused_when_the_table_is_made(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        make()


def test_a_list_of_tables_is_no_table() -> None:
    with pytest.raises(ConfigError, match=r"^Aggregation.rule: expected Rule, found \[Mean\(\)\]"):
        scenario.Aggregation(rule=[Mean()])


def test_a_word_may_stand_for_a_table_where_the_field_says_so() -> None:
    assert scenario.SecureSum(validate="none").validate == "none"
    with pytest.raises(ConfigError, match=r'^SecureSum.validate: expected "none" or Validate'):
        scenario.SecureSum(validate="all")


def test_nothing_may_stand_for_a_table_where_the_field_says_so() -> None:
    assert scenario.Privacy(clip=None).clip is None
    with pytest.raises(ConfigError, match=r"^Privacy.clip: expected nothing or QuantileClip, found 3"):
        scenario.Privacy(clip=3)


def test_values_at_their_bounds_are_taken() -> None:
    assert Scenario(name="x", parties=1).parties == 1
    assert scenario.Stop(rounds=1).rounds == 1
    assert TrimmedMean(trim=0).trim == 0


def test_scalars_of_numpy_are_numbers() -> None:
    made = own.NormClipping(radius=np.float32(0.5))
    assert (made.radius, type(made.radius)) == (0.5, float)
    assert Scenario(name="x", parties=np.int64(3)) == Scenario(name="x", parties=3)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numbers_are_finite(value: float) -> None:
    with pytest.raises(ConfigError, match=r"^NormClipping.radius: must be a finite number"):
        NormClipping(radius=value)


def test_lists_and_integers_become_what_a_file_gives() -> None:
    made = scenario.Aggregation(pre_aggregation=[NormClipping(radius=2)])
    assert made.pre_aggregation == (NormClipping(radius=2.0),)
    assert isinstance(made.pre_aggregation[0].radius, float)
    assert hash(made) == hash(scenario.Aggregation(pre_aggregation=(NormClipping(radius=2.0),)))


def test_a_scenario_made_in_python_is_the_one_of_the_file() -> None:
    text = """
    name = "x"
    parties = 12
    [clustering]
    size = 3
    [aggregation]
    rule = { type = "trimmed-mean", trim = 1 }
    """
    made = Scenario(
        name="x",
        parties=12,
        clustering=scenario.Clustering(size=3),
        aggregation=scenario.Aggregation(rule=TrimmedMean(trim=1)),
    )
    assert made == parse_scenario(text)
