"""``securefl dp settle``: a file that all processes of a run agree on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from securefl.methods.feasibility.limits import check
from securefl.methods.privacy.mechanism import mechanism_of
from securefl.methods.privacy.settling import settle
from securefl.scenario.load import load_scenario, parse_scenario
from tests.unit.cli.programs import call, refusal

SCENARIO = """
name = "hospitals"
parties = 3
[model]
type = "softmax"
[training]
batch_size = 8
[training.dp_sgd]
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[encoding]
scale_bits = 12
[weighting]
mode = "ignore"
[privacy]
unit = "record"
multiplier = 2.0
budget = 3.0
[stop]
rounds = 10
"""
LENGTH = 4 * 3 + 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(SCENARIO)
    x = np.zeros((9, 4), np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(9) % 3, classes=np.int64(3))
    return tmp_path


def test_it_writes_what_settling_gives_and_says_what_it_means(folder: Path) -> None:
    out = folder / "settled.toml"
    arguments = ("--data", folder / "own.npz", "--records", "200", "--out", out)
    ended = call("dp", "settle", folder / "s.toml", *arguments)
    assert ended.exit_code == 0, ended.output
    found = load_scenario(out)
    assert found == settle(parse_scenario(SCENARIO), LENGTH, 200)
    assert found.privacy.settled
    assert (found.privacy.records, found.privacy.releases) == (200, 10)
    assert mechanism_of(found, LENGTH) is not None
    check(found)
    assert ": at most epsilon" in ended.stdout
    assert "q = 8/200" in out.read_text()
    assert "--out: " in refusal(call("dp", "settle", folder / "s.toml", *arguments), 2)


def test_on_the_terminal_it_is_a_scenario_that_can_be_piped(folder: Path) -> None:
    ended = call("dp", "settle", folder / "s.toml", "--data", folder / "own.npz", "--records", "200")
    assert parse_scenario(ended.stdout).privacy.records == 200


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((), "privacy.records"),
        (("--records", "7"), "training.batch_size"),
        (("--records", "200", "--set", "privacy.unit=none"), "privacy.unit"),
        (("--records", "200", "--set", "encoding.scale_bits=30"), "encoding.scale_bits"),
        (("--records", "200", "--set", "privacy.budget=0.01"), "privacy.budget"),
    ],
)
def test_refused(arguments: tuple[str, ...], field: str, folder: Path) -> None:
    ended = call("dp", "settle", folder / "s.toml", "--data", folder / "own.npz", *arguments)
    assert refusal(ended, 2).startswith(f"{field}: ")


def test_data_that_are_no_data_are_refused(folder: Path) -> None:
    ended = call("dp", "settle", folder / "s.toml", "--data", folder / "no.npz", "--records", "200")
    assert "no.npz" in refusal(ended, 2)
