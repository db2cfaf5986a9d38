"""Bad privacy settings through the command line: field, reason and remedy in a line, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.cli.programs import SCENARIO, call, files, refusal, write_scenario

PRIVATE = (
    SCENARIO.replace('device = "cpu"', 'device = "cpu"\nbatch_size = 4\n[training.dp_sgd]')
    + """
[encoding]
scale_bits = 11
[weighting]
mode = "ignore"
[privacy]
unit = "record"
multiplier = 2.0
"""
)
SHARED = ("privacy.placement=threshold", "secure_sum.colluders=3")

BAD = {
    "budget": (
        ("privacy.budget=0.01", "privacy.multiplier=0.5"),
        "privacy.budget: one release spends epsilon",
        "more noise, a larger budget, or smaller batches)",
    ),
    "epsilon": (
        ("privacy.multiplier=", "privacy.epsilon=0.00001"),
        "privacy.epsilon: ",
        ")",
    ),
    "delta": (
        ("privacy.delta=0.05",),
        "privacy.delta: is 0.05, but must be below 1 / 20 records",
        "(set it below 0.05)",
    ),
    "h below 1": (
        (*SHARED, "secure_sum.colluders_per_cluster=3"),
        "secure_sum.",
        ")",
    ),
    "too many steps": (
        ("encoding.scale_bits=14",),
        "encoding.scale_bits: 14 gives 8",
        "(encoding.scale_bits = 12)",
    ),
    "too few steps": (
        ("encoding.scale_bits=0", "privacy.multiplier=0.01"),
        "encoding.scale_bits: 0 makes for 0.",
        "(encoding.scale_bits = ",
    ),
    "batch": (
        ("training.batch_size=21",),
        "training.batch_size: is 21, more than the 20 records",
        "(set it to at most 20, or use fewer parties)",
    ),
    "no such data": (
        ("data.set=npz:missing.npz",),
        "missing.npz: file not found",
        "",
    ),
}


@pytest.mark.parametrize("program", ["run", "simulate"])
@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(
    name: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    overrides, said, remedy = BAD[name]
    scenario = write_scenario(tmp_path, PRIVATE)
    before = files(tmp_path)
    sets = [part for one in overrides for part in ("--set", one)]
    reason = refusal(call(program, scenario, *sets))
    assert said in reason, reason
    assert reason.endswith(")")
    assert remedy in reason, reason
    assert files(tmp_path) == before


@pytest.mark.parametrize("program", ["run", "simulate"])
def test_a_server_without_samples_of_a_class_is_refused(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auxiliary set of one's own in which nobody is a 3."""
    monkeypatch.chdir(tmp_path)
    labels = np.array([0, 1, 2, 4, 5, 6, 7, 8, 9] * 4)
    images = np.random.default_rng(0).integers(0, 17, (36, 1, 8, 8), dtype=np.uint8)
    np.savez("other.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    scenario = write_scenario(tmp_path, PRIVATE)
    before = files(tmp_path)
    sets = ("data.server_set=npz:other.npz", "data.server_per_class=2", "clustering.size=2")
    rule = 'aggregation.rule={ type = "inner-product", gamma = 0.5 }'
    reason = refusal(call(program, scenario, *(p for one in (*sets, rule) for p in ("--set", one))))
    assert "class 3" in reason, reason
    assert reason.endswith(")")
    assert files(tmp_path) == before
