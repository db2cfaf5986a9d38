"""FedAvg and FedAvgM: SGD with momentum on the aggregated update."""

from typing import Annotated

from msgspec import Meta

from securefl import scenario
from securefl.base.arrays import F64


class Sgd(scenario.ServerOptimiser, tag="sgd", frozen=True, kw_only=True):
    """FedAvgM: v <- mu v + u; theta <- theta + eta v. At rate 1 without momentum it is FedAvg.

    Source: Hsu, Qi, Brown 2019, "Measuring the effects of non-identical data distribution for federated
    visual classification" (arXiv 1909.06335), section 4.3.
    """

    momentum: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """mu, momentum of the server's step."""

    def step(self, moments: F64, update: F64, round_: int) -> tuple[F64, F64]:
        moved = self.momentum * moments + update
        return self.learning_rate * moved[0], moved

    def past(self, moments: F64) -> F64:
        # Return the decaying mean: the k-th last aggregate has weight mu^k; without momentum, the last one.
        past: F64 = (1.0 - self.momentum) * moments[0]
        return past
