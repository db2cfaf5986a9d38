"""Models that are each other's shadows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.lab.privacy_attacks.membership import likelihood_ratios


def each_in_turn(scores: F64, member: npt.NDArray[np.bool_]) -> Iterator[tuple[F64, npt.NDArray[np.bool_]]]:
    """Attack every model with all others as shadows: yields likelihood ratios and who was a member."""
    for at in range(len(scores)):
        others = np.arange(len(scores)) != at
        yield likelihood_ratios(scores[at], scores[others], member[others]), member[at]
