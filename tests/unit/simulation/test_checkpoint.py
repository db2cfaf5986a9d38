"""What a checkpoint of a simulation holds, and what it may not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.privacy.checks.evidence import CheckEvidence
from securefl.protocol.round.server.features.trust import Trust
from securefl.protocol.round.server.phases import BestOfRun, ModelProgress, ServerState
from securefl.protocol.round.shared.plan import RunPlan
from securefl.runtime.simulation.checkpoint import read_checkpoint, write_checkpoint
from tests.looped import looped
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
    standing = ServerState(
        round=3,
        params=np.array([1, -2, 0.1, 3e38], dtype=np.float32),
        moments=np.array([[0.1, 1 / 3, -1e-300, 7.0]]),
        updates=2,
        rounds_without_update=1,
        trust=trust,
        atom_seed=ATOM_SEED,
        suspicion=SUSPICION,
        progress=ModelProgress(
            best_accuracy=0.1 + 0.2,
            stale_rounds=1,
            best=BestOfRun(1, 0.1 + 0.7, np.array([4, 3, 0.3, -1e-38], dtype=np.float32)),
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
    numbers = (
        standing.round,
        standing.progress.stale_rounds,
        standing.updates,
        standing.rounds_without_update,
    )
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
    ("field", "value", "reason"),
    [
        ("dead", ("p99",), "is a damaged checkpoint: it names unknown parties"),
        ("dead", None, r"is not a checkpoint: Expected `array`, got `None` - at `\$\.dead`"),
        ("version", "securefl simulation 11", "is not a checkpoint of a simulation by this version"),
        ("of", "00", "another scenario, seed or model"),
        ("training", "other", "belongs to a simulation that trains other, this one trains some"),
        ("server", b"", "is not a checkpoint of a server"),
    ],
)
def test_damage_is_refused(field: str, value: object, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    plan = written(path, Trust({A: 1.0}, np.zeros(LENGTH)))
    file = msgspec.msgpack.decode(path.read_bytes())
    assert field in file
    path.write_bytes(msgspec.msgpack.encode(file | {field: value}))
    with pytest.raises(ConfigError, match=reason):
        read_checkpoint(path, plan, training="some")


@looped("at", range(0, 700, 10))
def test_a_changed_byte_is_refused(at: int, tmp_path: Path) -> None:
    path = tmp_path / "c"
    plan = written(path, Trust({A: 1.0}, np.zeros(LENGTH)))
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        ConfigError, match=r": (is (not )?a (damaged )?checkpoint|belongs to another scenario, seed or model)"
    ):
        read_checkpoint(path, plan, training="some")


def test_arrays_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    plan = written(path, Trust({}, None))
    standing, dead = read_checkpoint(path, plan, training="some")
    for other in (
        replace(standing, params=standing.params[1:]),
        replace(standing, moments=standing.moments[:, 1:]),
    ):
        write_checkpoint(path, plan, other, dead, training="some")
        with pytest.raises(ConfigError, match=r"is a damaged checkpoint: (params|moments)"):
            read_checkpoint(path, plan, training="some")
