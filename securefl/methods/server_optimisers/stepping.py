"""The server's step, whatever the optimiser."""

from __future__ import annotations

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.base.errors import RunAbortedError
from securefl.scenario import ServerOptimiser


def server_step(
    optimiser: ServerOptimiser, params: F32, moments: F64, update: F64, round_: int
) -> tuple[F32, F64]:
    """New parameters f32 ``(d,)`` and moments f64 ``(s, d)`` from the round's aggregated update.

    An update too large for float32 makes the parameters infinite: the model is destroyed, and the evaluation
    says so.

    Args:
        optimiser: the scenario's.
        params: f32 ``(d,)``.
        moments: f64 ``(s, d)``.
        update: f64 ``(d,)``.
        round_: its number, from 0.

    Raises:
        RunAbortedError: an optimiser of one's own raises, or returns other shapes.
    """
    with optimiser.blamed(), np.errstate(over="ignore", invalid="ignore"):
        added, made = optimiser.step(moments, update, round_)
    if np.shape(added) != params.shape or np.shape(made) != moments.shape:
        found = f"{np.shape(added)} and {np.shape(made)}"
        raise RunAbortedError(
            f"{optimiser.name} returned the shapes {found}, expected {params.shape} and {moments.shape}"
        )
    with np.errstate(over="ignore"):
        stepped = (params.astype(np.float64) + added).astype(np.float32)
    return stepped, np.asarray(made, dtype=np.float64)


def past_update(optimiser: ServerOptimiser, moments: F64) -> F64:
    """The optimiser's mean of past aggregates, f64 ``(d,)``: what rules with a memory begin from."""
    with optimiser.blamed():
        return optimiser.past(moments)
