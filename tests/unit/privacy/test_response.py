"""Randomised response: its odds, exactly, and that they keep to epsilon."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.methods.privacy.response import (
    MAX_CHOICE_EPSILON,
    randomised_response,
    truth_probability,
    truthful_weight,
)

UNIT = 1 << 32


class Fixed(InsecureSeededEntropy):
    """Gives these numbers, one a draw of 16 bytes."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(0)
        self.left = list(numbers)

    def draw(self, count: int) -> bytes:
        assert count == 16
        return self.left.pop(0).to_bytes(16, "big")


@given(epsilon=st.floats(1e-9, MAX_CHOICE_EPSILON), options=st.integers(2, 64))
def test_no_answer_is_more_than_e_to_the_epsilon_times_as_likely_under_other_data(
    epsilon: float, options: int
) -> None:
    """By integers: the exponential of the double epsilon, to 60 digits, bounds the ratio of weights."""
    from decimal import Decimal, localcontext  # noqa: PLC0415 - here only

    with localcontext() as digits:
        digits.prec = 60
        bound = Fraction(Decimal(epsilon).exp())
    ratio = Fraction(truthful_weight(epsilon), UNIT)
    assert 1 <= ratio <= bound
    assert float(ratio) == pytest.approx(math.exp(epsilon), rel=1e-9)
    share = math.exp(epsilon) / (math.exp(epsilon) + options - 1)
    assert truth_probability(epsilon, options) == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize("preferred", [0, 1, 3])
def test_the_place_of_the_draw_says_the_answer(preferred: int) -> None:
    weight = truthful_weight(1.0)
    others = [option for option in range(4) if option != preferred]
    for drawn, expected in [
        (0, preferred),
        (weight - 1, preferred),
        *((weight + place * UNIT, option) for place, option in enumerate(others)),
        *((weight + (place + 1) * UNIT - 1, option) for place, option in enumerate(others)),
    ]:
        assert randomised_response(preferred, 4, 1.0, Fixed(drawn)) == expected


def test_numbers_beyond_the_last_whole_multiple_are_drawn_again() -> None:
    total = truthful_weight(1.0) + 3 * UNIT
    limit = (1 << 128) // total * total
    entropy = Fixed(limit, (1 << 128) - 1, 0)
    assert randomised_response(2, 4, 1.0, entropy) == 2
    assert entropy.left == []


def answers(epsilon: float, preferred: int, root: Entropy, count: int) -> Counter[int]:
    return Counter(randomised_response(preferred, 3, epsilon, root.child(n)) for n in range(count))


def test_answers_are_as_likely_as_they_should_be() -> None:
    """20,000 answers; each share within 5 standard deviations: one test in 300,000 fails by chance."""
    count, epsilon = 20_000, 1.5
    found = answers(epsilon, 1, InsecureSeededEntropy(4), count)
    true = truth_probability(epsilon, 3)
    for option in range(3):
        expected = true if option == 1 else (1 - true) / 2
        assert abs(found[option] / count - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


def test_one_option_is_always_the_answer() -> None:
    assert randomised_response(0, 1, 0.1, InsecureSeededEntropy(1)) == 0


@pytest.mark.parametrize(
    ("preferred", "options", "epsilon"), [(3, 3, 1.0), (-1, 3, 1.0), (0, 2, 0.0), (0, 2, 21.0)]
)
def test_nonsense_is_refused(preferred: int, options: int, epsilon: float) -> None:
    with pytest.raises(UsageError):
        randomised_response(preferred, options, epsilon, InsecureSeededEntropy(1))
