"""Attack on a few coordinates that noise hides."""

import math

import numpy as np

from securefl.base.arrays import F64, I64


def sparse_energy(encoded: I64, signal: F64, norm: float, coordinates: int) -> I64:
    """Return ``encoded`` less a vector of L2 norm ``norm`` on the coordinates that training moves most.

    The vector opposes the update and has the same size on all ``coordinates`` coordinates (at most d), up to
    rounding. Here ``encoded`` is the own update, i64 ``(d,)`` steps, ``signal`` the same before rounding, f64
    ``(d,)``; ``norm`` is in steps. Honest noise is added afterwards, so length and law of the upload are
    nearly honest. At d = 10^5 both published tests miss 30 standard deviations on 79 coordinates.

    Knows: its own update and the scenario's noise.
    Source: none; designed against algorithm 2 of Xiang et al. 2023 (arXiv 2304.09762), which tests one norm
    and one Kolmogorov-Smirnov distance (``docs/results/checks.md``).
    """
    count = min(coordinates, encoded.size)
    where = np.argpartition(np.abs(signal), encoded.size - count)[encoded.size - count :]
    sent = encoded.copy()
    size = round(norm / math.sqrt(count))
    sent[where] -= np.where(signal[where] < 0, -size, size)
    return sent
