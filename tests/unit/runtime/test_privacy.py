"""Before a run: the launcher settles the privacy of all, and each party checks it for itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from securefl.errors import ConfigError
from securefl.privacy.settling import settle
from securefl.rounds.plan import Plan
from securefl.runtime.privacy import check_own_privacy
from tests.unit.privacy.scenarios import LENGTH, PARTY, RECORDS, private
from tests.unit.rounds.samples import plan_of


def plan(*overrides: str) -> Plan:
    return plan_of(settle(private(*overrides), LENGTH, RECORDS), LENGTH)


def test_a_party_with_fewer_records_than_everybody_reckons_with_refuses() -> None:
    for records, fine in ((RECORDS + 50, True), (RECORDS, True), (RECORDS - 1, False)):
        if fine:
            check_own_privacy(plan(), records, trusted=True)
            continue
        with pytest.raises(ConfigError, match=rf"^privacy\.records: this party has {RECORDS - 1} records"):
            check_own_privacy(plan(), records, trusted=True)


def test_a_party_does_not_believe_a_budget_that_the_noise_does_not_keep() -> None:
    honest = plan(*PARTY, "privacy.multiplier=2", "privacy.budget=2")
    check_own_privacy(honest, 1, trusted=False)
    privacy = honest.scenario.privacy
    forged = with_fields(honest.scenario, privacy=with_fields(privacy, multiplier=1.0))
    lying = replace(honest, scenario=forged)
    with pytest.raises(ConfigError, match=r"^privacy\.releases: .* more than the budget of 2"):
        check_own_privacy(lying, 1, trusted=False)
    check_own_privacy(lying, 1, trusted=True)


def test_nothing_to_check_without_privacy() -> None:
    check_own_privacy(plan_of(private("privacy.unit=none", "privacy.multiplier=")), 1, trusted=False)
