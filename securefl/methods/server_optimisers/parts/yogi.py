"""FedYogi."""

import numpy as np

from securefl.base.arrays import F64
from securefl.methods.server_optimisers import adaptive


class Yogi(adaptive.Adaptive, tag="yogi", frozen=True, kw_only=True):
    """FedYogi: v <- v - (1 - beta_2) u^2 sign(v - u^2), which moves by at most a share of u^2.

    Source: as :class:`Adaptive`, algorithm 2; the rule is that of Zaheer et al. 2018.
    """

    beta_2: adaptive.Decay = 0.99
    """Decay of the second moment v."""

    def second(self, moment: F64, square: F64) -> F64:
        return moment - (1.0 - self.beta_2) * square * np.sign(moment - square)
