"""Rounding to integers that keeps the L2 norm of a vector bounded (step 4, with privacy noise).

Unbiased stochastic rounding may lengthen a vector by up to sqrt(d) steps; conditional rounding repeats until
the norm is within a bound that nearly every rounding meets.

It bounds the *rounded vector*: the sensitivity at party level, twice that under replace-one. It does **not**
bound the distance between the roundings of two neighbouring vectors. So at record level round without a
condition, and add ``beta`` of the record's :class:`BoundedRounding` to delta in every release.
"""

import math
from dataclasses import dataclass

import numpy as np

from securefl.base.arrays import F64, I64, expect
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.methods import encoding

DEFAULT_BETA = math.exp(-0.5)
"""Choice of Kairouz et al. 2021: both the norm bound and the bias grow little."""

MAX_BETA = 0.75

MAX_LENGTH = 2.0**30
"""Largest ``norm`` + sqrt(``dim``), in steps: a squared norm then fits an int64 with room."""

GIVE_UP_BITS = 64
"""All tries fail with a probability of at most 2^-64."""

_CLIP_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class BoundedRounding:
    """Rounding of vectors of L2 norm at most ``norm`` to integer vectors of norm at most ``sensitivity``.

    With c = ``norm`` and d = ``dim`` the squared bound is the smaller of (c + sqrt(d))^2, which no rounding
    exceeds, and c^2 + d/4 + sqrt(2 ln(1/beta)) (c + sqrt(d)/2), which a rounding exceeds with probability at
    most ``beta``.

    Source: Kairouz et al. 2021 (arXiv 2102.06387), theorem 1, in units of the granularity.

    Raises:
        UsageError: ``norm`` not finite and positive, ``dim`` below 1, ``beta`` outside (0, 3/4], or ``norm``
            + sqrt(``dim``) above 2^30.
    """

    norm: float
    """Bound c before rounding, steps; a relative 1e-12 is added, since clipping rounds."""
    dim: int
    beta: float = DEFAULT_BETA

    def __post_init__(self) -> None:
        if not (math.isfinite(self.norm) and self.norm > 0):
            raise UsageError(f"norm before rounding must be finite and positive, found {self.norm}")
        if self.dim < 1:
            raise UsageError(f"dim of a vector to round must be at least 1, found {self.dim}")
        if not 0 < self.beta <= MAX_BETA:
            raise UsageError(f"beta must be above 0 and at most {MAX_BETA}, found {self.beta}")
        if self.norm + math.sqrt(self.dim) > MAX_LENGTH:
            raise UsageError(
                f"norm + sqrt(dim) must be at most {MAX_LENGTH:g} steps; found norm {self.norm:g}, dim"
                f" {self.dim}"
            )

    @property
    def squared(self) -> int:
        """Largest squared norm of a rounded vector, an integer."""
        norm, root = self.norm * (1 + _CLIP_SLACK), math.sqrt(self.dim)
        spread = math.sqrt(2 * math.log(1 / self.beta)) * (norm + root / 2)
        return math.floor(min((norm + root) ** 2, norm**2 + self.dim / 4 + spread))

    @property
    def sensitivity(self) -> float:
        """Largest L2 norm, steps, of a rounded vector (the float above the square root)."""
        return math.nextafter(math.sqrt(self.squared), math.inf)

    @property
    def tries(self) -> int:
        """Number of tries: the smallest n with beta^n <= 2^-64."""
        return math.ceil(GIVE_UP_BITS * math.log(2) / math.log(1 / self.beta))

    def round(self, values: F64, entropy: Entropy) -> I64:
        """Round each coordinate to a neighbouring integer; the squared norm is at most ``squared``.

        Rounds without bias, with fresh randomness, until the bound holds. If ``tries`` roundings fail, rounds
        towards zero: only the error of this vector, up to sqrt(d), is larger. The condition biases the result
        by at most sqrt(d) beta / (1 - beta) in L2 norm, usually by far less. The values, f64 ``(dim,)``,
        steps, are not modified; each try draws 32 bytes.

        Hazard: the number of tries depends on the data, and the time may reveal it.

        Raises:
            UsageError: a vector longer than ``norm`` or not finite, or the wrong dtype or shape.
        """
        expect(values, "values", np.float64, (self.dim,))
        # numpy's pairwise sum, not a BLAS product: its bits do not depend on the number of threads.
        with np.errstate(over="ignore"):
            length = math.sqrt(float(np.square(values).sum()))
        if not length <= self.norm * (1 + _CLIP_SLACK / 2):
            raise UsageError(f"values must be clipped to norm {self.norm}, found norm {length}")
        grid, limit = encoding.FixedPoint(0, MAX_LENGTH), self.squared
        for _ in range(self.tries):
            rounded = grid.encode(values, entropy).values
            if int(np.square(rounded).sum()) <= limit:
                return rounded
        return np.trunc(values).astype(np.int64)
