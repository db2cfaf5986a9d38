"""An update beyond the encoding's range stops a run in its first round, by the field's name (users/02)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import securefl
from tests.cases.users.play import scenario
from tests.live.federated import run_program
from tests.unit.cli.programs import call

PRICES = """
import numpy as np

class Site:
    def __init__(self, name):
        self.name, self.samples = name, 10
    def parameters(self):
        return {"bias": np.zeros(1, np.float32)}
    def fit(self, parameters, context):
        return {"bias": parameters["bias"] + np.float32(1000)}, 10, {}

class One(Site):
    def fit(self, parameters, context):
        step = 1000 if self.name == "p01" and context.number == 1 else 100
        return {"bias": parameters["bias"] + np.float32(step)}, 10, {}

class Negative(Site):
    def fit(self, parameters, context):
        return {"bias": parameters["bias"] - np.float32(1000)}, 10, {}
"""
HOW = ["simulate", pytest.param("run", marks=pytest.mark.live)]
PRIVATE = """
[encoding]
clip = 1024
range = 256
scale_bits = 1
[privacy]
unit = "party"
multiplier = 1.0
delta = 0.01
[deadlines]
submit = 4
"""
CLIPPED = "[encoding]\nclip = 1024\nrange = 256\n"
ATTACK = '[[behaviours]]\nkind = "scale"\nparties = ["p00"]\nfactor = 1000\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "prices_of_tests.py").write_text(PRICES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def ran(folder: Path, how: str, site: str = "Site", extra: str = "", *words: str) -> tuple[int, str]:
    toml = scenario(folder, {"bias": np.zeros(1, np.float32)}, 3, extra)
    chosen = ("--site", f"prices_of_tests:{site}", *words)
    if how == "run":
        ended = run_program(toml, folder / "out", *chosen)
        return ended.exit_code, ended.stdout + ended.stderr
    called = call("simulate", toml, "--out", folder / "out", *chosen)
    return called.exit_code, called.output


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "summary.json").read_text())
    return found


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("site", ["Site", "Negative"])
@pytest.mark.parametrize("how", HOW)
def test_it_stops_after_the_first_round_and_names_the_field(how: str, site: str, folder: Path) -> None:
    code, shown = ran(folder, how, site)
    assert code == 1
    line = (
        "round 0: updates of p00 and 2 more were cut off"
        " (1 coordinate beyond encoding.range = 256): raise encoding.range"
    )
    assert line in " ".join(shown.split())
    assert [row["beyond_range"] for row in rows(folder)] == [{"p00": 1, "p01": 1, "p02": 1}]
    found = summary(folder)
    assert found["exit_code"] == 1
    assert found["exit_meaning"] == "updates were cut: an honest one had coordinates beyond encoding.range"
    assert found["outcome"]["updates_beyond_range"] == 3
    assert [row["updates_beyond_range"] for row in found["rounds"]] == [3]


@pytest.mark.parametrize("how", HOW)
def test_a_single_party_in_a_later_round_stops_it_there(how: str, folder: Path) -> None:
    code, shown = ran(folder, how, "One")
    assert code == 1
    assert "round 1: updates of p01 were cut off (1 coordinate" in " ".join(shown.split())
    assert [row["beyond_range"] for row in rows(folder)] == [{}, {"p01": 1}]


@pytest.mark.parametrize("how", HOW)
def test_a_sufficient_range_gives_the_whole_sum(how: str, folder: Path) -> None:
    code, shown = ran(folder, how, "Site", "[encoding]\nrange = 1024\n")
    assert code == 0, shown
    assert [row["beyond_range"] for row in rows(folder)] == [{}, {}, {}]
    assert summary(folder)["outcome"]["updates_beyond_range"] == 0


def test_from_python_too(folder: Path) -> None:
    toml = scenario(folder, {"bias": np.zeros(1, np.float32)}, 3)
    result = securefl.simulate(toml, site="prices_of_tests:Site", out=folder / "out")
    assert result.summary.exit_code == 1
    assert "encoding.range" in result.summary.outcome.reason
    assert [record.beyond_range for record in result.rounds] == [{"p00": 1, "p01": 1, "p02": 1}]
    assert list(result.frame()["updates_beyond_range"]) == [3]


@pytest.mark.parametrize("how", HOW)
def test_an_attack_does_not_stop_a_run(how: str, folder: Path) -> None:
    code, shown = ran(folder, how, "Site", "[encoding]\nrange = 1024\n" + ATTACK)
    assert code == 0, shown
    assert [row["beyond_range"] for row in rows(folder)] == [{}, {}, {}]
    assert "encoding.range" not in shown


@pytest.mark.live
@pytest.mark.parametrize("extra", [PRIVATE, CLIPPED], ids=["privacy", "clip"])
def test_with_privacy_or_a_clip_bound_no_count_leaves_the_party(extra: str, folder: Path) -> None:
    """Console, run folder and exit code of a run do not depend on it; the party's own transcript has it."""
    code, shown = ran(folder, "run", "Site", extra)
    assert code == 0, shown
    assert "encoding.range" not in shown
    assert len(rows(folder)) == 3
    assert "beyond_range" not in (folder / "out" / "metrics.jsonl").read_text()
    assert "beyond_range" not in json.dumps(summary(folder))


@pytest.mark.live
def test_the_lab_counts_with_a_clip_bound_too(folder: Path) -> None:
    code, _ = ran(folder, "run", "Site", CLIPPED, "--lab")
    assert code == 1


def test_a_simulation_counts_with_a_clip_bound_too(folder: Path) -> None:
    code, shown = ran(folder, "simulate", "Site", CLIPPED)
    assert code == 1, shown
