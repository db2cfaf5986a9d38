"""``securefl data histogram``: who gets which labels, as a picture and as numbers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.cli.data import label_counts
from securefl.scenario.data import Data
from securefl.scenario.load import parse_scenario
from securefl.training.data.datasets import load_data
from tests.unit.cli.programs import SCENARIO, call, files, refusal, write_scenario

KINDS = (
    '{ type = "iid" }',
    '{ type = "labels", labels = 2 }',
    '{ type = "dirichlet", alpha = 0.3 }',
    '{ type = "class-shares" }',
    '{ type = "log-normal" }',
)


def counts(*overrides: str, data_dir: Path | None = None) -> dict[str, Any]:
    return label_counts(parse_scenario(SCENARIO, overrides), data_dir, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_partition_is_counted(kind: str) -> None:
    record = counts(f"data.partition={kind}")
    table = np.array(list(record["parties"].values()))
    assert table.shape == (6, 10)
    assert table.sum(axis=1).tolist() == list(record["samples"].values())
    assert table.sum() == 120
    overall = table.sum(axis=0) / 120
    naive = [float(np.abs(row / row.sum() - overall).sum() / 2) for row in table]
    assert list(record["distance"].values()) == pytest.approx(naive)
    assert all(0 <= value <= 1 for value in record["distance"].values())
    assert record["server"] is None
    if "labels" in kind:
        assert ((table > 0).sum(axis=1) <= 2).all()


def test_the_servers_samples_are_told_apart() -> None:
    record = counts("data.server_fraction=0.25")
    assert record["server"] == [3] * 10
    assert sum(record["samples"].values()) == 90


def test_samples_of_another_set_are_counted_there(tmp_path: Path) -> None:
    """Its classes are in another order than those of the rows with the same numbers in the parties' set."""
    digits = load_data(Data(), None)
    np.savez(
        tmp_path / "other.npz",
        x_train=digits.x_train[:200],
        y_train=9 - digits.y_train[:200],
        x_test=digits.x_test,
        y_test=digits.y_test,
    )
    record = counts("data.server_per_class=2", f"data.server_set=npz:{tmp_path / 'other.npz'}")
    assert record["server"] == [2] * 10
    assert sum(record["samples"].values()) == 120


def test_labels_of_a_text_are_characters(tmp_path: Path) -> None:
    (tmp_path / "shakespeare").mkdir()
    speeches = [f"{name}:\n" + "To be, or not to be.\n" * 120 + "\n" for name in "ABCDEF"]
    packed = gzip.compress(("=== PLAY: One ===\n\n" + "".join(speeches)).encode())
    (tmp_path / "shakespeare" / "plays.txt.gz").write_bytes(packed)
    record = counts("data.set=shakespeare", "model.type=lstm", "data.partition.type=roles", data_dir=tmp_path)
    dataset = load_data(Data(set="shakespeare"), tmp_path)
    assert record["classes"] == dataset.classes
    for name, own in record["parties"].items():
        assert sum(own) == 80 * record["samples"][name]
    assert max(record["distance"].values()) < 0.05


def test_picture_and_numbers_are_written(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    out = tmp_path / "plots" / "labels.png"
    shares = "data.partition.type=class-shares"
    result = call("data", "histogram", scenario, "--set", shares, "--out", out, width=200)
    assert result.exit_code == 0, result.stderr
    head, where = result.stdout.splitlines()
    assert head.startswith("digits, class-shares, seed 0: 6 parties with 20 to 20 samples; total variation")
    assert where == f"{out} and .json"
    assert files(tmp_path / "plots") == {"labels.png", "labels.json"}
    assert out.read_bytes().startswith(b"\x89PNG")
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["partition"] == {"type": "class-shares"}
    first = out.read_bytes()
    assert call("data", "histogram", scenario, "--set", shares, "--out", out).exit_code == 0
    assert out.read_bytes() == first
    assert call("data", "histogram", scenario, "--set", shares, "--out", out, "--seed", "1").exit_code == 0
    assert out.read_bytes() != first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "labels.pdf"), "--out: labels.pdf does not end in .png"),
        (
            ("--set", "data.partition={type='labels',labels=11}"),
            "data.partition.labels: 11 classes per party",
        ),
        (("--set", "data.set=npz:none.npz"), "none.npz: file not found"),
        (("--set", "data.set=folder:none"), "none: cannot be read"),
        (("--set", "data.colour=red"), "data.colour: is not a field"),
    ],
)
def test_refusals_leave_nothing(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    scenario = write_scenario(tmp_path)
    line = call("data", "histogram", scenario, "--out", tmp_path / "x.png", *arguments)
    assert said in refusal(line)
    assert files(tmp_path) == {"small.toml"}
