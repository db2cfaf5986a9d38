"""Rows keep the demands, none beats another, and refusals say what to relax."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from securefl.base.errors import ConfigError
from securefl.lab.planning.candidates import designs
from securefl.lab.planning.demand import PlanRequest, check_demand
from securefl.lab.planning.drafting import DATA, draft, model_of
from securefl.lab.planning.search import Plan, merits, plan
from securefl.methods.feasibility.limits import check
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import to_toml
from tests.looped import looped

DEMAND = PlanRequest(parties=40, colluders=2, byzantine=0.05, dropout=0.02, rounds=10)
ACTIVE = replace(DEMAND, server="active", lost=0.2, dropout=0.005)


ATOMS = replace(DEMAND, atoms=4, dropout=0.005, lost=0.1)


@pytest.fixture(scope="module", params=[DEMAND, ACTIVE, ATOMS], ids=["curious", "active", "atoms"])
def found(request: pytest.FixtureRequest) -> Plan:
    demand: PlanRequest = request.param
    return plan(replace(demand, reclusterings=2), "digits")


def test_every_row_keeps_the_demands(found: Plan) -> None:
    demand = found.demand
    assert found.rows
    for row in found.rows:
        assert row.p_clean >= demand.clean
        assert row.p_lost <= demand.lost
        assert row.p_alone <= row.p_exceeded <= demand.risk
        assert row.p_cascade is not None
        assert row.p_cascade <= row.p_lost + 0.05
        assert row.exposed == 0
        assert row.admitted == row.design.shape.openings
        assert row.design.honest >= demand.k


def test_a_plan_does_not_hand_everybody_to_the_declared_colluders() -> None:
    """Below R* as well: 5 reclusterings of (200, 5) would expose 195 parties to 5 colluders."""
    found = plan(PlanRequest(parties=200, colluders=5, size=5, reclusterings=5, rounds=5), "digits")
    assert found.rows[found.chosen].exposed == 0
    assert all(row.exposed == 0 for row in found.rows)


def test_no_row_beats_another(found: Plan) -> None:
    for row in found.rows:
        others = [merits(other) for other in found.rows if other is not row]
        assert not any(all(a <= b for a, b in zip(o, merits(row), strict=True)) for o in others)


def test_every_row_is_a_scenario_that_the_loader_accepts_and_agrees_with(found: Plan) -> None:
    for row in found.rows:
        scenario = draft(found.demand, row.design, "digits")
        limits = check(parse_scenario(to_toml(scenario)))
        assert limits.clusters == row.clusters
        assert limits.ring_bits == row.ring_bits
        assert limits.breakdown == row.withstood
        assert limits.p_alone_in_run == pytest.approx(row.p_alone)
        once = limits.p_rule_holds**row.design.shape.reclusterings
        assert row.p_clean == pytest.approx(once, abs=0.0 if row.design.shape.atoms == 1 else 0.05)


@looped("data, parameters", product(sorted(DATA), [10, 650, 700, 4_810, 10_000, 25_450, 1_000_000]))
def test_the_model_is_as_large_as_asked_for(parameters: int, data: str) -> None:
    shape = DATA[data]
    _, found = model_of(shape, parameters)
    smallest = min((shape.inputs + 1) * shape.classes, shape.inputs + 2 * shape.classes + 1)
    assert found == smallest or abs(found - parameters) <= (shape.inputs + shape.classes + 1)


@looped(
    "changed, said",
    [
        (
            {"parties": 2},
            r"--parties: 2 parties cannot hide updates: .* \(plan for at least 3",
        ),
        ({"parties": 1}, r"--parties: 1 parties cannot .*at least 3"),
        (
            {"parties": 10**6},
            r"--parties: 1000000 is above the limit of 1000 parties",
        ),
        ({"reclusterings": 0}, r"--reclusterings: 0 is out of range \(give 1 to 64\)"),
        ({"k": 39}, r"--k: is 39, but only 38 of 40 parties are honest \(q = 2 collude\) \(give at most 38,"),
        ({"k": 1}, r"--k: k = 1 allows sums that reveal the update of a single party"),
        ({"colluders": 40}, r"--colluders: 40 of 40 parties collude: no party is left to protect"),
        ({"byzantine": 0.5}, r"--byzantine: 20 of 40 parties are Byzantine"),
        ({"byzantine": 0.3, "case": "worst"}, r"--byzantine: no rule has an honest majority .* 12 of 40"),
        ({"byzantine": float("nan")}, r"--byzantine: nan is out of range"),
        ({"dropout": 1.0}, r"--dropout: 1 is out of range"),
        ({"lost": 0.0}, r"--lost: 0 is out of range"),
        ({"epsilon": 0.0}, r"--epsilon: epsilon = 0"),
        ({"size": 41}, r"--size: 41 is out of range"),
        (
            {"atoms": 7},
            r"--atoms: 40 parties do not divide into atoms of 7 \(give one of 2, 4, 5, 8, 10, 20, or 1",
        ),
        ({"atoms": 2, "k": 3}, r"--atoms: an atom of 2 has fewer than k = 3"),
        ({"size": 2, "k": 3}, r"--size: clusters of 2 have fewer than k = 3"),
        ({"records": 5, "batch": 6}, r"--batch: 6 is out of range \(give 1 to 5\)"),
    ],
)
def test_what_no_plan_can_give_is_refused_in_one_line(changed: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_demand(replace(DEMAND, **changed))  # type: ignore[arg-type]  # any wrong value
    assert re.match(said, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"dropout": 0.3}, "--lost"),
        ({"colluders": 20, "dropout": 0.0}, "--risk"),
        ({"byzantine": 0.3}, "--clean"),
        ({"k": 30}, "--k"),
        ({"dropout": 0.3, "byzantine": 0.2, "colluders": 8}, "--lost"),
    ],
)
def test_the_refusal_says_what_to_relax_and_that_is_enough(changed: dict[str, float], path: str) -> None:
    demand = replace(DEMAND, **changed)  # type: ignore[arg-type]  # fields by name
    with pytest.raises(ConfigError) as caught:
        plan(demand, "digits")
    assert caught.value.path == path, caught.value
    ways = caught.value.remedy.split("; or ")
    assert ways[-1] == "fewer colluders, liars or dropouts"
    for way in ways[:-1]:
        values = dict(re.findall(r"--(\w+) ([\w.e-]+)", way))
        fields: dict[str, Any] = {
            name: int(value) if name == "k" else value if name == "case" else float(value)
            for name, value in values.items()
        }
        relaxed = replace(demand, **fields)
        assert any(True for _ in designs(relaxed)), way
