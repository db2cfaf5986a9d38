"""What the page says of one panel."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.reproduce.judging import measured
from securefl.reproduce.page import page
from securefl.reproduce.record import FORMAT, CurveRecord, FigureRecord, SeedRecord, final_of
from securefl.reproduce.shelf import papers
from tests.unit.reproduce.tiny import shelf

LAST, ROUNDS = 2, 4


def seed(number: int, accuracies: tuple[float, ...], ended: str = "") -> SeedRecord:
    return SeedRecord(seed=number, accuracies=accuracies, ended=ended, seconds=1, device="cpu", dataset="d")


def test_a_seed_that_ended_early_counts_on_the_page_as_in_the_mean(tmp_path: Path) -> None:
    """A destroyed model keeps its last accuracy; the good rounds before it are not averaged in."""
    seeds = (seed(0, (0.5, 0.8, 0.8, 0.9)), seed(1, (0.8, 0.1), "destroyed"))
    curve = CurveRecord(
        label="attack",
        baseline=False,
        scenario="",
        final=final_of("attack", seeds, LAST, ROUNDS),
        seeds=seeds,
    )
    presets = papers(shelf(tmp_path))["tiny"]
    record = FigureRecord(
        format=FORMAT,
        paper="tiny",
        panel="7b",
        scale="desk",
        title="t",
        settings="",
        note="n",
        parties=6,
        rounds=ROUNDS,
        last=LAST,
        leakage_reported=False,
        curves=(curve,),
        verdicts=(),
        seconds=2.0,
        jobs=1,
        versions={},
    )
    text = page("tiny", presets, {("7b", "desk"): record}, "tiny")
    assert "| attack | 0.475 | 0.850, 0.100 (round 2: destroyed) |" in text
    assert curve.final == pytest.approx(sum(measured(s.accuracies, "final", LAST, ROUNDS) for s in seeds) / 2)
