"""``securefl export``: the model with its card."""

from __future__ import annotations

import errno
import hashlib
import importlib
import json
import re
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import load_file

import securefl
from securefl.base import files
from securefl.lab.handover import export_run
from tests.unit.cli.programs import call, refusal


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    securefl.simulate("quickstart", seed=1, rounds=3, out=folder)
    return folder


class Site:
    """One number that moves, and a metric with a spread."""

    samples = 10

    def __init__(self, name: str) -> None:
        self.at = int(name.removeprefix("p"))

    def parameters(self) -> dict[str, Any]:
        return {"w": np.zeros(3, np.float32)}

    def fit(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        return {"w": parameters["w"] + 1}, 10, {}

    def evaluate(self, parameters: dict[str, Any], context: securefl.RoundContext) -> Any:
        return 10, {"auc": min(1.0, 0.1 * self.at + 0.05 * float(parameters["w"][0]))}


SITES = """
name = "sites"
parties = 6
model.type = "weights"
clustering.size = 3
stop = { rounds = 4, metric = "auc" }
[evaluation]
repeats = "accept"
[[evaluation.metrics]]
name = "auc"
kind = "mean"
upper = 1
"""


def cells(card: str, row: str) -> list[str]:
    found = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", card, re.MULTILINE)
    assert found, card
    return [cell.strip() for cell in found[1].split("|")]


def test_the_folder_has_the_model_its_card_and_digests(run: Path, tmp_path: Path) -> None:
    done = call("export", run, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    names = {"README.md", "SHA256SUMS", "model.safetensors", "scenario.toml"}
    assert {file.name for file in (tmp_path / "out").iterdir()} == names
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
    for line in (tmp_path / "out" / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest
    card = (tmp_path / "out" / "README.md").read_text()
    arrays = load_file(tmp_path / "out" / "model.safetensors")
    assert cells(card, "model.safetensors")[:2] == [
        str(len(arrays)), f"{sum(one.size for one in arrays.values()):,}",
    ]  # fmt: skip
    assert "protected nothing" in card
    assert "No differential privacy" in card
    assert "The parties did not verify" in card


def test_the_numbers_are_those_of_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.toml").write_text(SITES)
    from securefl.training.models import write_tensors  # noqa: PLC0415 - torch

    write_tensors(tmp_path / "initial.safetensors", Site("p00").parameters())
    securefl.simulate(tmp_path / "f.toml", site=cast("Any", Site), seed=3, out=tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    export_run(tmp_path / "run", tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert summary["outcome"]["model"]["which"] == "best"
    best = summary["rounds"][summary["outcome"]["model"]["round"]]["metrics"]["auc"]
    found = [float(cell) for cell in cells(card, "auc")]
    assert found == pytest.approx(
        [best[key] for key in ("value", "low", "high", "deviation", "rounding")], rel=5e-3
    )
    assert best["value"] == pytest.approx(summary["outcome"]["evaluation"]["auc"])
    assert f"The sites evaluated this model in round {summary['outcome']['model']['round']}." in card
    kept = (tmp_path / "run" / "best.safetensors").read_bytes()
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == kept
    (tmp_path / "run" / "best.safetensors").unlink()
    summary["outcome"]["model"] = {"which": "last"}
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    export_run(tmp_path / "run", tmp_path / "last")
    last = (tmp_path / "last" / "README.md").read_text()
    assert "The file has the model after the last round" in last
    assert float(cells(last, "auc")[0]) == pytest.approx(
        summary["rounds"][-1]["metrics"]["auc"]["value"], rel=5e-3
    )


def test_a_run_that_failed_or_exposed_updates_says_so(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {"exit_code": 1, "exit_meaning": "an expectation was missed", "simulated": False}
    summary["outcome"]["model_destroyed"] = True
    summary["server_view"] |= {
        "single_updates": [{"round": 2, "party": "p05"}],
        "insecure_seeded_entropy": True,
    }
    summary["privacy"] = {"guarantee": "epsilon 2 at delta 0.01", "without_guarantee": ["p03"]}
    summary["verification"] = {"confirmed": [0, 1], "void": [{"round": 2, "reason": "x"}]}
    (folder / "summary.json").write_text(json.dumps(summary))
    export_run(folder, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    for text in (
        "did not end as expected: an expectation was missed", "worse than guessing", "p05 in round 2",
        "derive from a seed", "epsilon 2 at delta 0.01.", "No guarantee for p03.",
        "confirmed the step of 2 rounds; rounds that were not confirmed, and changed nothing: 1",
        "single updates were exposed",
    ):  # fmt: skip
        assert text in card


def test_text_from_outside_is_no_markup_of_the_card(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    summary = json.loads((folder / "summary.json").read_text())
    summary |= {"exit_code": 1, "exit_meaning": "<script>", "reason": "[a](http://x) | `b`\n# c"}
    (folder / "summary.json").write_text(json.dumps(summary))
    export_run(folder, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert r"\<script\>. \[a\](http://x) \| \`b\`" in card
    assert "\n# c" not in card


def safetensors_of(kind: str, size: int) -> bytes:
    """A file with six numbers of ``size`` bytes, by the format's own words: no library makes all types."""
    table = {"a": {"dtype": kind, "shape": [2, 3], "data_offsets": [0, 6 * size]}}
    header = json.dumps(table).encode()
    return len(header).to_bytes(8, "little") + header + bytes(range(6 * size))


@pytest.mark.parametrize(
    ("kind", "size", "library"),
    [
        ("BF16", 2, "torch"),
        ("F8_E4M3", 1, "torch"),
        ("F8_E5M2", 1, "torch"),
        ("I64", 8, "numpy"),
        ("U8", 1, "numpy"),
        ("F16", 2, "numpy"),
    ],
)
def test_numbers_of_all_types_are_handed_over(
    run: Path, tmp_path: Path, kind: str, size: int, library: str
) -> None:
    folder, out = tmp_path / "run", tmp_path / "out"
    shutil.copytree(run, folder)
    content = safetensors_of(kind, size)
    for name in ("model", "best"):
        (folder / f"{name}.safetensors").write_bytes(content)
    assert call("export", folder, "--out", out).exit_code == 0
    assert (out / "model.safetensors").read_bytes() == content
    card = (out / "README.md").read_text()
    assert re.search(r"^\| model.safetensors \| 1 \| 6 \| [0-9a-f]{64} \|$", card, re.MULTILINE)
    assert f"from safetensors.{library} import load_file" in card
    load = importlib.import_module(f"safetensors.{library}").load_file
    assert tuple(load(out / "model.safetensors")["a"].shape) == (2, 3)


@pytest.mark.parametrize("cut", [0, 7, 20, -1])
def test_a_file_that_was_cut_is_refused(run: Path, tmp_path: Path, cut: int) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    for name in ("model", "best"):
        (folder / f"{name}.safetensors").write_bytes(safetensors_of("BF16", 2)[:cut])
    assert "model.safetensors: is damaged: " in refusal(call("export", folder, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_refusals(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    assert "exists and is not empty (name a new folder)" in refusal(
        call("export", run, "--out", tmp_path / "full")
    )
    (folder / "model.safetensors").write_bytes(b"broken")
    assert "model.safetensors: is damaged" in refusal(call("export", folder, "--out", tmp_path / "a"))
    (folder / "model.safetensors").unlink()
    assert "does not exist (a run writes its model" in refusal(
        call("export", folder, "--out", tmp_path / "a")
    )
    (folder / "summary.json").unlink()
    assert "has not ended" in refusal(call("export", folder, "--out", tmp_path / "a"))
    assert not (tmp_path / "a").exists()
    assert "scenario.toml is missing" in refusal(call("export", tmp_path / "full"))
    assert call("export", run, "--out", tmp_path / "full" / "x" / "y").exit_code == 3


def test_an_export_that_fails_in_the_middle_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = files.write_whole

    def full(path: Path, content: bytes) -> None:
        if path.name == "scenario.toml":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write_whole", full)
        assert call("export", run, "--out", tmp_path / "new").exit_code == 3
        (tmp_path / "empty").mkdir()
        assert call("export", run, "--out", tmp_path / "empty").exit_code == 3
    assert not (tmp_path / "new").exists()
    assert not any((tmp_path / "empty").iterdir())
    assert call("export", run, "--out", tmp_path / "new").exit_code == 0
