"""Clipping of a party's update to a bounded L2 norm (step 3 of the data flow)."""

from __future__ import annotations

import math

import numpy as np

from securefl.base.arrays import F64, expect
from securefl.base.errors import UsageError


def clip_l2(update: F64, bound: float | None) -> F64:
    """``update * min(1, bound / ||update||_2)``, the projection onto the L2 ball of radius ``bound``.

    The norm of the result exceeds ``bound`` by rounding only (a relative error of about 1e-15). Updates whose
    squared norm overflows or underflows a float64 are handled, too.

    Args:
        update: f64 ``(d,)``, parameters' own unit. It is never written to.
        bound: radius, > 0; ``None`` leaves the update as it is (the same array is returned).

    Raises:
        UsageError: a coordinate that is not finite (training diverged and nobody looked), or a bad bound,
            dtype or shape.

    Source: Abadi et al. 2016 (arXiv 1607.00133), algorithm 1; applied to the whole update as in McMahan et
    al. 2018 (arXiv 1710.06963), section 3.
    """
    expect(update, "update", np.float64, (None,))
    if not np.isfinite(update).all():
        raise UsageError("update has a coordinate that is not finite")
    if bound is None:
        return update
    if not (math.isfinite(bound) and bound > 0):
        raise UsageError(f"the clipping bound must be finite and positive, not {bound}")
    largest = float(np.abs(update).max(initial=0.0))
    if largest == 0.0:
        return update
    relative = update / largest
    # numpy's pairwise sum, not a BLAS product: its bits do not depend on the number of threads.
    norm = math.sqrt(float(np.square(relative).sum()))
    # norm lies in [1, sqrt(d)], so that nothing here overflows before it is compared.
    if largest <= bound / norm:
        return update
    return relative * (bound / norm)
