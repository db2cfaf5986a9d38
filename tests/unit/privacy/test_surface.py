"""What is asked for is what is spent, coarsely; more points are in ``tests/statistics/test_surface.py``."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import scenarios
from securefl.base.errors import ConfigError
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.composition import Accountant
from securefl.methods.privacy.mechanism import mechanism_of
from securefl.methods.privacy.settling import settle
from securefl.scenario.load import load_scenario
from securefl.scenario.scenario import Scenario
from tests.tiers import covering
from tests.unit.privacy.scenarios import private
from tests.unit.privacy.surface import Ask, assert_as_asked

ACCOUNTANTS: tuple[Accountant, ...] = ("pld", "rdp")
DESK = Path(scenarios.__file__).parent / "papers" / "dp" / "_desk.toml"
D = 25_450
"""Parameters of the DP figures' network."""


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_party_level(accountant: Accountant) -> None:
    found = [
        assert_as_asked(Ask("party", asked, length, releases, accountant))
        for asked, length, releases in product((0.1, 8.0, 30.0), (1000, 800_000, 10**8), (1, 10**5))
    ]
    assert found.count("spent") >= 7
    assert found.count("refused") >= 7, "no table holds so much noise"


@pytest.mark.parametrize(
    ("case", "accountant"), covering([(0.1, 1000, 100), (8.0, 10**8, 1), (30.0, 10**8, 10**5)], ACCOUNTANTS)
)
def test_record_level(case: tuple[float, int, int], accountant: Accountant) -> None:
    asked, length, releases = case
    assert assert_as_asked(Ask("record", asked, length, releases, accountant)) == "spent"


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize(("asked", "length"), [(8.0, D), (4.0, 800_000), (8.0, 800_000)])
def test_the_dp_figures_at_large_epsilons(asked: float, length: int, accountant: Accountant) -> None:
    """With 63 bits and the default accountant: aborted at 8, and at d = 8e5 at 4, or 3.24 spent of 8."""
    plain = load_scenario(DESK, (f"privacy.epsilon={asked}", f"privacy.accountant={accountant}"))
    scenario = settle(plain, length, 2999)
    mechanism = mechanism_of(scenario, length)
    assert mechanism is not None
    spent = epsilon((mechanism.event.times(1500),), mechanism.delta, accountant)
    assert 0.99 * asked <= spent <= asked
    assert scenario.privacy.releases == 1500


def multiplier(scenario: Scenario, length: int, fewest: int) -> float | None:
    return settle(scenario, length, fewest).privacy.multiplier


@pytest.mark.parametrize(
    ("asked", "rounds", "accountant", "before"),
    [
        (0.125, 375, "rdp", "0x1.39210e79d92efp+1"),
        (0.125, 1500, "rdp", "0x1.2776e8518251ap+2"),
        (0.5, 375, "rdp", "0x1.2e4da4a7989b8p+0"),
        (2.0, 375, "rdp", "0x1.6b6cc8539a8cep-1"),
        (2.0, 1500, "pld", "0x1.752c48db39addp-1"),
    ],
)
def test_multipliers_of_committed_figures_stay_what_they_are(
    asked: float, rounds: int, accountant: str, before: str
) -> None:
    sets = (f"privacy.epsilon={asked}", f"stop.rounds={rounds}", f"privacy.accountant={accountant}")
    assert multiplier(load_scenario(DESK, sets), D, 2999) == float.fromhex(before)


def test_the_largest_epsilon_is_named_where_the_distance_from_the_law_counts_all_the_same() -> None:
    sets = ("privacy.multiplier=", "privacy.delta=1e-11", "stop.rounds=100000", "encoding.scale_bits=16")
    with pytest.raises(ConfigError, match=r"^privacy\.epsilon: .*delta = 1e-11") as bad:
        settle(private(*sets, "privacy.epsilon=30"), 10**8, 3000)
    assert re.fullmatch(r"set at most 1\d\.\d+, or fewer stop\.rounds", bad.value.remedy)


def test_noise_that_no_scale_has_is_refused_with_the_epsilon_that_fits() -> None:
    """It named an encoding.scale_bits, of which none would have done."""
    with pytest.raises(ConfigError, match=r"privacy\.epsilon: 0.1 over 100 releases") as refused:
        settle(Ask("party", 0.1, 800_000, 100, "pld").scenario(12), 800_000, 3000)
    assert refused.value.remedy.startswith("set at least ")
