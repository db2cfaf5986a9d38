"""From an epsilon to the numbers that all parties sign, and the check that each makes of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.mechanism import mechanism_of
from securefl.methods.privacy.settling import check_budget, fit_scale, settle
from securefl.methods.privacy.table import MAX_STD
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import to_toml
from tests.unit.privacy.scenarios import LENGTH, PARTY, RECORDS, private

SPENT = ("privacy.multiplier=", "privacy.epsilon=2")


def test_an_epsilon_becomes_the_least_noise_that_keeps_it() -> None:
    scenario = settle(private(*SPENT, "privacy.accountant=rdp"), LENGTH, RECORDS)
    privacy = scenario.privacy
    assert privacy.settled
    assert (privacy.epsilon, privacy.budget, privacy.releases, privacy.records) == (None, 2.0, 20, RECORDS)
    assert privacy.delta == pytest.approx(RECORDS**-1.1)
    mechanism = mechanism_of(scenario, LENGTH)
    assert mechanism is not None
    assert 1.99 < epsilon((mechanism.event.times(20),), mechanism.delta, "rdp") <= 2.0
    assert epsilon((mechanism.event.times(20),), mechanism.delta) < 1.8, "by the tighter bound"


def test_all_parties_check_what_somebody_settled() -> None:
    scenario = settle(private(*PARTY, *SPENT), LENGTH, None)
    privacy = scenario.privacy
    assert privacy.settled
    assert (privacy.budget, privacy.releases, privacy.records) == (2.0, 20, None)
    assert privacy.delta == pytest.approx(12**-1.1)
    mechanism = mechanism_of(scenario, LENGTH)
    assert mechanism is not None
    assert 1.99 < epsilon((mechanism.event.times(20),), mechanism.delta) <= 2.0
    check(scenario)
    check_budget(scenario, LENGTH)
    assert settle(scenario, LENGTH, RECORDS) == scenario
    assert parse_scenario(to_toml(scenario)) == scenario
    # A party that is told of less noise does not believe it.
    less = replace(scenario, privacy=replace(privacy, multiplier=0.9 * (privacy.multiplier or 0)))
    with pytest.raises(ConfigError, match=r"^privacy\.releases: 20 releases .* more than the budget of 2"):
        check_budget(less, LENGTH)
    # Nor that more releases keep to it.
    more = replace(scenario, privacy=replace(privacy, releases=22))
    with pytest.raises(ConfigError, match="22 releases"):
        check_budget(more, LENGTH)


def test_a_smaller_budget_lasts_for_some_releases_and_for_no_more() -> None:
    party = private(*PARTY, "privacy.multiplier=2", "privacy.budget=2")
    scenario = settle(party, LENGTH, None)
    mechanism, releases = mechanism_of(scenario, LENGTH), scenario.privacy.releases
    assert mechanism is not None
    assert releases is not None
    assert 1 < releases < 20
    assert epsilon((mechanism.event.times(releases),), mechanism.delta) <= 2
    assert epsilon((mechanism.event.times(releases + 1),), mechanism.delta) > 2
    with pytest.raises(ConfigError, match=r"^privacy\.budget: one release spends"):
        settle(private(*PARTY, "privacy.multiplier=0.5", "privacy.budget=0.5"), LENGTH, None)


def test_what_does_not_fit_the_data_is_refused() -> None:
    for overrides, fewest, path, reason in (
        ((), 15, "training.batch_size", "is 16, more than "),
        ((), None, "privacy.records", "the number of records of the parties is unknown"),
        (("privacy.records=120",), 119, "privacy.records", "is 120, but a party has only 119 records"),
        (("privacy.delta=0.01",), 119, "privacy.delta", "must be below 1 / 119 records"),
        (("privacy.delta=1e-13",), 119, "privacy.delta", "too small"),
    ):
        with pytest.raises(ConfigError) as caught:
            settle(private(*overrides), LENGTH, fewest)
        assert caught.value.path == path
        assert reason in caught.value.reason
    assert settle(private("privacy.records=100"), LENGTH, 119).privacy.records == 100


def test_nothing_to_settle() -> None:
    plain = private("privacy.unit=none", "privacy.multiplier=")
    assert settle(plain, LENGTH, 1) is plain
    check_budget(plain, LENGTH)
    unlimited = settle(private(), LENGTH, RECORDS)
    assert unlimited.privacy.releases is None
    check_budget(unlimited, LENGTH)


@pytest.mark.parametrize("epsilon", ["0.5", "2", "20"])
@pytest.mark.parametrize("bits", [0, 16, 24])
def test_a_scale_is_fitted_to_the_noise(epsilon: str, bits: int) -> None:
    """Whatever scale the file has: one step finer exceeds a quarter of the tables."""
    scenario = private(
        *PARTY, "privacy.multiplier=", f"privacy.epsilon={epsilon}", f"encoding.scale_bits={bits}"
    )
    fitted = fit_scale(scenario, LENGTH)
    mechanism = mechanism_of(settle(fitted, LENGTH, None), LENGTH)
    assert mechanism is not None
    assert MAX_STD / 8.1 <= mechanism.shares.share_std <= MAX_STD / 4
    assert replace(fitted, encoding=scenario.encoding) == scenario
    with pytest.raises(ConfigError, match=r"noise tables end at .* \((set at least|use fewer)"):
        fit_scale(scenario, 10**9)
