"""The border between another rounding of a step and another outcome."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F32, F64
from securefl.protocol.messages.verification import RoundClaim, Step
from securefl.protocol.round.server.phases import Standing
from securefl.protocol.round.shared.chain import state_digest
from securefl.protocol.round.shared.repeating import LAST_BITS, is_rounding
from securefl.protocol.round.shared.statement import model_digest

OLD = np.array([1.0, 0.0, -3e-6, 1e6], dtype=np.float32)
NEW = np.array([1.5, 1e-3, -2e-6, 1e6 + 1], dtype=np.float32)
MOMENTS = np.array([[0.5, 1e-3, 1e-6, 2.0]])
BEFORE, AFTER = Standing(0, OLD, MOMENTS / 2), Standing(1, NEW, MOMENTS)


def step_of(model: F32, moments: F64 = MOMENTS) -> tuple[Step, RoundClaim]:
    """The proof of an outcome, and the claim of it."""
    zero = bytes(32)
    claim = RoundClaim(
        round=0,
        previous=zero,
        statement=zero,
        sums=(),
        state=state_digest(moments),
        model=model_digest(model),
    )
    return Step(moments=b"", totals=(), sums=b"", model=model.tobytes(), after=moments.tobytes()), claim


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(("units", "expected"), [(1, True), (LAST_BITS, True), (LAST_BITS + 1, False)])
def test_last_bits_are_units_of_the_larger_of_the_two_models(at: int, units: int, expected: bool) -> None:
    claimed = NEW.copy()
    claimed[at] += units * np.spacing(max(abs(OLD[at]), abs(NEW[at])))
    assert is_rounding(*step_of(claimed), BEFORE, AFTER) is expected


@pytest.mark.parametrize(("by", "expected"), [(1e-16, True), (1e-13, True), (1e-11, False), (1e-3, False)])
def test_moments_round_too_though_the_model_is_the_same(by: float, expected: bool) -> None:
    """In single precision most parameters hide the last bit of a moment."""
    claimed = MOMENTS.copy()
    claimed[0, 0] += by
    assert is_rounding(*step_of(NEW, claimed), BEFORE, AFTER) is expected


def test_a_rounding_of_the_model_hides_no_lie_about_the_moments() -> None:
    near = np.nextafter(NEW, np.float32(2e6))
    assert is_rounding(*step_of(near), BEFORE, AFTER)
    assert not is_rounding(*step_of(near, 2 * MOMENTS), BEFORE, AFTER)


def test_what_is_proven_must_be_what_is_claimed() -> None:
    near = np.nextafter(NEW, np.float32(2e6))
    step, claim = step_of(near)
    for other in (step_of(near + 1)[1], step_of(near, MOMENTS + 1e-12)[1]):
        assert not is_rounding(step, other, BEFORE, AFTER)
    assert not is_rounding(step_of(near[:-1])[0], claim, BEFORE, AFTER)
    empty = Step(moments=b"", totals=(), sums=b"", model=b"", after=b"")
    assert not is_rounding(empty, claim, BEFORE, AFTER)


def test_optimisers_without_moments_have_none_to_compare() -> None:
    none = np.zeros((0, 4))
    near = np.nextafter(NEW, np.float32(2e6))
    before, after = Standing(0, OLD, none), Standing(1, NEW, none)
    assert is_rounding(*step_of(near, none), before, after)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_no_rounding(value: float) -> None:
    claimed = NEW.copy()
    claimed[2] = value
    assert not is_rounding(*step_of(claimed), BEFORE, AFTER)
