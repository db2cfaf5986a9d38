"""Fixed-point encoding of real vectors by unbiased stochastic rounding, and L2 clipping (steps 3, 4, 11)."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import F64, I64, U64, expect
from securefl.base.crypto import prg
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError

MAX_SCALE_BITS = 40
"""Largest ``scale_bits``: the finest unit is 2^-40."""

MAX_STEPS = 2**53 - 1
"""Largest magnitude of an encoded value: float64 represents every integer up to it."""

BLOCK = 1 << 14
"""Coordinates rounded per block. Its temporaries stay in the second-level cache, which halves the time at
50,000 coordinates."""


class Encoded(NamedTuple):
    """An encoded vector."""

    values: I64
    """i64 ``(d,)``, unit 2^-scale_bits, each in [-steps, steps]."""
    saturated: int
    """Number of coordinates set to the end of the range: nonzero means that the range is too small."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Grid of multiples of 2^-``scale_bits`` in [-``range``, ``range``].

    A party encodes once per update, never once per attempt (protocol.md, step 5): two roundings of one update
    would reveal more about it.

    Raises:
        UsageError: ``scale_bits`` outside [0, 40], or a range that is not finite and positive, or holds no
            whole step or more than 2^53 - 1.
    """

    scale_bits: int
    """Binary digits after the point."""
    range: float
    """Largest magnitude of a coordinate, in the parameters' unit."""

    def __post_init__(self) -> None:
        if not 0 <= self.scale_bits <= MAX_SCALE_BITS:
            raise UsageError(f"scale_bits must be from 0 to {MAX_SCALE_BITS}, found {self.scale_bits}")
        if not (math.isfinite(self.range) and self.range > 0):
            raise UsageError(f"range must be finite and positive, found {self.range}")
        if not 1 <= self.steps <= MAX_STEPS:
            raise UsageError(
                f"range must be from 1 to {MAX_STEPS} steps of 2^-scale_bits, found {self.steps} (range"
                f" {self.range}, scale_bits {self.scale_bits})"
            )

    @property
    def steps(self) -> int:
        """Largest magnitude of an encoded value: floor(range * 2^scale_bits), computed exactly."""
        numerator, denominator = self.range.as_integer_ratio()
        return (numerator << self.scale_bits) // denominator

    def encode(self, values: F64, entropy: Entropy) -> Encoded:
        """Round each coordinate x to a neighbouring multiple of the unit, so that the expectation is x.

        With y = x * 2^scale_bits, clamped to [-steps, steps], the result is floor(y) + [u < y - floor(y)].
        The number u is uniform on the multiples of 2^-53 in [0, 1). Integers stay exact, and the probability
        of rounding up is off by at most 2^-53. The values, f64 ``(d,)``, are not modified; 32 bytes are drawn
        as the key of the rounding stream.

        Raises:
            UsageError: a coordinate that is not finite, or the wrong dtype or shape.

        Source: Gupta et al. 2015 (arXiv 1502.02551), section 3.1; Kairouz et al. 2021 (arXiv 2102.06387),
        section 3.
        """
        expect(values, "values", np.float64, (None,))
        if not np.isfinite(values).all():
            raise UsageError("values has a coordinate that is not finite")
        words = prg.expand(entropy.draw(prg.KEY_BYTES), values.size, np.uint64)
        words >>= np.uint64(11)
        rounded = np.empty(values.size, dtype=np.int64)
        saturated = 0
        for start in range(0, values.size, BLOCK):
            block = slice(start, start + BLOCK)
            saturated += self._round(values[block], words[block], rounded[block])
        return Encoded(rounded, saturated)

    def _round(self, values: F64, words: U64, out: I64) -> int:
        """Round one block into ``out``, given 53-bit words; return the number of saturated coordinates."""
        limit = float(self.steps)
        with np.errstate(over="ignore"):
            scaled = values * float(1 << self.scale_bits)
        saturated = 0
        if max(scaled.max(), -scaled.min()) > limit:
            saturated = int(np.count_nonzero(np.abs(scaled) > limit))
            np.clip(scaled, -limit, limit, out=scaled)
        below = np.floor(scaled)
        scaled -= below
        scaled *= 2.0**53
        out[:] = below
        out += words.view(np.int64) < scaled
        return saturated

    def decode(self, total: I64, weight: float) -> F64:
        """Return the weighted mean of a decoded ring sum, f64: ``total / 2^scale_bits / weight``.

        ``total`` is the exact sum of the survivors' encoded values, i64 ``(d,)``, ``weight`` their total
        weight, > 0.

        Raises:
            UsageError: a weight that is not finite and positive, or the wrong dtype or shape.
        """
        expect(total, "total", np.int64, (None,))
        if not (math.isfinite(weight) and weight > 0):
            raise UsageError(f"the total weight must be finite and positive, found {weight}")
        mean: F64 = total.astype(np.float64)
        mean *= 1.0 / (1 << self.scale_bits)
        mean /= weight
        return mean


def clip_l2(update: F64, bound: float | None) -> F64:
    """Return ``update * min(1, bound / ||update||_2)``, the projection onto an L2 ball.

    The update, f64 ``(d,)``, is not modified, and is returned itself for ``bound`` None. The norm of the
    result exceeds ``bound`` relatively by about 1e-15. The squared norm may overflow or underflow float64.

    Raises:
        UsageError: a coordinate that is not finite (diverged training), or an invalid bound, dtype or shape.

    Source: Abadi et al. 2016 (arXiv 1607.00133), algorithm 1; McMahan et al. 2018 (arXiv 1710.06963), section
    3.
    """
    expect(update, "update", np.float64, (None,))
    if not np.isfinite(update).all():
        raise UsageError("update has a coordinate that is not finite")
    if bound is None:
        return update
    if not (math.isfinite(bound) and bound > 0):
        raise UsageError(f"bound, the clipping bound, must be finite and positive, found {bound}")
    largest = float(np.abs(update).max(initial=0.0))
    if largest == 0.0:
        return update
    relative = update / largest
    # numpy's pairwise sum, not a BLAS product: its bits do not depend on the number of threads.
    norm = math.sqrt(float(np.square(relative).sum()))
    # The norm is in [1, sqrt(d)], so nothing overflows before it is compared.
    if largest <= bound / norm:
        return update
    return relative * (bound / norm)
