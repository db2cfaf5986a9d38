"""The border between another rounding of a step and another model."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.protocol.messages.verification import RoundClaim
from securefl.protocol.round.shared.repeating import LAST_BITS, is_rounding
from securefl.protocol.round.shared.statement import model_digest

BEFORE = np.array([1.0, 0.0, -3e-6, 1e6], dtype=np.float32)
AFTER = np.array([1.5, 1e-3, -2e-6, 1e6 + 1], dtype=np.float32)


def claim_of(model: F32) -> RoundClaim:
    zero = bytes(32)
    return RoundClaim(round=0, previous=zero, statement=zero, sums=(), state=zero, model=model_digest(model))


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(("units", "expected"), [(1, True), (LAST_BITS, True), (LAST_BITS + 1, False)])
def test_last_bits_are_units_of_the_larger_of_the_two_models(at: int, units: int, expected: bool) -> None:
    claimed = AFTER.copy()
    claimed[at] += units * np.spacing(max(abs(BEFORE[at]), abs(AFTER[at])))
    assert is_rounding(claimed.tobytes(), claim_of(claimed), BEFORE, AFTER) is expected


def test_the_model_must_be_the_claimed_one() -> None:
    near = np.nextafter(AFTER, np.float32(2e6))
    assert is_rounding(near.tobytes(), claim_of(near), BEFORE, AFTER)
    assert not is_rounding(near.tobytes(), claim_of(near + 1), BEFORE, AFTER)
    assert not is_rounding(near.tobytes()[:-4], claim_of(near[:-1]), BEFORE, AFTER)
    assert not is_rounding(b"", claim_of(near), BEFORE, AFTER)


def test_an_equal_model_may_hide_a_rounding_of_moments() -> None:
    """It is asked for only where the claim differs, so that its moments do."""
    assert is_rounding(AFTER.tobytes(), claim_of(AFTER), BEFORE, AFTER)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_no_rounding(value: float) -> None:
    claimed = AFTER.copy()
    claimed[2] = value
    assert not is_rounding(claimed.tobytes(), claim_of(claimed), BEFORE, AFTER)
