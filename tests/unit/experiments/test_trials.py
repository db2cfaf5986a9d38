"""Figures of trials: files, running with interruptions, verdicts, page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scenarios
from securefl.base.errors import ConfigError
from securefl.cli.experiment_options import RESULTS
from securefl.lab.experiments.exhibits import Exhibit, choose_exhibits, exhibits, papers
from securefl.lab.experiments.experiment import UNNAMED
from securefl.lab.experiments.judging import rulings_of
from securefl.lab.experiments.page import page
from securefl.lab.experiments.provenance import commit
from securefl.lab.experiments.record import Record, SeedRecord, read_records
from securefl.lab.experiments.tabulate import ExhibitResults, tabulate
from securefl.lab.experiments.trials import Method, Trial, Trials, trial_key
from tests.unit.cli.programs import call, refusal

PRESETS = Path(scenarios.__path__[0]) / "papers"
COMMON = """
title = "Tiny"
byzantine = 0.1
trim = 0.1
noise = 0.2
norm = 1.0
byzantine_norm = 3.0
points = 20
rate = 0.1
iterations = 40
near = 0.25
"""
FIGURE = """
panel = "1a"
title = "A figure"
claim = "It is robust."
settings = "Small."

[scale.desk]
trials = 1
points = [{ groups = 2, machines = 20, dimension = 4 }]

[[methods]]
label = "robust"

[[methods]]
label = "mean"
rule = { type = "mean" }

[[methods]]
label = "staged"
stages = "three"

[[methods]]
label = "found"
start = "split"
against = "smallest-group"

