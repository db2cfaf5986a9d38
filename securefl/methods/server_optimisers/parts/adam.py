"""FedAdam."""

import math
from typing import Literal

from securefl.base.arrays import F64
from securefl.methods.server_optimisers import adaptive


class Adam(adaptive.Adaptive, tag="adam", frozen=True, kw_only=True):
    """FedAdam: v <- beta_2 v + (1 - beta_2) u^2. Source: as :class:`Adaptive`, algorithm 2."""

    beta_2: adaptive.Decay = 0.99
    """Decay of the second moment v."""
    bias_correction: Literal["none", "adam", "flower"] = "none"
    """``adam``: eta_t = eta sqrt(1 - beta_2^t) / (1 - beta_1^t) in the t-th round from 1 (Kingma, Ba 2015,
    section 2). ``flower``: the same of t + 1, as Flower 1.41 computes it. Both are meant for ``initial = 0``.
    """

    def second(self, moment: F64, square: F64) -> F64:
        return self.beta_2 * moment + (1.0 - self.beta_2) * square

    def rate(self, round_: int) -> float:
        if self.bias_correction == "none":
            return self.learning_rate
        steps = round_ + (2 if self.bias_correction == "flower" else 1)
        left_1, left_2 = _power(self.beta_1, steps), _power(self.beta_2, steps)
        return self.learning_rate * math.sqrt(1.0 - left_2) / (1.0 - left_1)


def _power(base: float, exponent: int) -> float:
    """Return a power by products, whose rounding is the same on every machine, unlike that of libraries."""
    return math.prod((base,) * exponent)
