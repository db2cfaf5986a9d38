"""What verified rounds go with, the odds of their committees, and what the header says of them."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.clustering.committee import (
    ACCEPTED,
    attests_needed,
    committee_failure,
    committee_of,
    committee_size,
    failure_of,
)
from securefl.methods.feasibility.limits import check, largest_sum
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario
from tests.unit.scenario.samples import header_of

BASE = """
name = "verified"
parties = 12
[clustering]
size = 4
[secure_sum]
server = "active"
verify = "committee"
threshold = 3
min_survivors = 3
colluders = 2
colluders_per_cluster = 1
[stop]
rounds = 3
"""


def made(*overrides: str) -> Scenario:
    return parse_scenario(BASE, overrides)


def test_a_feasible_one_says_who_repeats_what() -> None:
    lines = " ".join(header_of(made()))
    assert "rounds verified: 4 members repeat an opening, a committee of 5 the step" in lines
    assert "2 of a cluster and 3 for the step must attest" in lines
    assert "colluders suffice to attest a model of the server's choice never" in lines
    assert "left to the server: whether a round counts" in lines
    assert "rounds verified" not in " ".join(header_of(made("secure_sum.verify=off")))


@pytest.mark.parametrize(
    ("overrides", "field", "reason"),
    [
        (("secure_sum.server=curious",), "secure_sum.verify", "which a curious"),
        (
            ("secure_sum.colluders_per_cluster=0",),
            "secure_sum.colluders_per_cluster",
            "each would learn the other's update",
        ),
        (
            ("leakage.colluders=0", "secure_sum.colluders_per_cluster=0"),
            "secure_sum.colluders_per_cluster",
            "each would learn",
        ),
        (("leakage.colluders=0",), "leakage.colluders", "each would learn"),
        (("aggregation.rule={type='fltrust'}", "data.server_fraction=0.1"), "secure_sum.verify", "own data"),
        (("secure_sum.kind=plain",), "secure_sum.verify", "plain sums have no proofs"),
    ],
)
def test_what_it_does_not_go_with(overrides: tuple[str, ...], field: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        check(made(*overrides))
    assert str(caught.value).startswith(f"{field}: ")


def test_a_committee_follows_from_the_seed_and_the_participants() -> None:
    names = [PartyId(f"p{i:02d}") for i in range(12)]
    drawn = [committee_of(made(), bytes([n]) * 32, names) for n in range(200)]
    assert all(len(set(one)) == 5 == len(one) and list(one) == sorted(one) for one in drawn)
    assert committee_of(made(), bytes(32), list(reversed(names))) == committee_of(made(), bytes(32), names)
    counts = [sum(name in one for one in drawn) for name in names]
    # 200 x 5 / 12 = 83; a binomial of 200 trials at 5/12 leaves 50 to 117 with probability 1e-6 for each.
    assert min(counts) > 50
    assert max(counts) < 117
    assert committee_of(made("secure_sum.verify=all"), bytes(32), names) == tuple(names)


@pytest.mark.parametrize(("parties", "colluders", "size"), [(12, 2, 3), (12, 3, 3), (14, 3, 5), (10, 4, 5)])
def test_odds_are_those_of_all_draws(parties: int, colluders: int, size: int) -> None:
    present = (parties + colluders) // 2 + 1
    draws = list(combinations(range(present), size))
    bad = sum(sum(seat < colluders for seat in seats) > size // 2 for seats in draws) / len(draws)
    assert failure_of(present, colluders, size, 3) == pytest.approx(1 - (1 - bad) ** 3)
    assert attests_needed(made(f"parties={parties}"), size) == size // 2 + 1


@pytest.mark.parametrize(("parties", "colluders"), [(60, 6), (60, 12), (200, 20), (1000, 100), (9000, 900)])
def test_the_committee_is_as_small_as_the_odds_allow(parties: int, colluders: int) -> None:
    plan = made(f"parties={parties}", f"secure_sum.colluders={colluders}", "stop.rounds=50")
    size = committee_size(plan)
    assert committee_failure(plan) <= ACCEPTED
    assert failure_of((parties + colluders) // 2 + 1, colluders, size - 2, 3 * 50) > ACCEPTED
    assert size <= 2 * colluders + 1


def test_with_everybody_colluders_are_never_enough() -> None:
    plan = made("secure_sum.verify=all")
    assert committee_failure(plan) == 0.0
    assert attests_needed(plan, 12) == (12 + 2) // 2 + 1


def test_the_largest_sum_is_what_the_ring_is_chosen_for() -> None:
    plan = made()
    assert largest_sum(plan, 4) == 4 * 256 * 2**16 < 2 ** (check(plan).ring_bits - 1)
    noisy = made("privacy.unit=party", "privacy.multiplier=1.0", "privacy.delta=1e-3", "encoding.clip=1.0")
    assert largest_sum(noisy, 1) > largest_sum(plan, 1)
    assert math.log2(largest_sum(noisy, 4)) < check(noisy).ring_bits - 1


def test_an_active_server_is_verified_unless_the_scenario_says_otherwise() -> None:
    left_open = BASE.replace('verify = "committee"\n', "")
    assert parse_scenario(left_open).secure_sum.verification == "committee"
    curious = parse_scenario(left_open, ("secure_sum.server=curious",))
    assert curious.secure_sum.verification == "off"
    check(curious)
    assert "ROUNDS ARE NOT VERIFIED: the server can choose the model" in " ".join(
        header_of(made("secure_sum.verify=off"))
    )
    assert "NOT VERIFIED" not in " ".join(header_of(curious))
    with pytest.raises(
        ConfigError, match="is 0, but members verify the sum of their cluster: of two survivors"
    ):
        check(parse_scenario(left_open, ("secure_sum.colluders_per_cluster=0",)))


def test_the_header_says_which_rules_leave_the_model_to_colluders() -> None:
    mean, median = (
        " ".join(header_of(made(f"aggregation.rule={{type='{rule}'}}"))) for rule in ("mean", "median")
    )
    assert "SERVER AND 1 COLLUDER CAN CHOOSE THE MODEL: mean tolerates 0 of 3 clusters" in mean
    assert "SERVER AND 2 COLLUDERS CAN CHOOSE THE MODEL: median tolerates 1 of 3 clusters" in median
    enough = " ".join(header_of(made("secure_sum.colluders=1", "aggregation.rule={type='median'}")))
    assert "CHOOSE THE MODEL" not in enough


def test_a_rule_of_ones_own_counts_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
import numpy as np
from securefl import AggregationResult, Rule

class First(Rule, frozen=True, kw_only=True):
    def withstands(self, clusters):
        return 0

    def aggregate(self, stack):
        return AggregationResult(stack.means[0], np.ones(stack.clusters, dtype=bool))
"""
    file = tmp_path / "mine_verified.py"
    file.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = "aggregation.rule={type='mine_verified:First'}"
    one, off = check(made(own)).own_rules, check(made(own, "secure_sum.verify=off")).own_rules
    assert len(one) == 32
    assert off == check(made()).own_rules == b""
    file.write_text(source.replace("means[0]", "means[1]"))
    assert check(made(own)).own_rules not in {one, b""}
