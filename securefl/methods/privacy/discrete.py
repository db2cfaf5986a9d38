"""The cost of integer noise against the Gaussian noise that accountants compose.

A Skellam variable of variance V hides an integer shift D, by Renyi divergences of any integer order a > 1,
as well as Gaussian noise does up to

    a D^2 / (2 V) + ((2a - 1) D^2 + 6 D) / (4 V^2)  <=  a D^2 / (2 V) * (1 + 3.5 / V)

(the bound of Agarwal et al. 2021, arXiv 2110.04995, on shifted Skellam laws; D <= D^2). A discrete Gaussian
one needs nothing there (Canonne et al. 2020, arXiv 2004.00010: as concentrated as the Gaussian). The same
slack is taken for both laws and for loss distributions, which is no theorem: the hockey-stick divergences of
single integer shifts are compared with those of the Gaussian law in ``tests/unit/privacy/test_discrete.py``,
where a third of it would do. That carries over to vectors, sampled batches and any number of steps: each of
these keeps the order of divergences of its parts.
"""

from __future__ import annotations

import math

from securefl.base.errors import UsageError

MIN_VARIANCE = 16.0
"""Steps^2: noise of 4 steps, the least that is drawn."""


def mu_slack(variance: float) -> float:
    """Relative increase of mu that covers integer noise of this variance (steps^2): sqrt(1 + 3.5 / V) - 1.

    10 % at 4 steps, 0.04 % at 64.

    Raises:
        UsageError: a variance below 16.
    """
    if not variance >= MIN_VARIANCE:
        raise UsageError(f"no bound for integer noise of variance {variance}")
    return math.expm1(0.5 * math.log1p(3.5 / variance))
