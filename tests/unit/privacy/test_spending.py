"""Epsilon by number of releases: quick, and never below what a ledger finds."""

from __future__ import annotations

from functools import cache

import pytest

from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.mechanism import Mechanism, mechanism_of
from securefl.methods.privacy.settling import settle
from securefl.methods.privacy.spending import EXACT_UP_TO, Spending, ledger_of
from tests.unit.privacy.scenarios import LENGTH, PARTY, RECORDS, private


@cache
def mechanism(*overrides: str) -> Mechanism:
    found = mechanism_of(settle(private(*overrides), LENGTH, RECORDS), LENGTH)
    assert found is not None
    return found


def test_never_below_a_ledger_and_hardly_above() -> None:
    spending = Spending(mechanism(), 20)
    for count in (1, 2, 7, 20):
        truth = ledger_of(mechanism(), count).epsilon()
        assert truth <= spending.after(count) <= 1.003 * truth
    assert spending.after(0) == 0.0
    assert spending.after(25) > spending.after(20), "beyond what was planned, too"


def test_many_releases_share_an_epsilon_that_is_that_of_more() -> None:
    event = mechanism(*PARTY, "privacy.multiplier=20", "stop.rounds=300", "encoding.scale_bits=7")
    spending = Spending(event, 300)
    found = [spending.after(count) for count in range(EXACT_UP_TO - 2, 301)]
    assert found == sorted(found)
    assert len(set(found)) < 60
    for count in (EXACT_UP_TO, EXACT_UP_TO + 1, 299):
        truth = ledger_of(event, count).epsilon()
        assert truth <= spending.after(count) <= 1.04 * truth


def test_a_ledger_has_one_event_for_each_release() -> None:
    ledger = ledger_of(mechanism(), 3)
    assert ledger.events == (mechanism().event,) * 3
    assert ledger.delta == mechanism().delta
    assert ledger.epsilon() == pytest.approx(epsilon((mechanism().event.times(3),), ledger.delta), rel=1e-12)
