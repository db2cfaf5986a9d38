"""Sums and signals that the tests of the checks share, and their laws by other means."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from securefl.base.arrays import F64, I64
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.methods.privacy.checks.null import Null, SumLaw
from securefl.methods.privacy.table import noise_table


def noise(null: Null, dim: int, entropy: Entropy | int) -> I64:
    """Honest noise, member by member."""
    source = InsecureSeededEntropy(entropy) if isinstance(entropy, int) else entropy
    table = noise_table(null.law, null.std)
    total: I64 = table.sample(dim * null.survivors, source).reshape(null.survivors, dim).sum(axis=0)
    return total


def law_on_line(law: SumLaw) -> F64:
    """P(Z = k) for k = -L ... L."""
    return np.concatenate([law.mass[:0:-1], law.mass])


def outside(law: SumLaw, shift: int, step: int) -> float:
    """P(|Z + shift| > step), term by term."""
    line = np.arange(-law.largest, law.largest + 1)
    return float(law_on_line(law)[np.abs(line + shift) > step].sum())


signals = st.lists(st.integers(-60, 60), max_size=12)
"""The coordinates of a signal that are not 0."""


def norm(signal: list[int]) -> float:
    """Of a signal, as a float whose square is not below the true one."""
    return math.nextafter(math.sqrt(sum(u * u for u in signal)), math.inf) if any(signal) else 0.0
