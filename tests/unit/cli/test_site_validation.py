"""``securefl site validate`` and its numbers in the card of ``securefl export``."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import securefl
from securefl.training.models import write_tensors
from tests.unit.cli.programs import call, refusal

MODULE = """
import numpy as np
import securefl

class Ward:
    samples = 40
    def __init__(self, name):
        at = int(name.removeprefix("p"))
        rng = np.random.default_rng(at)
        self.x = rng.normal(size=(40, 2)).astype(np.float32)
        self.y = (self.x[:, 0] + rng.normal(size=40) > at / 4).astype(np.int64)
    def parameters(self):
        return {"w": np.zeros(2, np.float32)}
    def fit(self, parameters, context):
        step = ((self.y - 0.5) @ self.x) / 40
        return {"w": parameters["w"] + step.astype(np.float32)}, 40, {}
    def evaluate(self, parameters, context):
        scores = 1 / (1 + np.exp(-self.x @ parameters["w"]))
        hits = securefl.confusion(self.y, (scores > 0.5).astype(np.int64), classes=2)
        return 40, {"scores": securefl.score_histogram(scores, self.y), "hits": hits,
                    "brier": float(((scores - self.y) ** 2).mean()), "own": float(parameters["w"][0])}

class Silent(Ward):
    evaluate = None

class Failing(Ward):
    def evaluate(self, parameters, context):
        raise ValueError("no data today")

class Empty(Ward):
    def evaluate(self, parameters, context):
        return 0, {}
"""
SCENARIO = """
name = "wards"
parties = 6
model.type = "weights"
clustering.size = 3
stop = { rounds = 3, metric = "scores.auc" }
[evaluation]
repeats = "accept"
samples = 10
[[evaluation.metrics]]
name = "scores"
kind = "histogram"
[[evaluation.metrics]]
name = "hits"
kind = "confusion"
[[evaluation.metrics]]
name = "brier"
kind = "mean"
"""
SITE = "wards_validated:"
VALIDATE = ("site", "validate", "f.toml", f"{SITE}Ward")
MODEL = ("--model", "handover/model.safetensors")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wards")
    (folder / "wards_validated.py").write_text(MODULE)
    (folder / "f.toml").write_text(SCENARIO)
    write_tensors(folder / "initial.safetensors", {"w": np.zeros(2, np.float32)})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        securefl.simulate("f.toml", site=f"{SITE}Ward", out="run", seed=1)
        assert call("export", "run", "--out", "handover").exit_code == 0
    return folder


@pytest.fixture
def here(done: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(done)
    monkeypatch.syspath_prepend(done)
    return done


def table_of(card: str, party: str) -> list[list[str]]:
    rows = [line for line in card.splitlines() if line.startswith(f"| {party} |")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def check_numbers(file: dict[str, Any], said: dict[str, Any]) -> None:
    """The file has what the site's evaluate returns, and errors of counts only."""
    numbers = {name: one["value"] for name, one in file["metrics"].items()}
    errors = {name: one["standard_error"] for name, one in file["metrics"].items()}
    share = np.trace(said["hits"]) / 40
    assert numbers["brier"] == pytest.approx(said["brier"])
    assert numbers["own"] == said["own"]
    assert numbers["hits.accuracy"] == pytest.approx(share)
    assert errors["hits.accuracy"] == pytest.approx(np.sqrt(share * (1 - share) / 40))
    assert (errors["brier"], errors["own"], errors["hits.f1"]) == (None, None, None)
    assert errors["scores.auc"] > 0


def test_sites_hand_their_numbers_over_and_the_card_has_them(here: Path, tmp_path: Path) -> None:
    options: list[Any] = []
    for party in ("p01", "p00"):
        shown = call(*VALIDATE, *MODEL, "--party", party, "--out", tmp_path / f"{party}.json")
        assert shown.exit_code == 0, shown.output
        options += ["--validation", tmp_path / f"{party}.json"]
    assert stat.S_IMODE((tmp_path / "p00.json").stat().st_mode) == 0o600
    assert call("export", "run", "--out", tmp_path / "out", *options).exit_code == 0
    card = (tmp_path / "out" / "README.md").read_text()
    from wards_validated import Ward  # type: ignore[import-not-found]  # noqa: PLC0415

    arrays = load_file("handover/model.safetensors")
    for party in ("p00", "p01"):
        file = json.loads((tmp_path / f"{party}.json").read_text())
        samples, said = Ward(party).evaluate(arrays, None)
        assert (file["party"], file["samples"], file["scenario"]) == (party, samples, "wards")
        check_numbers(file, said)
        rows = table_of(card, party)
        assert [row[2] for row in rows] == [*file["metrics"]]
        for row in rows:
            one = file["metrics"][row[2]]
            assert row[1] == "40"
            assert float(row[3]) == pytest.approx(one["value"], rel=5e-3)
            known = one["standard_error"]
            assert (None if row[4] == "-" else float(row[4])) == (known and pytest.approx(known, rel=5e-3))
    assert card.index("| p00 |") < card.index("| p01 |")


