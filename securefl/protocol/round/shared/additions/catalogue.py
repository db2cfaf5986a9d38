"""Catalogue of all additions in the order of their words, and access to their values."""

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from securefl.base.arrays import I64
from securefl.base.entropy import Entropy
from securefl.base.errors import PeerError
from securefl.base.ids import SERVER
from securefl.protocol.round.shared.additions import addition
from securefl.protocol.round.shared.additions.addition import StartValues
from securefl.protocol.round.shared.additions.clipping import Clip
from securefl.protocol.round.shared.additions.measuring import Metrics
from securefl.scenario import Scenario

ADDITIONS: Final[tuple[addition.Addition, ...]] = (Metrics(), Clip())


def announced_values(scenario: Scenario) -> dict[str, addition.AnnouncedValue]:
    """Return the values that a scenario announces, by name."""
    due = {one.name: one.announced_value(scenario) for one in ADDITIONS}
    return {name: value for name, value in due.items() if value is not None}


def first_values(scenario: Scenario) -> StartValues:
    """Return the values of the first round."""
    return {name: one.first for name, one in announced_values(scenario).items()}


def check_values(scenario: Scenario, values: StartValues) -> StartValues:
    """Return the values of an invitation, checked against the scenario.

    Raises:
        PeerError: a value is missing, not announced, or outside its limits.
    """
    due = announced_values(scenario)
    for name in values:
        if name not in due:
            raise PeerError(SERVER, f"starts the round with a value {name}, which the scenario does not have")
    for name, one in due.items():
        if name not in values:
            raise PeerError(SERVER, f"starts the round without the value {name}")
        if not one.minimum <= values[name] <= one.maximum:
            limits = f"{one.minimum:g} to {one.maximum:g}"
            raise PeerError(SERVER, f"starts the round with {name} = {values[name]:g}, outside {limits}")
    return dict(values)


def value_bytes(values: StartValues) -> bytes:
    """Return values for a digest's input: little-endian float64 in the order of names."""
    return np.array([values[name] for name in sorted(values)], "<f8").tobytes()


def named_values(scenario: Scenario, numbers: Iterable[float]) -> StartValues:
    """Return the values of :func:`value_bytes`, one per announced name."""
    return dict(zip(sorted(announced_values(scenario)), map(float, numbers), strict=True))


def encoded_unit(values: StartValues) -> float:
    """Return the length in the parameters' unit that is encoded as 1."""
    return math.prod(one.unit(values[one.name]) for one in ADDITIONS if one.name in values)


def words_of(scenario: Scenario) -> dict[str, int]:
    """Return the number of words by name, in order."""
    return {one.name: one.words(scenario) for one in ADDITIONS}


def encode_words(
    scenario: Scenario, ring_bits: int, contribution: addition.Contribution, entropy: Entropy
) -> list[I64]:
    """Return a party's words by feature, i64."""
    return [
        one.encode_words(scenario, ring_bits, contribution, entropy)
        for one in ADDITIONS
        if one.words(scenario)
    ]
