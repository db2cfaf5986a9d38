"""A small feasible scenario that tests change field by field."""

from __future__ import annotations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.derived import DerivedLimits
from securefl.methods.feasibility.limits import check
from securefl.runtime.report.header import scenario_sentences
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario

SMALL = """
name = "small"
parties = 12
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 3
"""


def small(*overrides: str) -> Scenario:
    """The small scenario with some settings changed."""
    return parse_scenario(SMALL, overrides)


def checked(*overrides: str) -> DerivedLimits:
    """What follows from the small scenario with some settings changed."""
    return check(small(*overrides))


def headed(*overrides: str) -> tuple[str, ...]:
    """All sentences on the small scenario with some settings changed."""
    return header_of(small(*overrides))


def header_of(scenario: Scenario) -> tuple[str, ...]:
    """All sentences on a scenario, of the explanation."""
    return tuple(one.whole for one in scenario_sentences(scenario, check(scenario)))


def complaint(*overrides: str) -> ConfigError | None:
    """Why the small scenario with some settings changed does not decode, if it does not."""
    try:
        small(*overrides)
    except ConfigError as error:
        return error
    return None


def attempt(*overrides: str) -> DerivedLimits | ConfigError:
    """What follows from the small scenario with some settings changed, or why it is refused."""
    try:
        return checked(*overrides)
    except ConfigError as error:
        return error


def refusal(*overrides: str) -> ConfigError:
    """The error with which the small scenario, so changed, is refused."""
    with pytest.raises(ConfigError) as caught:
        checked(*overrides)
    return caught.value
