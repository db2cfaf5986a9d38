from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from securefl.base.arrays import I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.methods.leakage.modular import (
    draw_prime,
    inverses,
    is_prime,
    prime_from,
    product,
    times,
    total,
    wrapped_product,
)

LARGEST = 2**61 - 1
SMALLEST = 2**60 + 33
"""The largest and the smallest prime of 61 bits."""
PRIMES = (LARGEST, SMALLEST, prime_from(b"x"))


def residues(shape: tuple[int, ...], prime: int, seed: int) -> I64:
    """Random ones, with the extremes among them."""
    generator = np.random.default_rng(seed)
    array = generator.integers(0, prime, shape)
    edge = generator.choice(np.array([0, 1, prime - 1, prime // 2, 2**31 - 1, 2**31, 2**60]), shape)
    return np.where(generator.random(shape) < 0.3, edge, array)


def test_primes_of_61_bits() -> None:
    assert is_prime(LARGEST)
    assert is_prime(SMALLEST)
    assert not any(is_prime(2**60 + k) for k in range(33))
    for seed in range(20):
        assert 2**60 < prime_from(bytes([seed])) < 2**61
        assert is_prime(prime_from(bytes([seed])))
    assert len({prime_from(bytes([seed])) for seed in range(20)}) == 20
    entropy = InsecureSeededEntropy(1)
    assert draw_prime(entropy) != draw_prime(entropy)


def test_is_prime_agrees_with_a_sieve() -> None:
    sieve = [number > 1 and all(number % k for k in range(2, int(number**0.5) + 1)) for number in range(3000)]
    assert [is_prime(number) for number in range(3000)] == sieve
    # Carmichael numbers, and a strong pseudoprime to the first nine primes as bases.
    assert not any(map(is_prime, (561, 41041, 825265, 321197185, 3825123056546413051)))


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("seed", range(5))
def test_arithmetic_is_that_of_integers(prime: int, seed: int) -> None:
    left, right = residues((7, 40), prime, seed), residues((40, 9), prime, seed + 100)
    exact_left, exact_right = left.astype(object), right.astype(object)
    assert (times(left, left[::-1], prime).astype(object) == exact_left * exact_left[::-1] % prime).all()
    assert (product(left, right, prime).astype(object) == exact_left @ exact_right % prime).all()
    assert (total(left, prime).astype(object) == exact_left.sum(axis=0) % prime).all()
    values = left[left > 0]
    assert (times(inverses(values, prime), values, prime) == 1).all()


@pytest.mark.parametrize("prime", PRIMES)
def test_a_long_product_of_the_largest_residues_does_not_overflow(prime: int) -> None:
    left, right = np.full((1, 2500), prime - 1), np.full((2500, 1), prime - 1)
    assert product(left, right, prime)[0, 0] == 2500
    assert total(right, prime)[0] == prime - 2500


@given(
    npst.arrays(np.int64, (5, 12), elements=st.integers(0, 1)),
    npst.arrays(np.int64, (12, 3), elements=st.integers(0, LARGEST - 1)),
)
def test_wrapped_product(matrix: I64, residue: I64) -> None:
    exact = matrix.astype(object) @ residue.astype(object) % 2**64
    got = wrapped_product(matrix.astype(np.float64), residue).view(np.uint64)
    assert (got.astype(object) == exact).all()


@pytest.mark.parametrize("count", [0, 1, 64, 65, 131, 257])
def test_inverses_of_few_and_of_many(count: int) -> None:
    values = LARGEST - 1 - np.arange(count)
    assert inverses(values, LARGEST).tolist() == [pow(value, -1, LARGEST) for value in values.tolist()]


@pytest.mark.parametrize("count", [3, 200])
def test_zero_has_no_inverse(count: int) -> None:
    values = np.arange(1, count + 1)
    values[1] = 0
    with pytest.raises(UsageError, match="zero"):
        inverses(values, LARGEST)