def test_it_prints_values_with_errors_and_repeats_its_bytes(here: Path, tmp_path: Path) -> None:
    shown = call(*VALIDATE, *MODEL, "--party", "p02", "--out", tmp_path / "found.json")
    metrics = json.loads((tmp_path / "found.json").read_text())["metrics"]
    lines = dict(line.split(" ", 1) for line in shown.stdout.splitlines() if not line.startswith("p02"))
    assert "p02: 40 samples" in shown.stdout
    for name, one in metrics.items():
        value, _, error = lines[name].partition(" ± ")
        assert float(value) == pytest.approx(one["value"], rel=5e-3)
        assert bool(error) == (one["standard_error"] is not None)
    again = call(*VALIDATE, *MODEL, "--party", "p02", "--out", tmp_path / "again.json")
    assert again.exit_code == 0
    assert (tmp_path / "found.json").read_bytes() == (tmp_path / "again.json").read_bytes()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("none.toml", f"{SITE}Ward", *MODEL), "none.toml"),
        (("f.toml", f"{SITE}Nobody", *MODEL), "Nobody"),
        (("f.toml", f"{SITE}Silent", *MODEL), "evaluate"),
        (("f.toml", f"{SITE}Failing", *MODEL), "in evaluate: ValueError: no data today"),
        (("f.toml", f"{SITE}Empty", *MODEL), "it evaluated no samples"),
        (("f.toml", f"{SITE}Ward", "--model", "missing.safetensors"), "missing.safetensors: cannot be read"),
        (("f.toml", f"{SITE}Ward", "--model", "f.toml"), "f.toml"),
        (("f.toml", f"{SITE}Ward", "--model", "other.safetensors"), "parameters() returned"),
        (("f.toml", f"{SITE}Ward", *MODEL, "--party", "server"), "--name"),
        (("f.toml", f"{SITE}Ward", *MODEL, "--site-memory", "5"), "--site-memory"),
        (("f.toml", f"{SITE}Ward", *MODEL, "--site-python", "no/python"), "no/python"),
        (("f.toml", f"{SITE}Ward", *MODEL, "--set", "parties=0"), "parties"),
    ],
)
def test_what_it_refuses(here: Path, words: tuple[str, ...], reason: str) -> None:
    save_file({"v": np.zeros(3, np.float32)}, here / "other.safetensors")
    assert reason in refusal(call("site", "validate", *words, "--out", "refused.json"))
    assert not (here / "refused.json").exists()


def test_a_file_that_cannot_be_written_is_exit_code_3(here: Path) -> None:
    assert call(*VALIDATE, *MODEL, "--out", "no/such/folder.json").exit_code == 3


BROKEN: dict[str, Any] = {
    "format": "securefl validation 2",
    "party": "P 0",
    "scenario": 3,
    "model": "abc",
    "samples": 0,
    "metrics": {},
    "notes": [1],
    "more": 1,
}
METRICS: list[Any] = [
    ({"value": "x", "standard_error": None}, "value"),
    ({"value": 1.0, "standard_error": -1.0}, "standard_error"),
    ({"value": 1.0}, "standard_error"),
    ({"value": float("nan"), "standard_error": None}, "is not a validation"),
]


def changed(tmp_path: Path, **fields: Any) -> Path:
    file = tmp_path / "one.json"
    assert call(*VALIDATE, *MODEL, "--out", file).exit_code == 0
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))
    return file


@pytest.mark.parametrize("field", BROKEN)
def test_export_refuses_a_wrong_field(here: Path, tmp_path: Path, field: str) -> None:
    file = changed(tmp_path, **{field: BROKEN[field]})
    line = refusal(call("export", "run", "--out", tmp_path / "out", "--validation", file))
    assert "is not a validation" in line
    assert field in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("value", "reason"), METRICS)
def test_export_refuses_a_wrong_metric(here: Path, tmp_path: Path, value: Any, reason: str) -> None:
    file = changed(tmp_path, metrics={"own": value})
    assert reason in refusal(call("export", "run", "--out", tmp_path / "out", "--validation", file))


def test_export_refuses_other_models_a_party_twice_and_missing_files(here: Path, tmp_path: Path) -> None:
    other, one = tmp_path / "other.json", changed(tmp_path)
    assert call(*VALIDATE, "--model", "initial.safetensors", "--out", other).exit_code == 0
    export = ("export", "run", "--out", tmp_path / "out")
    assert "is about another model" in refusal(call(*export, "--validation", other))
    assert "a second validation of p00" in refusal(call(*export, "--validation", one, "--validation", one))
    assert "cannot be read" in refusal(call(*export, "--validation", tmp_path / "none.json"))
    one.write_bytes(b"[" * 100_000)
    assert "is not a validation" in refusal(call(*export, "--validation", one))
    assert not (tmp_path / "out").exists()
