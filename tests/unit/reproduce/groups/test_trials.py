"""Figures of trials: files, running with interruptions, verdicts, page."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import scenarios
from securefl.cli.reproduce import RESULTS
from securefl.errors import ConfigError
from securefl.reproduce.groups.page import trials_page
from securefl.reproduce.groups.record import Cell, conclude, plot_of, read_trial_records, trial_key
from securefl.reproduce.groups.sheet import Method, Trials, choose_trials, read_trials, trial_papers
from securefl.reproduce.groups.trial import Outcome, Trial
from securefl.reproduce.shelf import papers
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


def _only(root: Path) -> Trials:
    (trials,) = read_trials(root, "tiny")
    return trials


def test_the_bundled_figures_are_read_and_no_others_are_taken_for_them() -> None:
    assert trial_papers(PRESETS) == ("br-ifca",)
    panels = [one.sheet.panel for one in read_trials(PRESETS, "br-ifca")]
    assert panels[:3] == ["1a", "1b", "1c"]
    assert "br-ifca" not in papers(PRESETS)


def test_a_trial_is_the_same_whatever_is_run_beside_it(tmp_path: Path) -> None:
    trials = _only(trial_shelf(tmp_path))
    (point,) = trials.size("desk").points
    trial = Trial(trials.setup(point), trials.common, 0)
    found = {method.label: outcome for method, outcome in trial.run(trials.sheet.methods)}
    for method in trials.sheet.methods:
        ((_, alone),) = trial.run([method])
        assert msgspec.structs.replace(alone, seconds=0) == msgspec.structs.replace(
            found[method.label], seconds=0
        )
    assert found["robust"].matched < found["mean"].matched
    assert found["staged"].recovered == 1.0
    cells = [Cell(method=label, at="d = 4", trials=(one,)) for label, one in found.items()]
    record = conclude(trials, "desk", cells, 1.0)
    assert [verdict.ruling for verdict in record.verdicts] == ["holds"]
    assert plot_of(trials, record).columns == ("d = 4",)
    page = trials_page("tiny", [trials], {("1a", "desk"): record}, "tiny")
    assert f"| robust | {found['robust'].matched:.3f}" in page
    assert "**holds**: beats the mean" in page
    assert "changed since" not in page
    changed = _only(trial_shelf(tmp_path / "b", FIGURE.replace("margin = 0.01", "margin = 0.02")))
    assert "changed since" in trials_page("tiny", [changed], {("1a", "desk"): record}, "tiny")


def test_claims_about_points_that_were_not_run_are_not_judged(tmp_path: Path) -> None:
    trials = _only(trial_shelf(tmp_path))
    outcome = Outcome(nearest=0.1, matched=0.1, recovered=1.0, seconds=0.0)
    record = conclude(trials, "desk", [Cell(method="robust", at="d = 4", trials=(outcome,))], 0.0)
    assert record.verdicts == ()


def test_what_is_kept_goes_by_what_an_outcome_follows_from(tmp_path: Path) -> None:
    trials = _only(trial_shelf(tmp_path))
    (point,) = trials.size("desk").points
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
        ("--table", "--table: br-ifca has figures only (--figure)"),
    ],
)
def test_data_and_tables_of_drawn_problems_are_refused_by_name(
    option: str, said: str, tmp_path: Path
) -> None:
    given = ("--figure", "1a", option, "mnist", "--out", tmp_path)
    assert refusal(call("reproduce", "br-ifca", *given)) == said


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"1a"', '"1b"', "the file is called 1a.toml"),
        ("robust @ d = 4", "robust @ d = 5", "there is no curve"),
        ('label = "staged"', 'label = "robust"', "two methods have the same label"),
        ("dimension = 4 }", "dimension = 4 }, { groups = 3, machines = 20, dimension = 4 }", "one place"),
        ("machines = 20", "machines = 0", "machines"),
        (
            "machines = 20",
            "machines = 1",
            r"scale\.desk\.points\.0: 1 honest machines are fewer than 2 groups",
        ),
        ("machines = 20", "machines = 20, fewest = 21", "1 to 20 points, not 21"),
        (
            '{ type = "mean" }',
            '{ type = "fltrust" }',
            r"methods\.1\.rule: the server's own data have no group",
        ),
    ],
)
def test_files_that_are_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_trials(trial_shelf(tmp_path, FIGURE.replace(old, new)), "tiny")


def test_scales_and_panels_that_are_not_there(tmp_path: Path) -> None:
    trials = _only(trial_shelf(tmp_path))
    with pytest.raises(ConfigError, match="no 'paper' scale"):
        trials.size("paper")
    with pytest.raises(ConfigError, match="no figure '2'"):
        choose_trials((trials,), ("2",))
    assert choose_trials((trials,), ("1",)) == choose_trials((trials,), ("all",)) == (trials,)


def test_the_list_has_one_line_a_figure_on_a_narrow_terminal() -> None:
    there = read_trials(PRESETS, "br-ifca")
    listed = call("reproduce", "br-ifca", "--list", width=80).stdout.splitlines()
    records = read_trial_records(RESULTS / "br-ifca")
    drawn = [[s for s in one.sheet.scale if (one.sheet.panel, s) in records] or ["desk"] for one in there]
    wanted = [(one.sheet.panel, scale) for one, some in zip(there, drawn, strict=True) for scale in some]
    assert [line.split()[0] for line in listed[1:]] == [panel for panel, _ in wanted]
    assert all(len(line) <= 80 for line in listed)
    assert all(scale in line for (_, scale), line in zip(wanted, listed[1:], strict=True))
    assert re.search(r"^1c +Distance over .* \d of \d hold +\d+ min", "\n".join(listed), re.MULTILINE)
    detailed = call("reproduce", "br-ifca", "--figure", "1c", "--list").stdout
    assert detailed.startswith("figure 1c: Distance over the number of groups\n  claim: All algorithms")
    assert detailed.count("    does not hold: ") + detailed.count("    holds: ") >= 4
