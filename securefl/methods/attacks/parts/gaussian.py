"""Gaussian noise."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.crypto import prg
from securefl.base.entropy import Entropy


class Gaussian(scenario.UpdateAttack, tag="gaussian", frozen=True, kw_only=True):
    """Independent N(0, std^2) noise in each coordinate instead of the update, or added to it.

    Example:
        >>> Gaussian(std=1.0)([1.0, 2.0], seed=1).round(6)
        array([-1.201767, -0.641254])
    """

    std: scenario.PositiveReal = 1.0
    """Standard deviation of each coordinate, in the unit of the parameters."""
    add: bool = False
    """True if the noise is added to the trained update."""

    def craft(self, update: F64, before: F32, entropy: Entropy) -> F64:
        return gaussian(update, self.std, entropy, add=self.add)


def gaussian(update: F64, std: float, entropy: Entropy, *, add: bool) -> F64:
    """Return independent N(0, ``std`` ^ 2) noise, or with ``add`` the update plus the noise.

    Knows: nothing. 32 bytes are drawn from ``entropy``, the attacker's own.
    Source: Blanchard et al. 2017, section 5 (there with standard deviation 200, instead of the gradient).
    """
    noise = std * _standard_normals(update.size, entropy)
    return update + noise if add else noise


def _standard_normals(count: int, entropy: Entropy) -> F64:
    """Return normals by the transform of Box and Muller 1958 of two uniform values each."""
    words = prg.expand(entropy.draw(prg.KEY_BYTES), 2 * count, np.uint64) >> np.uint64(11)
    uniform = words.astype(np.float64) * 2.0**-53
    # 1 - u is in (0, 1], so its logarithm is finite
    normal: F64 = np.sqrt(-2.0 * np.log1p(-uniform[:count])) * np.cos(2.0 * np.pi * uniform[count:])
    return normal
