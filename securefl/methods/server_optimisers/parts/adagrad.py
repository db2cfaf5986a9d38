"""FedAdagrad."""

from securefl.base.arrays import F64
from securefl.methods.server_optimisers import adaptive


class Adagrad(adaptive.Adaptive, tag="adagrad", frozen=True, kw_only=True):
    """FedAdagrad: v <- v + u^2, so that steps keep decreasing.

    Source: as :class:`Adaptive`, algorithm 2.
    """

    beta_1: adaptive.Decay = 0.0
    """Decay of the first moment m."""

    def second(self, moment: F64, square: F64) -> F64:
        return moment + square
