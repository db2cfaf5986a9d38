"""Port of additions: an announced value of a round, and words of each party.

The digest of the round's start covers the value. Words follow the update in the masked vector of reclustering
0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.base.entropy import Entropy
from securefl.scenario import Scenario

StartValues = Mapping[str, float]
"""By name of their feature."""
NO_VALUES: StartValues = MappingProxyType({})


class AnnouncedValue(NamedTuple):
    """A value that the server announces, at first ``first``."""

    first: float
    minimum: float
    maximum: float
    """Parties reject values outside these limits."""


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """Contents of a party's words."""

    update: F64 = field(repr=False)
    """Before the clip, f64 ``(d,)``; zeros without one."""
    metrics: F64 = field(repr=False)
    """Metrics of the received model in samples, f64 ``(w,)``."""
    values: StartValues


class Addition:
    """Additions of one feature, without effect by default."""

    name: ClassVar[str]
    """Name of its value and its words."""

    def announced_value(self, scenario: Scenario) -> AnnouncedValue | None:
        """Return the announced value, or None."""
        return None

    def unit(self, value: float) -> float:
        """Return the factor of the length encoded as 1, given the round's value."""
        return 1.0

    def words(self, scenario: Scenario) -> int:
        """Return the number of words that each party adds."""
        return 0

    def encode_words(
        self, scenario: Scenario, ring_bits: int, contribution: Contribution, entropy: Entropy
    ) -> I64:
        """Return a party's words with any noise, i64 ``(words,)``."""
        return np.zeros(0, dtype=np.int64)
