"""A head on a frozen backbone: only the head travels, is noised and moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.training.models.catalogue import build_model
from securefl.training.models.checkpoint import load_model
from securefl.training.models.parts.custom import CustomModel
from tests.live.federated import Run, run, simulate
from tests.live.scenarios import write_scenario

pytestmark = pytest.mark.live

FACTORY = "tests.unit.training.factories:with_frozen_backbone"
HEAD = (96 + 1) * 10
SETTINGS = (
    f"model={{ type = 'custom', factory = '{FACTORY}' }}",
    "encoding.clip=1.0",
    "encoding.scale_bits=9",
    "privacy.unit=party",
    "privacy.multiplier=1.5",
    "deadlines.submit=12",  # a training that takes longer, on a busy machine, sends zeros
)


def sets(*settings: str) -> tuple[str, ...]:
    return tuple(part for one in settings for part in ("--set", one))


def masked(ended: Run, party: str) -> list[int]:
    """Words of each masked input that a party sent."""
    sent: list[dict[str, Any]] = [dict(entry.fields) for entry in ended.transcript(party).of_kind("sent")]
    return [fields["vector"]["length"] for fields in sent if fields["message"] == "MaskedInput"]


def test_noise_moves_the_head_and_nothing_else_travels(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, rounds=3)
    ended = run(scenario, tmp_path / "run", *sets(*SETTINGS), "--insecure-seeded-entropy")
    assert ended.exit_code == 0, ended.stderr
    built = build_model(CustomModel(factory=FACTORY), (8, 8), 10, seed=0)
    saved = load_model(ended.directory.model_file)
    assert saved.keys() == dict(built.named_parameters()).keys(), "the model is saved whole"
    for name in ("0.1.weight", "0.1.bias"):
        assert np.array_equal(saved[name], built.get_parameter(name).detach().numpy())
    moved = np.abs(saved["1.weight"] - built.get_parameter("1.weight").detach().numpy())
    assert moved.std() > 0.1, "by noise, mostly"
    for party in (f"p{index:02}" for index in range(6)):
        assert masked(ended, party) == [HEAD] * 3
    twin = simulate(scenario, tmp_path / "twin", *sets(*SETTINGS), "--insecure-seeded-entropy")
    assert twin.directory.model_file.read_bytes() == ended.directory.model_file.read_bytes()
