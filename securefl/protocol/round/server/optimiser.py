"""The server's step on the aggregated update: SGD with momentum (FedAvg at momentum 0 and rate 1)."""

from __future__ import annotations

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.scenario import ServerOptimiser


def server_step(config: ServerOptimiser, params: F32, velocity: F64, update: F64) -> tuple[F32, F64]:
    """Return (new parameters f32 (d,), new velocity f64 (d,)): v <- mu v + u; theta <- theta + eta v.

    An update too large for float32 makes the parameters infinite: the model is destroyed, and the evaluation
    says so.
    """
    velocity = config.momentum * velocity + update
    with np.errstate(over="ignore"):
        stepped = (params.astype(np.float64) + config.learning_rate * velocity).astype(np.float32)
    return stepped, velocity


def past_update(config: ServerOptimiser, velocity: F64) -> F64:
    """The mean of all past aggregates that weights the k-th last by mu^k, f64 (d,); zero before the first.

    Without momentum it is the last aggregate.
    """
    past: F64 = (1.0 - config.momentum) * velocity
    return past
