"""The figures of Portnoy et al. 2022: files that are feasible, and what is measured of a split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

import scenarios
from securefl.base.errors import ConfigError
from securefl.cli.splits import split_of
from securefl.lab.experiments import pictures
from securefl.lab.experiments.exhibits import Exhibit, exhibits
from securefl.lab.experiments.experiment import ScaleName, StudyDataset
from securefl.lab.experiments.judging import rulings_of
from securefl.lab.experiments.measure import SimulationJob
from securefl.lab.experiments.pictures import picture
from securefl.lab.experiments.record import AxisRecord, CellRecord, Record, SeedRecord
from securefl.lab.experiments.sources import nowhere
from securefl.lab.experiments.tabulate import ExhibitResults, tabulate
from securefl.lab.plots.figures import HeatMap
from securefl.methods.attacks.parts.model_negation import ModelNegation
from securefl.scenario.behaviours import FalseCount
from securefl.scenario.load import parse_scenario
from tests.looped import looped
from tests.unit.cli.programs import SCENARIO, call

EXHIBITS = exhibits(Path(scenarios.__path__[0]) / "papers", "weighting")
NUMBERS = {one.item.number: one for one in EXHIBITS}
UNEVEN = "data.partition={ type = 'log-normal', sigma = 2.0 }"
TRUNCATE = "weighting={ mode = 'truncate', alpha = 0.2, alpha_star = 0.5 }"


def test_all_figures_of_the_paper_and_one_of_ours() -> None:
    assert set(NUMBERS) == {"1", "2", "3", "4", "A1", "A2", "clusters"}


@looped("exhibit, scale", product(EXHIBITS, ["desk", "paper"]))
def test_every_cell_is_feasible(exhibit: Exhibit, scale: ScaleName) -> None:
    for dataset in exhibit.datasets():
        plan = exhibit.plan(scale, nowhere(dataset, None))
        assert not plan.refused
        assert len(plan.scenarios) == len(exhibit.sheet.cells_at(scale))
        # Text has no mean: it is refused when the data are loaded, which no plan does.
        assert dataset.name == "mnist" or all(s.data.standardise is None for s in plan.scenarios.values())


@pytest.mark.parametrize("number", ["4", "A2", "clusters"])
def test_desk_scale_leaves_out_no_attack_rule_or_mode(number: str) -> None:
    sheet = NUMBERS[number].sheet
    assert sheet.cells_at("desk") == sheet.cells()
    choices = {axis.name: {level.label for level in axis.choices} for axis in sheet.axes}
    assert choices["attack"] >= {"none", "negation, 1", "negation, 10 %"}
    assert choices["rule"] == {"mean", "median", "trimmed by weight", "trimmed by count"}
    assert choices["counts"] >= {"ignore", "passthrough", "truncate"}


@pytest.mark.parametrize(
    ("number", "cell", "liars"),
    [
        ("A2", "negation, 1, median, truncate", {"p79": 10_000_000}),
        ("A2", "negation, 10 %, mean, passthrough", {f"p{n}": 1_000_000 for n in range(72, 80)}),
        ("4", "negation, 1, median, truncate", {"p99": 10_000_000}),
    ],
)
def test_the_last_parties_negate_the_model_and_declare_what_the_paper_says(
    number: str, cell: str, liars: dict[str, int]
) -> None:
    exhibit = NUMBERS[number]
    (dataset,) = exhibit.datasets()
    made = exhibit.plan("desk", nowhere(dataset, None)).scenarios[cell]
    negation, lie = made.behaviours
    assert isinstance(negation, ModelNegation)
    assert isinstance(lie, FalseCount)
    assert dict.fromkeys(lie.parties, lie.samples) == liars
    assert negation.parties == lie.parties


def job(*overrides: str) -> SimulationJob:
    return SimulationJob(scenario=parse_scenario(SCENARIO, overrides), seed=0, folder=Path("unused"))


def test_what_is_measured_of_a_split() -> None:
    record, (counts,) = split_of(job(UNEVEN), "sizes")
    assert sum(counts) == 120
    assert record.accuracies == (round((counts[0] + counts[1]) / 120, 6),)
    record, (alphas, caps) = split_of(job(UNEVEN, TRUNCATE), "caps")
    assert alphas[0] == 0.5
    assert sorted(caps) == list(caps)
    kept = sum(min(count, caps[alphas.index(2 / 6)]) for count in counts) / 120
    assert record.accuracies == (round(kept, 6),), "ceil(0.2 x 6) = 2 parties"
    with pytest.raises(ConfigError, match="is missing, but the caps follow from it"):
        split_of(job(UNEVEN), "caps")


def of_split(exhibit: Exhibit, dataset: StudyDataset, *overrides: str) -> Record:
    """The record of a figure that shows a split, as if its data were split as ``overrides`` say."""
    plan, shows = exhibit.plan("desk", nowhere(dataset, None)), exhibit.sheet.shows
    measured = {label: split_of(job(*overrides), shows) for label in plan.scenarios}
    return tabulate(
        ExhibitResults(
            exhibit=exhibit,
            dataset=dataset,
            scale="desk",
            plan=plan,
            results={label: [seed] for label, (seed, _) in measured.items()},
            jobs=1,
            versions={},
            shares={label: shares for label, (_, shares) in measured.items()},
        )
    )


@pytest.mark.parametrize(("number", "overrides"), [("1", (UNEVEN, TRUNCATE)), ("2", (UNEVEN,))])
def test_figures_of_splits_are_drawn(number: str, overrides: tuple[str, ...]) -> None:
    exhibit = NUMBERS[number]
    record = of_split(exhibit, exhibit.datasets()[0], *overrides)
    assert all(isinstance(cell, CellRecord) and cell.shares and not cell.asked for cell in record.cells)
    assert "share of all samples" in record.measure
    assert picture(record).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("number", "overrides", "plotted"),
    [
        ("1", (UNEVEN, TRUNCATE), "the largest U with which alpha of the parties have alpha* of the weight"),
        ("2", (UNEVEN,), "6 parties by their samples, 120 in all"),
    ],
)
def test_notes_of_a_split_name_what_is_plotted_and_not_what_is_measured(
    number: str, overrides: tuple[str, ...], plotted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def draw(_title: str, notes: Sequence[str], _numbers: object, *, kind: str) -> bytes:
        seen.extend(notes)
        return b""

    monkeypatch.setattr(pictures, "draw_caps", draw)
    monkeypatch.setattr(pictures, "draw_sizes", draw)
    exhibit = NUMBERS[number]
    shakespeare = exhibit.datasets()[1]
    record = of_split(exhibit, shakespeare, *overrides)
    picture(record)
    scale, what = seen
    assert scale == "desk scale: 100 speakers (not 715) with 20 sequences of 40 characters in the mean"
    assert what.startswith(plotted)
    assert "one seed" in what
    assert record.measure not in what


def test_what_is_claimed_of_a_split_is_claimed_of_one_data_set() -> None:
    exhibit = NUMBERS["2"]
    records = [of_split(exhibit, one, UNEVEN) for one in exhibit.datasets()]
    said = [rulings_of([exhibit], [one])[one.stem].verdicts for one in records]
    assert ["of 80 clients" in one.says for (one,) in said] == [True, False]
    assert ["of 100 speakers" in one.says for (one,) in said] == [False, True]


def test_a_cell_of_a_heat_map_shows_the_deviation_of_several_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = CellRecord(label="a", place=("a",), rounds=1, final=0.8)
    one = SeedRecord(seed=0, accuracies=(0.8,), ended="", seconds=1.0, device="cpu", dataset="MNIST")
    seeds = tuple(replace(one, accuracies=(final,)) for final in (0.75, 0.85))
    several = replace(cell, label="b", place=("b",), seeds=seeds, published=0.82)
    record = Record(
        format=1, paper="small", kind="figure", number="1", dataset="mnist", scale="desk", stem="", title="",
        settings="", note="", shows="table", axes=(AxisRecord(name="x", choices=("a", "b")),), last=1,
        tolerance=0.1, leakage_reported=False, cells=(replace(cell, seeds=(one,)), several),
        seconds=0.0, jobs=1, versions={},
    )  # fmt: skip
    drawn: list[HeatMap] = []

    def draw(table: HeatMap, _kind: str) -> bytes:
        drawn.append(table)
        return b""

    monkeypatch.setattr(pictures, "draw_heat_map", draw)
    picture(record)
    assert drawn[0].texts == (("0.800", "0.800 (0.82)\n± 0.071"),)


def test_the_list_fits_a_terminal_and_names_figures_as_they_are_asked_for() -> None:
    results = Path(__file__).parents[3] / "docs" / "results" / "weighting"
    listed = call("reproduce", "weighting", "--list", "--out", results, width=80).stdout
    timed = [line.rstrip() for line in listed.splitlines() if ", desk" in line]
    assert timed
    assert all(line.endswith((" s", " min")) for line in timed)
    assert "figure A1 " in listed
