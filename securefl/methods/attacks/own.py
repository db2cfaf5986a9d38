"""Attacks that need nobody else: scaled and flipped updates, noise, the model negated."""

from __future__ import annotations

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.base.crypto import prg
from securefl.base.entropy import Entropy


def scaled(update: F64, factor: float) -> F64:
    """``factor`` times the own update; -1 flips its sign, -10 and -100 are scaled sign flips.

    Knows: nothing but its own update. With q of n equal weights the mean of all is turned round from
    ``factor`` < -(n - q) / q on.
    Source: SHARE (Velicheti et al. 2021), section 6; Li et al. 2019 (arXiv 1811.03761), sign flipping.
    """
    return update * factor


def gaussian(update: F64, std: float, entropy: Entropy, *, add: bool) -> F64:
    """Independent N(0, ``std`` ^ 2) in each coordinate: instead of the update, or with ``add`` on top of it.

    Knows: nothing. ``entropy`` is the attacker's own: 32 bytes are drawn.
    Source: Blanchard et al. 2017, section 5 (there with standard deviation 200, instead of the gradient).
    """
    noise = std * _standard_normals(update.size, entropy)
    return update + noise if add else noise


def model_negation(params: F32) -> F64:
    """-2 theta for the round's global parameters theta, f32 ``(d,)``.

    The source's parties return models, and its attacker returns -theta for theta: as an update that is
    -theta - theta. It pulls the model towards zero, harder the further that is away.

    Knows: the global model, as every party does.
    Source: Portnoy, Tirosh and Hendler 2022 ("Towards federated learning with Byzantine-robust client
    weighting"), section 3.1.3, after Blanchard et al. 2017.
    """
    return -2.0 * params.astype(np.float64)


def _standard_normals(count: int, entropy: Entropy) -> F64:
    """By the transform of Box and Muller 1958, one value from each two uniform ones."""
    words = prg.expand(entropy.draw(prg.KEY_BYTES), 2 * count, np.uint64) >> np.uint64(11)
    uniform = words.astype(np.float64) * 2.0**-53
    # 1 - u lies in (0, 1]: its logarithm is finite.
    normal: F64 = np.sqrt(-2.0 * np.log1p(-uniform[:count])) * np.cos(2.0 * np.pi * uniform[count:])
    return normal
