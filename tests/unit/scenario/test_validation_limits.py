"""When ``secure_sum.validate`` is refused, and with which words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.methods.encoding.fixed_point import FixedPoint, clip_l2
from securefl.methods.feasibility.limits import check
from securefl.methods.feasibility.validation import norm_test_of
from securefl.methods.privacy.norm_check import HONEST_SHARE
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario
from tests.unit.scenario.samples import header_of

GOOD = """
name = "validated"
parties = 12
[clustering]
size = 3
[secure_sum]
kind = "crypten"
threshold = 2
min_survivors = 2
validate = { norm = 2.0 }
[weighting]
mode = "ignore"
[encoding]
clip = 1.8
[stop]
rounds = 2
"""


def test_a_good_one_says_what_it_does_and_what_not() -> None:
    scenario = parse_scenario(GOOD)
    limits = check(scenario)
    text = "\n".join(header_of(scenario))
    assert "norm limit 2: 0.9 of it is refused with probability" in text
    assert "2 times it is accepted with" in text
    assert "learns 64 projections of each update" in text
    assert "a deviating evaluator frames, admits, spoils" in text
    # 12 parties, 2 rounds.
    assert "or reveals 24 bits in the run at most" in text
    assert limits.ring_bits == 64
    test = norm_test_of(scenario)
    assert test is not None
    # 2 x 2^16, and for rounding 2^13 steps (of 2^26 coordinates) over 0.9.
    assert (test.norm, test.projections) == (2**17 + 9_103, 64)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('kind = "crypten"', "", "needs CrypTen sums"),
        ("size = 3", "size = 2", "a cluster of 2 is too small"),
        ("parties = 12\n[clustering]\nsize = 3", "parties = 75\n[clustering]\nsize = 75", "too large"),
        (
            "size = 3",
            "size = 3\nreclusterings = 2",
            "an attacker could try to pass a check in each of 2 reclusterings",
        ),
        ("clip = 1.8", "clip = 1.9", "clipped to 1.9, but validation may reject norms above 0.9 x 2"),
        ("clip = 1.8", "", "are not clipped"),
        ("clip = 1.8", "clip = 1.8\nring_bits = 32", r"validation needs encoding\.ring_bits = 64"),
        ("clip = 1.8", "clip = 1.8\nscale_bits = 30", "fewer bits after the point"),
        ("norm = 2.0", "norm = 2.0, projections = 32", "take more projections"),
        ("norm = 2.0", "norm = 2.0, projections = 60", "projections"),
    ],
)
def test_refusals(old: str, new: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        check(parse_scenario(GOOD.replace(old, new)))
    assert "secure_sum" in error.value.path


def weighted(mode: str) -> Scenario:
    return parse_scenario(GOOD.replace('mode = "ignore"', mode))


@pytest.mark.parametrize("mode", ['mode = "truncate"\ncap = 50', 'mode = "passthrough"'])
def test_with_weights_the_bound_goes_by_them(mode: str) -> None:
    text = "\n".join(header_of(weighted(mode)))
    assert "norm limit 2 x weight" in text


@pytest.mark.parametrize(
    ("weight", "length", "norm"),
    [(1.0, 1, 2**17 + 2), (1.0, 100, 2**17 + 12), (0.25, 100, 2**15 + 12), (1e-9, 101, 1 + 13)],
)
def test_bounds_by_weight(weight: float, length: int, norm: int) -> None:
    """Rounding takes at most sqrt(d) steps, whatever the weight; /0.9, as honest vectors stay below 0.9 C."""
    test = norm_test_of(weighted('mode = "passthrough"'), weight, length)
    assert test is not None
    assert test.norm == norm


@given(st.integers(1, 2**31), st.integers(1, 2**31), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_no_rounding_takes_an_honest_update_beyond_nine_tenths_of_its_bound(
    count: int, cap: int, length: int, seed: int
) -> None:
    """The part of C for which the test states how often it is refused, also where nearly all is rounding."""
    scenario = weighted('mode = "passthrough"')
    weight = min(count, cap) / cap
    direction = np.random.default_rng(seed).normal(size=length)
    update = clip_l2(direction, 1.8)
    encoded = FixedPoint(scenario.encoding.scale_bits, 64.0).encode(
        update * weight, InsecureSeededEntropy(seed)
    )
    test = norm_test_of(scenario, weight, length)
    assert test is not None
    assert sum(int(v) ** 2 for v in encoded.values) <= (HONEST_SHARE * test.norm) ** 2
