"""Randomised response: a choice among k that is sent, with pure differential privacy of the whole data set.

The preferred option is sent with probability e^eps / (e^eps + k - 1), each other one with 1 / (e^eps + k -
1).

Source: Warner 1965; for k options Kairouz et al. 2014, optimal for small k.
"""

import math

from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError

MAX_CHOICE_EPSILON = 20.0
_UNIT = 1 << 32
_DRAW_BYTES = 16


def truthful_weight(epsilon: float) -> int:
    """Return the weight of the true option, e^epsilon 2^32 rounded down; each other one has 2^32.

    Raises:
        UsageError: epsilon is not in (0, 20].
    """
    if not 0 < epsilon <= MAX_CHOICE_EPSILON:
        raise UsageError(
            f"epsilon of randomised response must be above 0 and at most {MAX_CHOICE_EPSILON}, found"
            f" {epsilon}"
        )
    # The exponential is accurate to 2^-52; the factor subtracts more than its possible excess.
    return max(_UNIT, math.floor(math.exp(epsilon) * (1 - 2.0**-50) * _UNIT))


def truth_probability(epsilon: float, options: int) -> float:
    """Return P(the answer is the true option)."""
    weight = truthful_weight(epsilon)
    return weight / (weight + (options - 1) * _UNIT)


def randomised_response(preferred: int, options: int, epsilon: float, entropy: Entropy) -> int:
    """Return an answer among ``options`` >= 1, exact on integers; ``preferred``, from 0, is the true one.

    The odds are 2^32 to the truthful weight. Rejection sampling nearly always takes one draw of 16 bytes.

    Raises:
        UsageError: no such option, or an epsilon outside (0, 20].
    """
    if not 0 <= preferred < options:
        raise UsageError(f"preferred must be an option from 0 to {options - 1}, found {preferred}")
    truthful = truthful_weight(epsilon)
    total = truthful + (options - 1) * _UNIT
    limit = (1 << 8 * _DRAW_BYTES) // total * total
    while (drawn := int.from_bytes(entropy.draw(_DRAW_BYTES), "big")) >= limit:
        pass
    place = drawn % total
    if place < truthful:
        return preferred
    other = (place - truthful) // _UNIT
    return other + (other >= preferred)
