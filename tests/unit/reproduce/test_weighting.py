"""The figures of Portnoy et al. 2022: files that are feasible, and what is measured of a split."""

from __future__ import annotations

from pathlib import Path

import pytest

import scenarios
from securefl.cli.splits import split_of
from securefl.config.behaviours import FalseCount, ModelNegation
from securefl.config.load import parse_scenario
from securefl.errors import ConfigError
from securefl.reproduce.figure import ScaleName
from securefl.reproduce.measure import Job
from securefl.reproduce.sheets.exhibits import Exhibit, exhibits
from securefl.reproduce.sheets.pictures import picture
from securefl.reproduce.sheets.record import CellRecord, SheetRecord
from securefl.reproduce.sheets.sources import nowhere
from securefl.reproduce.sheets.tabulate import Done, tabulate
from tests.unit.cli.programs import SCENARIO

EXHIBITS = exhibits(Path(scenarios.__path__[0]) / "papers", "weighting")
NUMBERS = {one.item.number: one for one in EXHIBITS}
UNEVEN = "data.partition={ type = 'log-normal', sigma = 2.0 }"
TRUNCATE = "weighting={ mode = 'truncate', alpha = 0.2, alpha_star = 0.5 }"


def test_all_figures_of_the_paper_and_one_of_ours() -> None:
    assert set(NUMBERS) == {"1", "2", "3", "4", "A1", "A2", "clusters"}


@pytest.mark.parametrize("scale", ["desk", "paper"])
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda one: one.item.key)
def test_every_cell_is_feasible(exhibit: Exhibit, scale: ScaleName) -> None:
    for dataset in exhibit.datasets():
        plan = exhibit.plan(scale, nowhere(dataset, None))
        assert not plan.refused
        assert len(plan.scenarios) == len(exhibit.sheet.kept(scale))


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


def job(*overrides: str) -> Job:
    return Job(scenario=parse_scenario(SCENARIO, overrides), seed=0, folder=Path("unused"))


def test_what_is_measured_of_a_split() -> None:
    record, (counts,) = split_of(job(UNEVEN), "sizes")
    assert sum(counts) == 120
    assert record.accuracies == (round((counts[0] + counts[1]) / 120, 6),)
    record, (alphas, caps) = split_of(job(UNEVEN, TRUNCATE), "caps")
    assert alphas[0] == 0.5
    assert sorted(caps) == list(caps)
    kept = sum(min(count, caps[alphas.index(2 / 6)]) for count in counts) / 120
    assert record.accuracies == (round(kept, 6),), "ceil(0.2 x 6) = 2 parties"
    with pytest.raises(ConfigError, match="caps follow from it"):
        split_of(job(UNEVEN), "caps")


@pytest.mark.parametrize(("number", "overrides"), [("1", (UNEVEN, TRUNCATE)), ("2", (UNEVEN,))])
def test_figures_of_splits_are_drawn(number: str, overrides: tuple[str, ...]) -> None:
    exhibit = NUMBERS[number]
    dataset, shows = exhibit.datasets()[0], exhibit.sheet.shows
    plan = exhibit.plan("desk", nowhere(dataset, None))
    measured = {label: split_of(job(*overrides), shows) for label in plan.scenarios}
    record = tabulate(
        Done(
            exhibit=exhibit,
            dataset=dataset,
            scale="desk",
            plan=plan,
            results={label: [seed] for label, (seed, _) in measured.items()},
            refused={},
            jobs=1,
            versions={},
            shares={label: shares for label, (_, shares) in measured.items()},
        )
    )
    assert isinstance(record, SheetRecord)
    assert all(isinstance(cell, CellRecord) and cell.shares and not cell.asked for cell in record.cells)
    assert "share of all samples" in record.measure
    assert picture(record).startswith(b"\x89PNG")
