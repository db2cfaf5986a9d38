"""What the page says of one panel; and its tables as files."""

from __future__ import annotations

from pathlib import Path
from statistics import stdev

import pytest

from securefl.lab.experiments.exhibits import exhibits
from securefl.lab.experiments.page import page
from securefl.lab.experiments.pictures import keep
from securefl.lab.experiments.record import FORMAT, AxisRecord, CellRecord, Record, SeedRecord, final_of
from tests.unit.experiments.tiny import shelf

LAST, ROUNDS = 2, 4


def seed(number: int, accuracies: tuple[float, ...], ended: str = "") -> SeedRecord:
    return SeedRecord(seed=number, accuracies=accuracies, ended=ended, seconds=1, device="cpu", dataset="d")


def test_a_seed_that_ended_early_counts_on_the_page_as_in_the_mean(tmp_path: Path) -> None:
    """A destroyed model keeps its last accuracy; the good rounds before it are not averaged in."""
    seeds = (seed(0, (0.5, 0.8, 0.8, 0.9)), seed(1, (0.8, 0.1), "destroyed"))
    cell = CellRecord(
        label="attack",
        place=("attack",),
        rounds=ROUNDS,
        final=final_of("attack", seeds, LAST, ROUNDS),
        seeds=seeds,
    )
    record = Record(
        format=FORMAT,
        paper="tiny",
        kind="figure",
        number="7b",
        dataset="",
        scale="desk",
        stem="7b-desk",
        title="t",
        settings="",
        note="n",
        shows="curves",
        axes=(AxisRecord(name="curve", choices=("attack",)),),
        last=LAST,
        tolerance=0.1,
        leakage_reported=False,
        cells=(cell,),
        seconds=2.0,
        jobs=1,
        versions={},
    )
    text = page(exhibits(shelf(tmp_path), "tiny"), (record,), "tiny")
    assert "| attack | 0.475 | 0.850, 0.100 (round 2: destroyed) |" in text
    assert cell.final == pytest.approx(sum(cell.finals(LAST)) / 2)


def test_tables_come_as_csv_and_latex_and_say_what_the_spread_is(tmp_path: Path) -> None:
    """And the picture as PNG, and as SVG where it is asked for; the same record gives the same bytes."""
    seeds = (seed(0, (0.5,)), seed(1, (0.7,)))
    made = CellRecord(label="50 %, b", place=("50 %", "b"), rounds=1, final=0.6, seeds=seeds, published=0.7)
    none = CellRecord(label="50 %, c", place=("50 %", "c"), refused="too few clusters")
    record = Record(
        format=FORMAT,
        paper="tiny",
        kind="table",
        number="1",
        dataset="d",
        scale="desk",
        stem="table-1-d-desk",
        title="50 % of all",
        settings="",
        note="",
        shows="table",
        axes=(AxisRecord(name="share", choices=("50 %",)), AxisRecord(name="x", choices=("b", "c"))),
        last=1,
        tolerance=0.1,
        leakage_reported=False,
        cells=(made, none),
        seconds=2.0,
        jobs=1,
        versions={},
    )
    keep(record, tmp_path, "svg")
    assert (tmp_path / "table-1-d-desk.csv").read_text().splitlines() == [
        "share,x,label,mean,standard deviation,seeds,published,refused",
        f'50 %,b,"50 %, b",0.6,{stdev((0.5, 0.7))},2,0.7,',
        '50 %,c,"50 %, c",,,0,,too few clusters',
    ]
    latex = (tmp_path / "table-1-d-desk.tex").read_text()
    assert "2 seeds, ± their standard deviation" in latex
    assert r"50 \% & 0.600 $\pm$ 0.141 & refused \\" in latex
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert {path.suffix for path in before} == {".csv", ".tex", ".json", ".png", ".svg"}
    keep(record, tmp_path, "svg")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
