"""When ``secure_sum.validate`` is refused, and with which words."""

from __future__ import annotations

import pytest

from securefl.config.limits import check
from securefl.config.load import parse_scenario
from securefl.config.validation_limits import test_of as numbers_of
from securefl.errors import ConfigError

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
    text = "\n".join(limits.notes)
    assert "validated sums: norm 2" in text
    assert "would learn 64 projections of each update" in text
    assert "an evaluator that deviates can frame" in text
    assert limits.ring_bits == 64
    test = numbers_of(scenario)
    assert test is not None
    assert (test.norm, test.projections) == (2**17, 64)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('kind = "crypten"', "", "masks cannot be computed with"),
        ("size = 3", "size = 2", "a cluster of 2 cannot check its members"),
        ("size = 3", "size = 3\nreclusterings = 2", "as many sketches"),
        ('mode = "ignore"', 'mode = "passthrough"', "a party of weight w"),
        ("clip = 1.8", "clip = 1.9", "clipped to 1.9, and only up to 0.9 x 2"),
        ("clip = 1.8", "", "are not clipped"),
        ("clip = 1.8", "clip = 1.8\nring_bits = 32", "ring of 64 bits"),
        ("clip = 1.8", "clip = 1.8\nscale_bits = 30", "fewer bits after the point"),
        ("norm = 2.0", "norm = 2.0, projections = 32", "take more projections"),
        ("norm = 2.0", "norm = 2.0, projections = 60", "projections"),
        ('kind = "crypten"', 'kind = "crypten"\nmask_source = "crypten-insecure"', "give checks away"),
    ],
)
def test_refusals(old: str, new: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        check(parse_scenario(GOOD.replace(old, new)))
    assert "secure_sum" in error.value.path
