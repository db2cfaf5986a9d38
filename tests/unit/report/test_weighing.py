"""What a run says of declared counts: where they were cut, and what the largest one weighed."""

from __future__ import annotations

import json

import pytest

from securefl.base.ids import PartyId
from securefl.runtime.report.weighing import Weighing, weighing, weighing_lines

A, B, C, AWAY = (PartyId(name) for name in ("a", "b", "c", "x"))
COUNTS = {A: 30, B: 10_000_000, C: 10, AWAY: 10**9}


def test_by_hand() -> None:
    """Capped at 40: 30, 40 and 10 of 80; who was not drawn does not count."""
    found = weighing(COUNTS, {A, B, C}, 40)
    assert found == Weighing(40, 3, 1, B, 10_000_000, 0.5)
    assert list(weighing_lines(found)) == [
        "sample counts were truncated at 40: 1 of 3 parties declared more",
        "b declared the largest count, 10,000,000 samples, and had 50.0 % of the weight",
    ]


def test_counts_that_are_believed() -> None:
    found = weighing(COUNTS, {A, B, C}, 10_000_000)
    assert found is not None
    assert found.truncated == 0
    assert found.share == pytest.approx(1.0, abs=1e-5)
    assert next(weighing_lines(found)) == "no sample count was truncated: the largest allowed is 10,000,000"


def test_nothing_is_said_where_all_weigh_the_same() -> None:
    assert weighing(COUNTS, {A, B}, None) is None
    assert weighing(COUNTS, (), 40) is None
    assert list(weighing_lines(None)) == []


def test_rows_hold_it() -> None:
    found = weighing(COUNTS, {A, C}, 20)
    assert found is not None
    again = Weighing.from_json(json.loads(json.dumps(found.to_json())))
    assert (again.most, again.declared, again.truncated, again.cap) == (A, 30, 1, 20)
    assert again.share == pytest.approx(2 / 3, abs=1e-6)
