"""Before a run: the launcher settles the privacy of all, and each party checks it for itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from securefl.base.errors import ConfigError
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.settling import settle
from securefl.protocol.round.shared.plan import RunPlan
from securefl.runtime.process.privacy import check_own_privacy, own_releases
from tests.unit.privacy.scenarios import LENGTH, PARTY, RECORDS, private
from tests.unit.round.samples import plan_of


def plan(*overrides: str) -> RunPlan:
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


def test_an_own_budget_counts_earlier_runs_and_is_kept_to() -> None:
    """The number of releases is the largest whose epsilon, with what is spent, is within the budget."""
    made = plan(*PARTY, "privacy.multiplier=2", "privacy.budget=20", "stop.rounds=8")
    mechanism = made.mechanism
    assert mechanism is not None

    def after(releases: int) -> float:
        assert mechanism is not None
        return epsilon((mechanism.event.times(releases),), mechanism.delta)

    assert own_releases(made, None, 0.0) is None
    budget, spent = after(3) + 1.5, 1.4
    assert own_releases(made, budget, spent) == 3
    assert own_releases(made, budget, 0.0) == max(n for n in range(1, 9) if after(n) <= budget)
    assert own_releases(made, None, 20 - after(2) - 1e-6) == 2
    assert own_releases(made, 1e9, 0.0) == 8, "no more than the run has"


@pytest.mark.parametrize(
    ("overrides", "budget", "spent", "message"),
    [
        ((), 1.0, 1.0, r"^--budget: epsilon 1 of 1 is spent"),
        ((), None, 3.0, r"^--spent: epsilon 3 of 2 is spent"),
        ((), float("nan"), 0.0, r"^--budget: epsilon 0 of nan is spent"),
        ((), 0.01, 0.0, r"^--budget: one release spends .* more than 0\.01"),
        (("privacy.budget=",), None, 1.0, r"the scenario has no privacy\.budget to count against"),
    ],
)
def test_an_own_budget_that_does_not_last_for_a_round_is_refused(
    overrides: tuple[str, ...], budget: float | None, spent: float, message: str
) -> None:
    made = plan(*PARTY, "privacy.multiplier=2", "privacy.budget=2", *overrides)
    with pytest.raises(ConfigError, match=message):
        own_releases(made, budget, spent)


def test_without_privacy_there_is_no_own_budget_to_keep() -> None:
    public = plan_of(private("privacy.unit=none", "privacy.multiplier="))
    assert own_releases(public, None, 0.0) is None
    with pytest.raises(ConfigError, match=r"^--budget: .*\[privacy\]"):
        own_releases(public, 1.0, 0.0)
