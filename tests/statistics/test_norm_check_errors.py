"""How often vectors pass the test of their norm: honest ones, scaled ones, and those made to wrap.

The stated failure is 1e-3 a vector. Of 4,000 independent sketches, more than 13 errors have probability 2e-4
at that rate (Poisson, mean 4); there are 60 such comparisons here with fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import I64, U64
from securefl.methods.privacy.norm_check import NormTest, norm_test
from securefl.protocol.secure_sum.validated.sketch import matrix

SCALE, LENGTH, TRIALS, PROJECTIONS = 2**16, 16, 4000, 64
TEST = norm_test(SCALE, PROJECTIONS, 1e-3)
MOST = 13

# One stream, cut into independent sketches of 16 coordinates.
SIGNS = (
    matrix(b"\x07" * 32, TRIALS * LENGTH, PROJECTIONS)
    .reshape(PROJECTIONS, TRIALS, LENGTH)
    .transpose(1, 0, 2)
    .astype(np.int64)
)


def sums(vector: list[int]) -> tuple[I64, I64]:
    """Projections ``(TRIALS, n)`` and their sums of squares, both modulo 2^64 and centred."""
    ring: U64 = np.array([v % 2**64 for v in vector], np.uint64)
    with np.errstate(over="ignore"):
        projections: I64 = SIGNS @ ring.view(np.int64)
        return projections, (projections * projections).sum(axis=1)


def accepted(vector: list[int], test: NormTest = TEST, check_range: bool = True) -> int:
    """How many of the sketches let ``vector`` pass, in the arithmetic of the ring."""
    projections, squares = sums(vector)
    with np.errstate(over="ignore"):
        passes = test.threshold - squares >= 0
    bound = 1 << test.range_bits
    in_range = ((projections >= -bound) & (projections < bound)).all(axis=1)
    return int((passes & in_range if check_range else passes).sum())


def direction(kind: str, norm: float) -> list[int]:
    generator = np.random.default_rng(11)
    shape = {
        "one coordinate": np.eye(LENGTH)[3],
        "two coordinates": np.eye(LENGTH)[3] + np.eye(LENGTH)[5],
        "equal": np.ones(LENGTH),
        "Gaussian": generator.normal(size=LENGTH),
        "heavy": np.eye(LENGTH)[0] * 4 + generator.normal(size=LENGTH),
    }[kind]
    return [round(x) for x in shape / np.linalg.norm(shape) * norm * SCALE]


KINDS = ("one coordinate", "two coordinates", "equal", "Gaussian", "heavy")


@pytest.mark.parametrize("kind", KINDS)
def test_honest_vectors_pass(kind: str) -> None:
    assert accepted(direction(kind, 0.9)) >= TRIALS - MOST


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [2, 10])
def test_scaled_vectors_do_not(kind: str, factor: int) -> None:
    assert accepted(direction(kind, factor)) <= MOST


@pytest.mark.parametrize("power", range(1, 41))
def test_powers_of_two_do_not(power: int) -> None:
    assert accepted([x << power for x in direction("Gaussian", 1)]) <= MOST


def test_vectors_made_to_wrap_do_not() -> None:
    assert accepted([2**32] * LENGTH) == 0
    assert accepted([2**32, -(2**32)] * (LENGTH // 2)) == 0
    assert accepted([2**63, 2**63] + [0] * (LENGTH - 2)) == 0
    # One step beyond what the range lets through as often as a coin falls.
    assert accepted([2 << TEST.range_bits] + [0] * (LENGTH - 1)) == 0


def test_why_projections_are_checked_before_they_are_squared() -> None:
    """Without the range: a multiple of 2^32 squares to 0, and 2^16 C leaves a sign that is a coin toss."""
    assert accepted([2**32] * LENGTH, check_range=False) == TRIALS
    assert accepted([2**63, 2**63] + [0] * (LENGTH - 2), check_range=False) == TRIALS
    tossed = accepted([x << 16 for x in direction("Gaussian", 1)], check_range=False)
    # 5 standard deviations of 4,000 tosses on either side.
    assert abs(tossed - TRIALS / 2) < 5 * np.sqrt(TRIALS) / 2


def test_a_single_coordinate_hides_from_half_of_its_projections() -> None:
    """The worst direction that a sketch of this kind has: no length brings its acceptance below 2^-n."""
    projections, _ = sums(direction("one coordinate", 10))
    zeros = (projections == 0).mean()
    assert abs(zeros - 0.5) < 5 * 0.5 / np.sqrt(projections.size)
