r"""Norm check: the L2 norm of a vector bounded by ternary projections, with proved error bounds.

A vector x over Z_2^64 (coordinates in -2^63 .. 2^63 - 1) has n projections p_j = <s_j, x> mod 2^64. It passes
if every p_j lies in [-B, B) and p_1^2 + ... + p_n^2 <= T. The signs s_ji are -1, 0, 1 with probability 1/4,
1/2, 1/4, so E p_j^2 = |x|^2 / 2 if nothing wraps.

**Honest vectors** (nothing wraps). 2 E s^2 = 1 and 2^k E s^(2k) = 2^(k-1) <= (2k - 1)!!, so E exp(h p_j^2) <=
E exp(h g^2) for a Gaussian g of the same variance v. By Chernoff's bound, for *every* direction of x,

    P(sum > (1 + e) n v) <= exp(-n (e - ln(1 + e)) / 2).

Also E exp(u s) = cosh(u / 2)^2 <= exp(u^2 / 4), so P(|p_j| >= B) <= 2 exp(-(B / |x|)^2). Source: Achlioptas
2003 (Database-friendly random projections), sections 5 and 6, upper half, for these signs.

**Long vectors** (nothing wraps). With N a standard Gaussian, exp(-h p^2) = E_N exp(i sqrt(2h) N p), and the
signs are independent, so with |x| = 1

    E exp(-h p_j^2) = E_N prod_i cos(a x_i)^2,  a = sqrt(h / 2) N.

cos(u)^2 <= exp(-u^2) for abs(u) <= pi / 2. So for every direction of x the product is at most exp(-a^2) for
abs(a) <= pi / 2, else 1. :func:`acceptance_bound` takes the expectation in closed form and the best h.

**Vectors that wrap.** If some coordinate has magnitude 2B or more, [-B, B) cannot hold p_j both for its sign
0 and for -1 or 1, given the other signs. So all n projections pass with probability at most 2^-n. Otherwise,
with d 2B <= 2^63, nothing wraps. So the bound holds for *all* x if n B^2 < 2^63 (then the sum of squares does
not wrap either). Worst is a single nonzero coordinate: half of its projections are 0, and no length brings
its acceptance below 2^-n.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from securefl.base import sums
from securefl.base.errors import UsageError

HONEST_SHARE = 0.9
"""Fraction of C up to which vectors are rejected at most with the stated probability."""
ATTACK_FACTOR = 2.0
"""Multiple of C from which on vectors are accepted at most with the stated probability."""
RANGE_BITS = 9
"""Projections up to 2^9 C are squared, or up to less if their squares would not fit."""
MIN_RANGE_BITS = 4
"""An honest projection exceeds 2^4 C with probability at most 2 exp(-316)."""
LONGEST = 2**26
"""Largest number of coordinates, for which projections cannot wrap."""
_MAX_SUM = 2**63


@dataclass(frozen=True, slots=True)
class NormTest:
    """Parameters of one norm check, integers in units of the encoding."""

    norm: int
    """C: bound on the norm of honest vectors."""
    projections: int
    """n."""
    range_bits: int
    """b: projections must lie in [-2^b, 2^b)."""
    threshold: int
    """T: the largest sum of squares that passes."""

    def passes(self, projections: list[int]) -> bool:
        """Return True if centred projections pass: the members' test on shares, in plaintext."""
        bound = 1 << self.range_bits
        in_range = all(-bound <= p < bound for p in projections)
        return in_range and sums.exact_sum(p * p for p in projections) <= self.threshold


def norm_test(norm: int, projections: int, failure: float) -> NormTest:
    """Return the check that rejects norms up to ``HONEST_SHARE * norm`` with probability at most ``failure``.

    ``norm`` is C >= 1 in units of the encoding, ``projections`` n; ``failure``, in (0, 1), bounds both
    errors.

    Raises:
        UsageError: the numbers do not fit into 64 bits, or n is too small to separate ``HONEST_SHARE`` C from
            ``ATTACK_FACTOR`` C.
    """
    if norm < 1 or projections < 1 or not 0 < failure < 1:
        raise UsageError(
            f"norm and projections must be at least 1 and failure in (0, 1); found {norm},"
            f" {projections} and {failure}"
        )
    numerator, denominator = _relative(projections, failure).as_integer_ratio()
    threshold = projections * norm * norm * numerator // denominator
    return NormTest(norm, projections, _range_bits(norm, projections), threshold)


def acceptance_bound(relative: float, projections: int) -> float:
    """Return a bound >= 2^-n on P(a vector with T / (n |x|^2) = ``relative`` passes), for *every* vector."""
    best = 0.0
    for step in range(1, 801):
        h = step / 100
        nu = math.pi / 2 / math.sqrt(h / 2)
        inside = math.erf(nu * math.sqrt((1 + h) / 2)) / math.sqrt(1 + h)
        best = min(best, h * relative + math.log(inside + math.erfc(nu / math.sqrt(2))))
    return min(1.0, max(2.0**-projections, math.exp(projections * best)))


def accepted_at(test: NormTest, factor: float) -> float:
    """Return a bound on the probability that a vector of norm ``factor`` C or more passes ``test``."""
    return acceptance_bound(test.threshold / (test.projections * (factor * test.norm) ** 2), test.projections)


@lru_cache(maxsize=64)
def _relative(projections: int, failure: float) -> float:
    """Return T / (n C^2), the same for every C: a round has a test for each weight."""
    relative = HONEST_SHARE**2 / 2 * (1 + _excess(projections, failure))
    reached = acceptance_bound(relative / ATTACK_FACTOR**2, projections)
    if reached > failure:
        raise UsageError(
            f"{projections} projections accept vectors of {ATTACK_FACTOR:g} C with probability up to"
            f" {reached:.2g}, which is more than {failure:g}: take more projections"
        )
    return relative


def _excess(projections: int, failure: float) -> float:
    """Return the least e with exp(-n (e - ln(1 + e)) / 2) <= failure - P(a projection is out of range)."""
    slack = projections * 2 * math.exp(-((2**MIN_RANGE_BITS / HONEST_SHARE) ** 2))
    wanted = -2 * math.log(failure - slack) / projections
    low, high = 0.0, 1.0
    while high - math.log1p(high) < wanted:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if middle - math.log1p(middle) < wanted else (low, middle)
    return high


def _range_bits(norm: int, projections: int) -> int:
    least = (norm - 1).bit_length()
    for extra in range(RANGE_BITS, MIN_RANGE_BITS - 1, -1):
        bits = least + extra
        if projections << (2 * bits) < _MAX_SUM and LONGEST << (bits + 1) <= _MAX_SUM:
            return bits
    raise UsageError(
        f"the squares of {projections} projections up to {2**MIN_RANGE_BITS} times {norm} do not fit into"
        " 64 bits: take fewer bits after the point, or a smaller norm"
    )
