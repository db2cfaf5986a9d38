"""Momentum carry: start values of per-example momentum (``training.dp_sgd.carry``).

Mixing a public vector into a gradient before the clip costs no privacy.
"""

import numpy as np

from securefl.base.arrays import F32, F64
from securefl.methods import encoding
from securefl.protocol.round.party.upload import EncodedUpdate
from securefl.protocol.round.shared.plan import RunPlan


def has_carry(plan: RunPlan, what: str) -> bool:
    """Return True if the scenario carries ``what``: ``own`` or ``global``."""
    dp = plan.scenario.training.dp_sgd
    return dp is not None and dp.carry == what


def last_global_step(plan: RunPlan, before: F32, after: F32) -> F64 | None:
    """Return minus the global model's last step over the server's learning rate: f64 ``(d,)``, uphill.

    None (zeros) if a model is not finite: the server's models must not make a party raise.
    """
    with np.errstate(invalid="ignore"):
        step: F64 = before.astype(np.float64) - after
    step /= plan.optimiser.learning_rate
    return step if np.isfinite(step).all() else None


def decode_own_upload(plan: RunPlan, upload: EncodedUpdate, weight: float) -> F64:
    """Return minus the opened sum of a cluster of one, noise included: f64 ``(d,)``, uphill."""
    return -plan.fixed_point.decode(encoding.from_ring(upload.ring[: plan.length]), weight)
