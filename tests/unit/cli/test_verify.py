"""``securefl verify`` as a command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.cli import verify as command
from securefl.lab.audit.chain import Known
from securefl.runtime.report.rundir import RunDirectory
from tests.simulation.lying import other_outcome, verified
from tests.simulation.test_verified_rounds import next_float
from tests.simulation.world import scenario
from tests.unit.audit.runs import record
from tests.unit.audit.tampering import received
from tests.unit.audit.test_chain import other_model
from tests.unit.cli.programs import call, refusal


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cli-verify") / "run"
    return record(out, verified(rounds="2"), length=16).path


@pytest.fixture
def run(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its model is no model of the scenario: that it begins with zeros is known here."""

    def zeros(*_: Any) -> Known:
        return Known(first=np.zeros(16, dtype=np.float32))

    monkeypatch.setattr(command, "known_of", zeros)
    return Path(shutil.copytree(recorded, tmp_path / "run"))


def test_what_holds_ends_with_0_and_changes_nothing(run: Path) -> None:
    before = sorted(run.rglob("*"))
    done = call("verify", run, width=160)
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].split()[0] == "0"
    assert lines[1].split()[2:5] == ["12/8", "6/6", "3/3"]
    assert lines[1].split()[-1] == "confirmed"
    assert "follows from the first model and the certified sums of rounds 0 to 1" in " ".join(lines)
    assert sorted(run.rglob("*")) == before


def test_the_page_is_written_where_asked(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page"
    assert call("verify", run, "--out", page).exit_code == 0
    assert "| 1 |" in (page / "verify.md").read_text()
    assert "exists already" in refusal(call("verify", run, "--out", page))
    assert call("verify", run, "--out", page, "--force").exit_code == 0


def test_what_does_not_hold_ends_with_1(run: Path) -> None:
    received(RunDirectory.open(run), "p03", "ChainedAnnounce", 1, other_model)
    done = call("verify", run, "--json")
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["exit_code"] == 1
    assert "The server signed 2 different results of round 0." in [one["claim"] for one in told["findings"]]


def test_void_rounds_have_one_line_each_and_one_reason_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "known_of", lambda *_: Known(first=np.zeros(16, dtype=np.float32)))
    with other_outcome(params=next_float):
        run = record(tmp_path / "run", verified(rounds="3"), length=16).path
    lines = call("verify", run, width=100).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["0", "1", "2"]
    assert [line.split()[-1] for line in lines[1:4]] == ["void"] * 3
    notes = [line for line in lines if " void and did not change the model" in line]
    assert [line.split(" void")[0] for line in notes] == ["note Rounds 0, 2 are", "note Round 1 is"]


def test_a_run_that_is_not_verified_is_refused(tmp_path: Path) -> None:
    record(tmp_path / "run", scenario(6))
    assert "secure_sum.verify: is off" in refusal(call("verify", tmp_path / "run"))


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    assert "is not the directory of a run" in refusal(call("verify", tmp_path))


def test_a_damaged_transcript_is_refused(run: Path) -> None:
    path = run / "transcripts" / "p03.jsonl"
    path.write_bytes(path.read_bytes().replace(b"ChainedAnnounce", b"ChainedAnnounse", 1))
    assert "was altered" in refusal(call("verify", run))


def test_a_key_of_nobody_in_the_run_is_refused(recorded: Path, tmp_path: Path) -> None:
    assert call("keygen", "--party", "p77", "--out", tmp_path).exit_code == 0
    assert "which is not a party of this run" in refusal(
        call("verify", recorded, "--key", tmp_path / "p77.key")
    )
