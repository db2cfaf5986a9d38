"""``securefl audit`` as a command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.simulation.world import scenario
from tests.unit.audit.runs import record
from tests.unit.cli.programs import call, files, refusal


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli-audit") / "run"
    record(out, scenario(6))
    return out


@pytest.fixture
def run(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "run"))


def test_an_honest_run_ends_with_0_and_leaves_three_files(run: Path) -> None:
    before = {name: (run / name).read_bytes() for name in files(run) if (run / name).is_file()}
    done = call("audit", run)
    assert done.exit_code == 0, done.stderr
    assert "The server alone cannot compute any party's update" in " ".join(done.stdout.split())
    assert files(run) == before.keys() | {
        "transcripts",
        "audit",
        *(f"audit/audit.{e}" for e in ("md", "json", "html")),
    }
    assert all((run / name).read_bytes() == content for name, content in before.items())


def test_a_former_report_stays_unless_forced(run: Path) -> None:
    assert call("audit", run).exit_code == 0
    page = run / "audit" / "audit.html"
    page.write_text("mine")
    assert "exists already" in refusal(call("audit", run))
    assert page.read_text() == "mine"
    assert call("audit", run, "--force").exit_code == 0
    assert page.read_text() != "mine"


def test_json_on_stdout(run: Path, tmp_path: Path) -> None:
    done = call("audit", run, "--json", "--out", tmp_path / "else", "--colluders", "p00, p01")
    found = json.loads(done.stdout)
    assert found["colluders"] == ["p00", "p01"]
    assert found == json.loads((tmp_path / "else" / "audit.json").read_text())
    assert not (run / "audit").exists()


def test_breaches_end_with_1_unless_the_scenario_states_them(run: Path) -> None:
    """The model does not follow from the sums by the rule that the scenario claims afterwards."""
    path = run / "scenario.toml"
    path.write_text(path.read_text().replace("scale_bits = 16", "scale_bits = 15"))
    done = call("audit", run)
    assert done.exit_code == 1
    assert "does not follow from its sums" in " ".join(done.stdout.split())
    assert "worse than the scenario allows" in done.stdout
    path.write_text(path.read_text().replace("allow = []", 'allow = ["replay"]'))
    assert call("audit", run, "--force").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--colluders", "p77"), "--colluders: 'p77' is not a party of this run"),
        (("--lab",), "kept no updates"),
    ],
)
def test_refusals_write_nothing(run: Path, arguments: tuple[str, ...], reason: str) -> None:
    before = files(run)
    assert reason in refusal(call("audit", run, *arguments))
    assert files(run) == before


def test_a_damaged_transcript_is_refused_with_its_entry(run: Path) -> None:
    path = run / "transcripts" / "p01.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"from":"server"', b'"from":"p02"', 1))
    assert "p01.jsonl: entry" in refusal(call("audit", run))
    assert not (run / "audit").exists()
