"""Scenarios with privacy, settled or not, that tests change field by field."""

from __future__ import annotations

from securefl.methods.feasibility.limits import check
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario

LENGTH = 650
RECORDS = 119

TEXT = """
name = "private"
parties = 12
[training]
batch_size = 16
[training.dp_sgd]
[clustering]
size = 6
[secure_sum]
threshold = 3
min_survivors = 5
colluders = 2
colluders_per_cluster = 2
[encoding]
scale_bits = 13
[weighting]
mode = "ignore"
[privacy]
unit = "record"
placement = "threshold"
multiplier = 1.5
[stop]
rounds = 20
"""

PARTY = (
    "privacy.unit=party",
    "training.dp_sgd=",
    "encoding.clip=1.0",
    "encoding.scale_bits=10",
)


def private(*overrides: str) -> Scenario:
    """The scenario above with some settings changed, checked but not settled."""
    scenario = parse_scenario(TEXT, overrides)
    check(scenario)
    return scenario