[[claims]]
kind = "below"
says = "beats the mean"
curves = ["robust @ d = 4"]
than = ["mean @ d = 4"]
margin = 0.01
"""


def trial_shelf(tmp_path: Path, figure: str = FIGURE) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir(parents=True)
    (folder / "_trials.toml").write_text(COMMON)
    (folder / "1a.toml").write_text(figure)
    return tmp_path


def _only(root: Path) -> tuple[Exhibit, Trials]:
    (exhibit,) = exhibits(root, "tiny")
    assert isinstance(exhibit.drawn, Trials)
    return exhibit, exhibit.drawn


def conclude(exhibit: Exhibit, results: dict[str, list[SeedRecord]]) -> Record:
    refused = {cell.label: "left out" for cell in exhibit.cells_at("desk") if cell.label not in results}
    plan = exhibit.plan("desk")
    return tabulate(ExhibitResults(
        exhibit=exhibit, dataset=UNNAMED, scale="desk", plan=plan, results=results, refused=refused, jobs=1,
        versions={},
    ))  # fmt: skip


def test_the_bundled_figures_are_read_and_no_others_are_taken_for_them() -> None:
    assert set(papers(PRESETS)) == {"br-ifca", "dp", "hidden-groups", "share", "weighting"}
    known = {paper: exhibits(PRESETS, paper) for paper in papers(PRESETS)}
    drawn = [paper for paper, some in known.items() if any(isinstance(one.drawn, Trials) for one in some)]
    assert drawn == ["br-ifca"]
    assert [one.item.number for one in known["br-ifca"]][:3] == ["1a", "1b", "1c"]


def test_a_trial_is_the_same_whatever_is_run_beside_it(tmp_path: Path) -> None:
    exhibit, trials = _only(trial_shelf(tmp_path))
    (point,) = trials.sheet.scale["desk"].points
    trial = Trial(trials.setup(point), trials.common, 0)
    found = {method.label: outcome for method, outcome in trial.run(trials.sheet.methods)}
    for method in trials.sheet.methods:
        ((_, alone),) = trial.run([method])
        assert alone.values == found[method.label].values
        assert alone.commit == commit()
    assert found["robust"].values["matched"] < found["mean"].values["matched"]
    assert found["staged"].values["recovered"] == 1.0
    record = conclude(exhibit, {f"{label} @ d = 4": [one] for label, one in found.items()})
    rulings = rulings_of([exhibit], [record])[record.stem]
    assert [(one.ruling, one.seeds) for one in rulings.verdicts] == [("not decided", 1)]
    assert [axis.choices for axis in record.axes][1:] == [("d = 4",)]
    text = page([exhibit], (record,), "tiny")
    assert f"| robust | {found['robust'].values['matched']:.3f}" in text
    assert "**not decided**: beats the mean" in text
    assert "of an older" not in text
    changed, _ = _only(trial_shelf(tmp_path / "b", FIGURE.replace("margin = 0.01", "margin = 0.02")))
    assert "of an older" in page([changed], (record,), "tiny")


def test_claims_about_points_that_were_not_run_are_not_judged(tmp_path: Path) -> None:
    exhibit, _ = _only(trial_shelf(tmp_path))
    values = {"nearest": 0.1, "matched": 0.1, "recovered": 1.0}
    outcome = SeedRecord(seed=0, accuracies=(0.1,), values=values)
    record = conclude(exhibit, {"robust @ d = 4": [outcome]})
    rulings = rulings_of([exhibit], [record])[record.stem]
    assert rulings.verdicts == ()
    assert rulings.unjudged == ("beats the mean ('mean @ d = 4' is refused)",)


def test_what_is_kept_goes_by_what_an_outcome_follows_from(tmp_path: Path) -> None:
    _, trials = _only(trial_shelf(tmp_path))
    (point,) = trials.sheet.scale["desk"].points
    trial = Trial(trials.setup(point), trials.common, 0)
    plain = Method(label="a")
    assert trial_key(trial, plain) == trial_key(trial, Method(label="b", baseline=True))
    assert trial_key(trial, plain) != trial_key(trial, Method(label="a", start="random"))
    assert trial_key(trial, plain) != trial_key(Trial(trial.setup, trial.common, 1), plain)


def test_a_device_that_no_trial_would_use_is_refused(tmp_path: Path) -> None:
    given = ("--figure", "1a", "--device", "cuda", "--out", tmp_path)
    reason = "--device: trials of br-ifca are computed on the CPU (leave it out)"
    assert refusal(call("reproduce", "br-ifca", *given)) == reason


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--dataset", "--dataset: br-ifca draws its problems and reads no data (leave it out)"),
        ("--aux", "--aux: br-ifca draws its problems and reads no data (leave it out)"),
        (
            "--table",
            "--table: there is no table 'mnist' (give --figure {panels}, or all; br-ifca has no tables)",
        ),
    ],
)
def test_data_and_tables_of_drawn_problems_are_refused_by_name(
    option: str, said: str, tmp_path: Path
) -> None:
    given = ("--figure", "1a", option, "mnist", "--out", tmp_path)
    panels = ", ".join(one.item.number for one in exhibits(PRESETS, "br-ifca"))
    assert refusal(call("reproduce", "br-ifca", *given)) == said.format(panels=panels)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"1a"', '"1b"', "the file is named 1a.toml"),
        ("robust @ d = 4", "robust @ d = 5", "there is no curve"),
        ('label = "staged"', 'label = "robust"', "two methods have the same label"),
        (
            "dimension = 4 }",
            "dimension = 4 }, { groups = 3, machines = 20, dimension = 4 }",
            "has a point twice",
        ),
        ("machines = 20", "machines = 0", "machines"),
        (
            "machines = 20",
            "machines = 1",
            r"scale\.desk\.points\.0: groups must be at most 1, the number of honest machines; found 2",
        ),
        ("machines = 20", "machines = 20, fewest = 21", "fewest must be from 1 to 20 .points., found 21"),
        (
            '{ type = "mean" }',
            '{ type = "fltrust" }',
            r"methods\.1\.rule: needs data of the server, which belong to no group",
        ),
    ],
)
def test_files_that_are_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        exhibits(trial_shelf(tmp_path, FIGURE.replace(old, new)), "tiny")


def test_scales_and_panels_that_are_not_there(tmp_path: Path) -> None:
    exhibit, _ = _only(trial_shelf(tmp_path))
    with pytest.raises(ConfigError, match="no 'paper' scale"):
        exhibit.cells_at("paper")
    with pytest.raises(ConfigError, match="no figure '2'"):
        choose_exhibits([exhibit], [("figure", "2")])
    for wanted in ("1", "all"):
        assert choose_exhibits([exhibit], [("figure", wanted)]) == (exhibit,)


def test_the_list_has_a_row_for_each_figure_on_a_narrow_terminal() -> None:
    """Only a long verdict continues on further lines."""
    there = exhibits(PRESETS, "br-ifca")
    listed = call("reproduce", "br-ifca", "--list", width=80).stdout.splitlines()
    rows = [line for line in listed[1:] if not line.startswith(" ")]
    records = read_records(RESULTS / "br-ifca")
    wanted: list[tuple[str, str]] = []
    for one in there:
        ran = [record.scale for record in records if record.number == one.item.number]
        wanted += [(one.item.number, scale) for scale in ran] or [(one.item.number, "")]
    assert [line.split()[0] for line in rows] == [panel for panel, _ in wanted]
    assert all(len(line) <= 80 for line in listed)
    assert all(scale in line for (_, scale), line in zip(wanted, rows, strict=True))
    assert re.search(r"^1c +Distance over .* \d+ (?:min|s)\b", "\n".join(listed), re.MULTILINE)
    detailed = call("reproduce", "br-ifca", "--figure", "1c", "--list").stdout
    assert detailed.startswith(
        "figure 1c: Distance over the number of groups\n  claim of figure 1c: All algorithms"
    )
    assert len(re.findall("    (?:ours, )?(?:holds|does not hold|not decided): ", detailed)) >= 4
