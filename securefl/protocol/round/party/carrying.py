"""Carried momentum: what each party's per-example momentum goes on from (``training.dp_sgd.carry``).

A gradient that is mixed with a vector, and bounded then, is as private as without if the vector could be
known to everybody. An own upload is public where no sum hides it; the global model's step always is.
"""

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.methods import encoding
from securefl.protocol.round.party.upload import Upload
from securefl.protocol.round.shared.plan import RunPlan


def carries(plan: RunPlan, what: str) -> bool:
    """Whether the scenario carries ``what``: ``own`` or ``global``."""
    dp = plan.scenario.training.dp_sgd
    return dp is not None and dp.carry == what


def global_step(plan: RunPlan, before: F32, after: F32) -> F64 | None:
    """Minus the last step of the global model over the server's learning rate: of an update's scale, uphill.

    Args:
        plan: of the run.
        before: the model of the last round, f32 ``(d,)``.
        after: the model of this round, f32 ``(d,)``.

    Returns:
        f64 ``(d,)``; None, which stands for zeros, where a model is not finite: that is the server's doing
        and must not make a party raise.
    """
    with np.errstate(invalid="ignore"):
        step: F64 = before.astype(np.float64) - after
    step /= plan.optimiser.learning_rate
    return step if np.isfinite(step).all() else None


def own_upload(plan: RunPlan, upload: Upload, weight: float) -> F64:
    """Minus what a cluster of one is opened to, its noise included: f64 ``(d,)``, uphill."""
    return -plan.fixed_point.decode(encoding.from_ring(upload.ring[: plan.length]), weight)
