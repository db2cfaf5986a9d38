"""Epsilon 0.1 to 30, d from 1e3 to 1e8, 1 to 1e5 releases, both units and accountants: asked is spent.

672 points, in some minutes; the default suite has a few of them (``tests/unit/privacy/test_surface.py``).
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Literal

import pytest

from securefl.methods.privacy.composition import Accountant
from tests.unit.privacy.surface import Ask, assert_as_asked

EPSILONS = (0.1, 0.3, 1.0, 3.0, 8.0, 16.0, 30.0)
LENGTHS = (1000, 25_450, 800_000, 10**8)
RELEASES = (1, 10, 100, 1500, 10**4, 10**5)


@pytest.mark.paper
@pytest.mark.parametrize("unit", ["party", "record"])
@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_what_is_asked_for_is_spent_or_refused_with_what_to_change(
    unit: Literal["party", "record"], accountant: Accountant
) -> None:
    found = Counter(
        assert_as_asked(Ask(unit, asked, length, releases, accountant))
        for asked, length, releases in product(EPSILONS, LENGTHS, RELEASES)
    )
    assert found["spent"] >= 80, "of 168: rounding takes more noise than tables have in the others"
