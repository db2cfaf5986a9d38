"""How many rounds accounts carry at rates of dropouts."""

from __future__ import annotations

import pytest

import securefl
from securefl.protocol.round.shared.account_rounds import (
    DROPOUT_RATES,
    MOST_ROUNDS,
    account_sentences,
    allowed_rounds,
    least_kept,
)
from securefl.protocol.round.shared.reports import RoundDone
from securefl.scenario.scenario import Scenario
from tests.simulation.test_repeated_model import Repeater
from tests.simulation.world import scenario


def sentences(made: Scenario) -> list[str]:
    return [one.whole for one in account_sentences(made)]


def test_dropouts_make_them_fewer() -> None:
    """One dropout is the worst: two sums that differ by one party tell its update."""
    made = scenario(20, size="10", threshold="6", min_survivors="6")
    none, few, many = (allowed_rounds(made, rate) for rate in DROPOUT_RATES)
    assert 1 <= few < many < none < MOST_ROUNDS


@pytest.mark.slow
def test_real_parties_give_shares_in_so_many_rounds() -> None:
    """A server that sends one model again and again, to the machines of a run."""
    run = Repeater()
    run.run()
    rounds = [done.round for done in run.reports(RoundDone) if done.opened]
    assert abs(len(rounds) - allowed_rounds(run.scenario, 0.0)) <= 1


def test_one_line_names_each_rate() -> None:
    (line,) = sentences(scenario(20, size="4"))
    assert line.startswith("accounts allow these rounds without an update before")
    assert all(rate in line for rate in ("at 0 % dropouts", "at 5 % dropouts", "at 20 % dropouts"))
    assert line in securefl.explain(scenario(20, size="4"))


@pytest.mark.parametrize(
    "sets",
    [
        {"clustering__atoms": "2"},
        {"clustering__fixed": "true"},
        {"leakage__mode": "'report'"},
        {"clustering__new_work": "true", "reclusterings": "2"},
    ],
)
def test_nothing_is_said_where_nothing_limits_them(sets: dict[str, str]) -> None:
    assert sentences(scenario(20, size="4", **sets)) == []


def test_of_a_budget_it_says_how_many_releases_are_in_sums() -> None:
    made = scenario(
        20,
        size="4",
        privacy="{unit='party',multiplier=2,releases=10}",
        encoding__clip="1",
        encoding__range="1",
    )
    assert least_kept(made, 0.0) == 1.0
    # Of clusters of four, two or more have to stay: 1 - .2^4 - 4 * .8 * .2^3.
    assert least_kept(made, 0.2) == pytest.approx(0.9728)
    (line,) = sentences(made)
    assert "of 10 releases of each party" in line
    assert "10 at 0 % dropouts" in line
    assert "9.73 at 20 % dropouts" in line
