"""``securefl plan``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.programs import call, files, refusal

FEW = (
    "plan",
    "--parties",
    "12",
    "--byzantine",
    "0.05",
    "--dropout",
    "0.01",
    "--lost",
    "0.3",
    "--reclusterings",
    "1",
)


def test_tables_a_scenario_and_a_plot(tmp_path: Path) -> None:
    result = call(*FEW, "--rounds", "1", "--out", tmp_path / "plan")
    assert result.exit_code == 0, result.stderr
    for word in ("what to set", "what comes of it", "recommended", "trimmed-mean", "price per party"):
        assert word in result.stdout
    assert files(tmp_path / "plan") == {"plan.toml", "plan.json", "plan.png"}
    assert (tmp_path / "plan" / "plan.png").read_bytes().startswith(b"\x89PNG")
    simulated = call("simulate", tmp_path / "plan" / "plan.toml", "--out", tmp_path / "run")
    assert simulated.exit_code == 0, simulated.stdout + simulated.stderr


def test_json_and_a_row_of_ones_own(tmp_path: Path) -> None:
    result = call(*FEW, "--json", "--choose", "1", "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    values = json.loads(result.stdout)
    assert values["chosen"] == 0
    assert values["demand"]["parties"] == 12
    row = values["rows"][0]
    assert row["design"]["shape"]["reclusterings"] == 1
    assert 0 <= row["p_lost"] <= 0.3
    assert json.loads((tmp_path / "plan.json").read_text()) == values
    said = refusal(call(*FEW, "--choose", "99", "--out", tmp_path, "--force"))
    assert said.startswith("--choose: the table has no row 99 (choose 1 to ")


@pytest.mark.parametrize(("records", "warned"), [("50", True), ("100", False)])
def test_a_delta_of_few_records_is_warned_of(records: str, warned: bool, tmp_path: Path) -> None:
    few = ("--size", "4", "--parties", "12", "--reclusterings", "1", "--rounds", "2", "--atoms", "1")
    result = call("plan", *few, "--epsilon", "8", "--records", records, "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    for said in (result.stdout, (tmp_path / "plan.toml").read_text()):
        assert ("LARGE DELTA: epsilon may fail with chance 1.35 %" in said) is warned
        assert ("more records of the party with the fewest" in said) is warned


def test_a_smaller_delta_costs_noise_and_is_in_the_scenario(tmp_path: Path) -> None:
    few = ("--size", "4", "--parties", "12", "--reclusterings", "1", "--rounds", "2", "--atoms", "1")
    asked = ("plan", *few, "--epsilon", "8", "--records", "50", "--json", "--out", tmp_path, "--force")
    noise = []
    for more in ((), ("--delta", "1e-5")):
        found = json.loads(call(*asked, *more).stdout)
        noise.append(found["rows"][found["chosen"]]["noise"])
    assert noise[1] > noise[0]
    text = (tmp_path / "plan.toml").read_text()
    assert "delta = 1e-05" in text
    assert "LARGE DELTA" not in text
    said = refusal(call("plan", *few, "--epsilon", "8", "--records", "50", "--delta", "0.02"))
    assert said == "--delta: delta = 0.02 is out of range (give 1e-12 to below 1 / 50 = 0.02)"
    assert refusal(call("plan", *few, "--delta", "1e-5")).startswith("--delta: has no effect without")


@pytest.mark.parametrize(("again", "works"), [("1", {False}), ("2", {False, True})])
def test_bytes_of_other_sums_where_they_go_with_the_row(again: str, works: set[bool], tmp_path: Path) -> None:
    wanted = ("--parties", "12", "--size", "4", "--reclusterings", again, "--atoms", "1")
    found = call("plan", *wanted, "--json", "--out", tmp_path)
    values = json.loads(found.stdout)
    rows = values["rows"]
    assert {row["design"]["shape"]["new_work"] for row in rows} == works
    for row in rows:
        assert ("validated" in row["crypten"]) is (again == "1" or row["design"]["shape"]["new_work"])
        assert row["crypten"]["crypten"]["sent"] < row["traffic"]["sent"]
    text = (tmp_path / "plan.toml").read_text()
    assert "# price of other sums, where all is as here but their kind: CrypTen " in text
    chosen = rows[values["chosen"]]["crypten"]
    validated = "validated" in chosen
    assert ("; CrypTen with secure_sum.validate " in text) is validated
    assert ("one bit of its choice about each update" in text) is validated


def test_an_earlier_plan_is_replaced_on_demand_only(tmp_path: Path) -> None:
    edited = tmp_path / "plan.toml"
    edited.write_text("# mine")
    assert "--force" in refusal(call(*FEW, "--out", tmp_path))
    assert edited.read_text() == "# mine"
    assert call(*FEW, "--out", tmp_path, "--force").exit_code == 0
    assert "# mine" not in edited.read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--parties", "2"),
            "--parties: 2 parties cannot hide updates: in a sum of two each member can compute the other's",
        ),
        (("--parties", "0"), "--parties: 0 parties cannot hide updates"),
        (("--parties", "12", "--reclusterings", "0"), "--reclusterings: 0 is out of range"),
        (("--parties", "12", "--k", "13"), "--k: 13 is out of range (give 1 to 12)"),
        (
            ("--parties", "12", "--colluders", "3", "--k", "10"),
            "--k: is 10, but only 9 of 12 parties are honest",
        ),
        (("--parties", "12", "--case", "best"), "--case: 'best' is not one of 'worst', 'average'"),
        (
            ("--parties", "12", "--data", "faces"),
            "--data: 'faces' is not a data set (give one of digits, mnist",
        ),
        (
            ("--parties", "12", "--records", "500"),
            "--records: 12 parties with 500 records each need more than the 1442",
        ),
        (("--parties", "1500"), "--data: digits has only 1442 samples for 1500 parties"),
        (
            ("--parties", "12", "--dropout", "0.4", "--k", "6"),
            "--lost: no cluster size and number of reclusterings meets --lost 0.05",
        ),
    ],
)
def test_refusals_name_the_demand_and_leave_nothing_behind(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    assert refusal(call("plan", *options, "--out", tmp_path / "plan")).startswith(said)
    assert not files(tmp_path)
