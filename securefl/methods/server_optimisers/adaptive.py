"""Adaptive server optimisers: a first moment of updates over the root of a second one."""

from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from securefl import scenario
from securefl.base.arrays import F64

Decay = Annotated[float, Meta(ge=0, lt=1)]


class Adaptive(scenario.ServerOptimiser, frozen=True, kw_only=True):
    """FedOpt, coordinate by coordinate, with u the aggregated update of a round.

        m <- beta_1 m + (1 - beta_1) u;   v <- second(v, u);   theta <- theta + eta m / (sqrt(v) + tau).

    Source: Reddi et al. 2021, "Adaptive federated optimization" (arXiv 2003.00295v5), algorithm 2. There v
    starts with at least tau^2, and the initial bias of m and v is not corrected.
    """

    moments: ClassVar[int] = 2
    scales_updates: ClassVar[bool] = False

    learning_rate: scenario.PositiveReal = 0.1
    """eta, length of the server's step."""
    beta_1: Decay = 0.9
    """Decay of the first moment m."""
    tau: scenario.PositiveReal = 1e-3
    """Degree of adaptivity, in the unit of updates: smaller values make the steps of coordinates more
    equal."""
    initial: Annotated[float, Meta(ge=0)] | None = None
    """v before the first round. None: tau^2."""

    def begin(self, length: int) -> F64:
        begun = np.zeros((2, length))
        begun[1] = self.tau * self.tau if self.initial is None else self.initial
        return begun

    def step(self, moments: F64, update: F64, round_: int) -> tuple[F64, F64]:
        made = np.empty_like(moments)
        made[0] = self.beta_1 * moments[0] + (1.0 - self.beta_1) * update
        made[1] = self.second(moments[1], update * update)
        return self.rate(round_) * made[0] / (np.sqrt(made[1]) + self.tau), made

    def second(self, moment: F64, square: F64) -> F64:
        """Return the second moment, f64 ``(d,)``, from the previous one and the squared update."""
        raise NotImplementedError

    def rate(self, round_: int) -> float:
        del round_
        return self.learning_rate
