"""Plans of verified rounds: who verifies, what that costs, and what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.lab.planning.demand import PlanRequest
from securefl.lab.planning.drafting import draft
from securefl.lab.planning.row import Burden, verifier_seconds
from securefl.lab.planning.search import Plan, plan
from securefl.lab.planning.tables import lines_of
from securefl.methods.clustering.committee import committee_size
from securefl.methods.feasibility.proofs import proofs_of
from securefl.runtime.report.header import run_header
from tests.unit.cli.programs import call, refusal

DEMAND = PlanRequest(
    parties=24, colluders=2, size=6, reclusterings=1, atoms=1, rounds=5, server="active", risk=1.0, lost=0.2
)


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(DEMAND, "digits")


def test_an_active_server_is_verified_and_f_is_not_0(found: Plan) -> None:
    """One colluder in a cluster is reckoned with even where the odds do not ask for it."""
    for row in found.rows:
        scenario = draft(found.demand, row.design, "digits")
        assert scenario.secure_sum.verified
        assert row.design.colluders >= 1
        assert row.committee == committee_size(scenario) == 5
    unverified = plan(replace(DEMAND, verify="off"), "digits")
    assert min(row.design.colluders for row in unverified.rows) == 0
    for row in unverified.rows:
        assert (row.verifiers, row.verifier_cpu, row.committee) == (None, None, 0)
        assert row.bytes == row.traffic.total
        lines = run_header(draft(unverified.demand, row.design, "digits")).lines
        assert any(line.startswith("server: ROUNDS ARE NOT VERIFIED") for line in lines)


def test_bytes_of_verifiers_are_those_of_the_budget_and_their_lists(found: Plan) -> None:
    row = found.rows[found.chosen]
    scenario = draft(found.demand, row.design, "digits")
    proofs = proofs_of(scenario, row.ring_bits, DEMAND.parameters)
    assert row.verifiers is not None
    assert 0 < row.verifiers.server - proofs.total < 0.1 * proofs.total
    assert row.verifiers.opening.received > 6 * DEMAND.parameters * row.ring_bits // 8
    assert row.bytes == row.traffic.total + row.verifiers.mean.total


def test_everybody_costs_more_than_a_committee(found: Plan) -> None:
    everybody = plan(replace(DEMAND, verify="all"), "digits")
    ours, theirs = (each.rows[each.chosen] for each in (found, everybody))
    assert theirs.committee == 24
    assert theirs.verifiers is not None
    assert ours.verifiers is not None
    assert theirs.verifiers.server > ours.verifiers.server
    assert theirs.verifiers.step == ours.verifiers.step


def test_what_exceeds_one_message_is_no_plan() -> None:
    large = replace(DEMAND, parameters=30_000_000)
    with pytest.raises(ConfigError, match=r"^secure_sum\.verify: .* with 30,000,000 parameters"):
        plan(replace(large, verify="all"), "digits")
    (line,) = (
        line
        for line in lines_of(large, plan(replace(large, parameters=1_000_000), "digits").rows[0])
        if line.startswith("verified rounds")
    )
    assert "of the 5 that repeat the step" in line
    assert "the server sends verifiers" in line


MEASURED = [(4, 1_000, 1.6), (10, 100_000, 11.6), (10, 1_000_000, 100.0)]
"""`securefl bench verified`: members, words, CPU ms to take and repeat an opening."""


@pytest.mark.parametrize(("members", "words", "milliseconds"), MEASURED)
def test_seconds_of_an_opening_are_near_those_that_were_measured(
    members: int, words: int, milliseconds: float
) -> None:
    burden = Burden(parties=0, parameters=words, word=4, signatures=0, noisy=0)
    found = verifier_seconds(members, 2, burden)
    assert 1000 * found.opening == pytest.approx(milliseconds, rel=0.25)
    assert found.step < verifier_seconds(members, 20, burden).step


def test_the_command_says_it_and_writes_it(tmp_path: Path) -> None:
    few = ("plan", "--parties", "12", "--colluders", "1", "--size", "4", "--atoms", "1", "--rounds", "1")
    active = (*few, "--reclusterings", "1", "--risk", "0.9", "--server", "active", "--out", tmp_path)
    result = call(*active)
    assert result.exit_code == 0, result.stderr
    assert "that repeats the opening of its cluster gets" in result.stdout
    assert 'verify = "committee"' in (tmp_path / "plan.toml").read_text()
    values = json.loads((tmp_path / "plan.json").read_text())
    assert values["rows"][0]["verifiers"]["opening"]["received"] > 0
    simulated = call("simulate", tmp_path / "plan.toml", "--out", tmp_path / "run")
    assert simulated.exit_code == 0, simulated.stdout + simulated.stderr
    assert refusal(call(*active, "--verify", "some", "--force")).startswith(
        "--verify: 'some' is not one of 'off', 'committee', 'all'"
    )
