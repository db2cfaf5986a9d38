"""What a checkpoint of a simulation holds, and what it may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.privacy.checks.evidence import CheckEvidence
from securefl.protocol.round.server.features.trust import Trust
from securefl.protocol.round.server.phases import BestSoFar, ModelProgress, Standing
from securefl.protocol.round.shared.plan import RunPlan
from securefl.runtime.simulation.checkpoint import read_checkpoint, write_checkpoint
from tests.simulation.world import scenario
from tests.unit.round.samples import plan_of

A, B, C = (PartyId(f"p{i:02d}") for i in range(3))
LENGTH = 4


ATOM_SEED = bytes(range(32))


CHECKED = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "1.0",
    "checks__kind": "corrected",
    "aggregation__claim": "none",
    "aggregation__byzantine": "1",
    "leakage__mode": "report",
}
SUSPICION: dict[tuple[PartyId, ...], CheckEvidence] = {
    (A,): CheckEvidence((1 / 3, -0.1, 200.0), 300.5, 7),
    (C,): CheckEvidence((0.0, -1.0, 2.0), 0.1, 1),
}


def written(path: Path, trust: Trust) -> RunPlan:
    plan = plan_of(scenario(6, **CHECKED), LENGTH)
    standing = Standing(
        round=3,
        params=np.array([1, -2, 0.1, 3e38], dtype=np.float32),
        moments=np.array([[0.1, 1 / 3, -1e-300, 7.0]]),
        updates=2,
        fruitless_rounds=1,
        trust=trust,
        atom_seed=ATOM_SEED,
        suspicion=SUSPICION,
        progress=ModelProgress(
            best_accuracy=0.1 + 0.2,
            stale_rounds=1,
            best=BestSoFar(1, 0.1 + 0.7, np.array([4, 3, 0.3, -1e-38], dtype=np.float32)),
        ),
    )
    write_checkpoint(path, plan, standing, {B}, training="some")
    return plan


@pytest.mark.parametrize("gradient", [None, np.array([1 / 3, -1e-310, 1e300, 0.0])])
def test_it_comes_back_bit_by_bit(gradient: Any, tmp_path: Path) -> None:
    earned = {A: 0.1 + 0.2, B: -1 / 3, C: 1e290}
    plan = written(tmp_path / "c", Trust(earned, gradient))
    standing, dead = read_checkpoint(tmp_path / "c", plan, training="some")
    assert dead == {B}
    assert dict(standing.trust.scores) == earned
    found = standing.trust.gradient
    assert (found is None) == (gradient is None)
    assert gradient is None or found is None or found.tobytes() == gradient.tobytes()
    assert standing.params.tobytes() == np.array([1, -2, 0.1, 3e38], dtype=np.float32).tobytes()
    assert standing.moments.tolist() == [[0.1, 1 / 3, -1e-300, 7.0]]
    numbers = (standing.round, standing.progress.stale_rounds, standing.updates, standing.fruitless_rounds)
    assert numbers == (3, 1, 2, 1)
    assert standing.progress.best_accuracy == 0.1 + 0.2
    assert standing.atom_seed == ATOM_SEED
    assert standing.progress.best is not None
    assert (standing.progress.best.round, standing.progress.best.value) == (1, 0.1 + 0.7)
    assert (
        standing.progress.best.params.tobytes() == np.array([4, 3, 0.3, -1e-38], dtype=np.float32).tobytes()
    )
    assert dict(standing.suspicion) == SUSPICION


@pytest.mark.parametrize(
    ("state", "arrays", "reason"),
    [
        ({"scores": {"p99": 1.0}}, {}, "parties that there are not"),
        ({"scores": {"p00": float("nan")}}, {}, "not finite"),
        ({"scores": {"p00": "much"}}, {}, "damaged"),
        ({"scores": ["p00"]}, {}, "damaged"),
        ({"scores": None}, {}, "damaged"),
        ({"atom_seed": "00"}, {}, "seed of atoms is none"),
        ({"atom_seed": "x"}, {}, "damaged"),
        ({"suspicion": [[["p99"], [0.0], 0.0, 1]]}, {}, "groups that there are not"),
        ({"suspicion": [[["p00", "p01"], [0.0], 0.0, 1]]}, {}, "groups that there are not"),
        ({"suspicion": [[["p00"], [float("nan")], 0.0, 1]]}, {}, "not finite"),
        ({"suspicion": [[["p00"], [0.0]]]}, {}, "damaged"),
        ({"dead": ["p99"]}, {}, "parties that there are not"),
        ({}, {"gradient": np.zeros(LENGTH + 1)}, r"gradient is no array \(4,\) of float64"),
        ({}, {"gradient": np.zeros(LENGTH, dtype=np.float32)}, r"gradient is no array \(4,\) of float64"),
        ({}, {"params": np.zeros(LENGTH)}, r"params is no array \(4,\) of float32"),
        ({}, {"moments": np.zeros((1, LENGTH - 1))}, r"moments is no array \(1, 4\) of float64"),
    ],
)
def test_damage_is_refused(
    state: dict[str, object], arrays: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    plan = written(path, Trust({A: 1.0}, np.zeros(LENGTH)))
    with safe_open(path, "numpy") as file:
        meta = file.metadata()
        held = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    meta["state"] = json.dumps({**json.loads(meta["state"]), **state})
    save_file({**held, **arrays}, path, metadata=meta)
    with pytest.raises(ConfigError, match=reason):
        read_checkpoint(path, plan, training="some")
