"""Published first stage (Xiang et al. 2023, algorithm 2): a norm test and a KS test on one upload.

A baseline for m = 1 and continuous Gaussian noise (``docs/checks.md`` shows its errors). Algorithm 1 divides
an upload by the batch size b_c, so its noise has the standard deviation sigma / b_c; algorithm 2 as printed
tests against sigma. Here ``std`` is that of the noise *in the vector as passed*.
"""

import math
from typing import NamedTuple

import numpy as np

from securefl.base.arrays import F64, expect
from securefl.base.errors import UsageError
from securefl.methods.privacy.checks import tails, verdict
from securefl.methods.privacy.checks.null import MIN_DIM

NORM_SPREADS = 3.0
KS_LEVEL = 0.05
_STEPS_PER_ROOT = 3.0


def least_std(dim: int) -> float:
    """Return the smallest standard deviation, steps, at which integer noise passes the KS test: 3 sqrt(d).

    The normal law is off by half a step on each side of 0, a distance of 0.2 / std: 5 % of the distance that
    passes. Then 6 % of honest uploads fail instead of 5 %; at 1.5 sqrt(d) steps 8 %, at 0.4 sqrt(d) 34 %
    (measured at d = 4,000, 6,000 uploads each).
    """
    return _STEPS_PER_ROOT * math.sqrt(dim)


class FirstStage(NamedTuple):
    """Results of both tests on one upload."""

    norm: verdict.CheckVerdict
    distribution: verdict.CheckVerdict

    @property
    def ok(self) -> bool:
        """True if the upload is accepted."""
        return self.norm.ok and self.distribution.ok


def first_stage(upload: F64, std: float) -> FirstStage:
    """Run algorithm 2 on ``upload``, f64 ``(d,)``, with noise of deviation ``std`` > 0 in each coordinate.

    Raises:
        UsageError: the wrong dtype or shape, fewer than 64 coordinates, or an invalid deviation.
    """
    return FirstStage(norm_test(upload, std), ks_test(upload, std))


def norm_test(upload: F64, std: float) -> verdict.CheckVerdict:
    """Check that |g|^2 of ``upload`` lies within 3 sqrt(2 d) ``std``^2 of ``std``^2 d.

    The statistic is the distance in units of sqrt(2 d) ``std``^2. Arguments as for :func:`first_stage`.
    """
    dim = _check(upload, std)
    off = (float(np.square(upload / std).sum()) - dim) / math.sqrt(2 * dim)
    return verdict.judge(
        "published norm",
        2 * tails.normal_tail(NORM_SPREADS),
        2 * tails.normal_tail(abs(off)),
        statistic=abs(off),
        threshold=NORM_SPREADS,
        reason=f"squared norm {off:+.2f} standard deviations off, passes up to {NORM_SPREADS:g}",
    )


def ks_test(upload: F64, std: float) -> verdict.CheckVerdict:
    """Check the coordinates by a KS test against N(0, ``std``^2) at 0.05; the statistic is the distance.

    Arguments as for :func:`first_stage`.
    """
    dim = _check(upload, std)
    # Uploads are integers in steps, so coordinates share values: evaluate the law once for each.
    values, counts = np.unique(upload, return_counts=True)
    scaled = values / (-math.sqrt(2) * std)
    normal = 0.5 * np.fromiter(map(math.erfc, scaled.tolist()), np.float64, values.size)
    upto = np.cumsum(counts)
    distance = max(float((upto / dim - normal).max()), float((normal - (upto - counts) / dim).max()))
    threshold = _ks_distance(dim)
    return verdict.judge(
        "published KS",
        KS_LEVEL,
        tails.kolmogorov_tail(distance, dim),
        statistic=distance,
        threshold=threshold,
        reason=f"distance {distance:.5f} from the normal law, passes up to {threshold:.5f}",
    )


def _ks_distance(dim: int) -> float:
    """Return the distance with a p-value of 0.05: Kolmogorov's law reaches it at 1.3581."""
    root = math.sqrt(dim)
    return 1.3581015157406196 / (root + 0.12 + 0.11 / root)


def _check(upload: F64, std: float) -> int:
    expect(upload, "upload", np.float64, (None,))
    if upload.size < MIN_DIM:
        raise UsageError(
            f"upload must have at least {MIN_DIM} coordinates to be checked, found {upload.size}"
        )
    if not (math.isfinite(std) and std > 0 and bool(np.isfinite(upload).all())):
        raise UsageError(f"upload must be finite, and std finite and positive; found std {std}")
    return upload.size
