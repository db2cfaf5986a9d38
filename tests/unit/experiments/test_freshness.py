"""Results say where they come from; a check finds those that the program no longer computes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from securefl.base.errors import ConfigError
from securefl.cli import reproduce as command
from securefl.lab.experiments import provenance
from securefl.lab.experiments.exhibits import exhibits
from securefl.lab.experiments.freshness import CheckedResult, CheckRecord, compare, merge_checks, read_check
from securefl.lab.experiments.measure import SimulationJob
from securefl.lab.experiments.provenance import commit, draws_of, refuse_mixed
from securefl.lab.experiments.record import SeedRecord, encode, final_of, read_record, write_result
from securefl.scenario import draws
from securefl.scenario.load import parse_scenario
from tests.unit.cli.programs import call, refusal
from tests.unit.experiments.small import shelf as sheet_shelf
from tests.unit.experiments.test_trials import trial_shelf
from tests.unit.experiments.tiny import SCENARIO, shelf


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A paper of one panel that was drawn with one seed; returns where its results are."""
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path))
    out = tmp_path / "results" / "tiny"
    run("tiny", out, "--figure", "7b", "--jobs", "1", "--seeds", "1")
    return out


def run(paper: str, out: Path, *options: str, code: int = 0) -> str:
    ended = call("reproduce", paper, "--out", out, *options, width=200)
    assert ended.exit_code == code, ended.output
    return ended.stdout


def turned(path: Path, curve: int, by: float = 0.02) -> None:
    """Change the first accuracy of a curve in a result."""
    result = json.loads(path.read_text())
    result["cells"][curve]["seeds"][0]["accuracies"][0] += by
    path.write_text(json.dumps(result))


def test_a_result_carries_commit_draws_and_machine(paper: Path) -> None:
    scenario = parse_scenario(SCENARIO)
    record = read_record(paper / "7b-desk.json")
    assert record.versions["processor"].endswith(f" x {os.cpu_count()}")
    for curve in record.cells:
        (seed,) = curve.seeds
        # Behaviours are not drawn under: honest parties do not know them.
        assert (seed.commit, seed.draws) == (commit(), draws_of(scenario))
    assert draws_of(parse_scenario(SCENARIO, ("clustering.size=2",))) != draws_of(scenario)


def test_what_is_as_committed_is_found_the_same_and_keeps_nothing(paper: Path) -> None:
    before = {path: path.read_bytes() for path in paper.rglob("*") if path.is_file()}
    said = run("tiny", paper, "--check")
    assert "7b-desk: same (attack, seed 0, 4 numbers compared)" in said
    assert "0 of 1 result stale" in said
    assert before == {path: path.read_bytes() for path in paper.rglob("*") if path.is_file()}
    assert "stale" not in run("tiny", paper, "--list")
    run("tiny", paper, "--page")
    assert "Stale" not in (paper.parent / "tiny.md").read_text()


def test_what_the_program_no_longer_computes_is_stale_until_it_is_run_again(paper: Path) -> None:
    turned(paper / "7b-desk.json", 1)
    said = run("tiny", paper, "--check", code=1)
    assert "7b-desk: stale: differs by up to 0.020000 (attack, seed 0, 4 numbers compared)" in said
    assert read_check(paper).commit == commit()
    assert "not decided (stale)" in run("tiny", paper, "--list")
    run("tiny", paper, "--page")
    page = (paper.parent / "tiny.md").read_text()
    assert "| not decided (stale) |" in page
    assert (
        f"**Stale:** computed again at commit {commit() or 'unknown'}, attack, seed 0 differs by up" in page
    )
    run("tiny", paper, "--figure", "7b", "--jobs", "1", "--seeds", "1")
    assert "stale" not in run("tiny", paper, "--list")


def test_other_draws_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect itself: another digest, other clusters, another median of their sums."""
    median = SCENARIO.replace("size = 3", 'size = 2\n[aggregation]\nrule = { type = "median" }')
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path, scenario=median))
    paper = tmp_path / "results" / "tiny"
    run("tiny", paper, "--figure", "7b", "--jobs", "1", "--seeds", "1")
    monkeypatch.setattr(draws, "DEFAULTS_VERSION", draws.DEFAULTS_VERSION + 1)
    assert "stale: differs by up to" in run("tiny", paper, "--check", code=1)


def test_seeds_of_other_draws_are_not_averaged(paper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "DEFAULTS_VERSION", draws.DEFAULTS_VERSION + 1)
    before = (paper / "7b-desk.json").read_bytes()
    said = refusal(call("reproduce", "tiny", "--figure", "7b", "--out", paper, "--jobs", "1", "--seeds", "2"))
    assert said.startswith("curve 'no attack': its seeds cannot be averaged: versions of securefl drew")
    assert said.endswith("(--fresh repeats all of them)")
    assert (paper / "7b-desk.json").read_bytes() == before
    run("tiny", paper, "--figure", "7b", "--jobs", "1", "--seeds", "2", "--fresh")
    noted = {seed.draws for curve in read_record(paper / "7b-desk.json").cells for seed in curve.seeds}
    assert noted == {draws_of(parse_scenario(SCENARIO))}


def test_results_from_before_draws_were_noted_do_not_mix_with_todays() -> None:
    def seed(number: int, noted: str) -> SeedRecord:
        return SeedRecord(
            seed=number, accuracies=(0.5,), ended="", seconds=1, device="cpu", dataset="d", draws=noted
        )

    assert final_of("x", [seed(0, ""), seed(1, "")], 1, 1) == 0.5
    with pytest.raises(ConfigError, match=r"seed 0 under an earlier program and seed 1, 2 under abcdabcd"):
        final_of("x", [seed(0, ""), seed(1, "abcdabcd00"), seed(2, "abcdabcd00")], 1, 1)
    refuse_mixed("x", {})


def test_the_start_of_a_simulation_is_the_start_of_the_whole(tmp_path: Path) -> None:
    (preset,) = exhibits(shelf(tmp_path), "tiny")
    scenario = preset.plan("desk").scenarios["attack"]
    whole = SimulationJob(scenario=scenario, seed=1, folder=tmp_path / "a", every=2, last=1)
    accuracies = whole.measure(lambda _rounds: None).accuracies
    assert accuracies[0] != accuracies[1]
    assert [whole.measure_again(tests) for tests in (1, 2, 9)] == [
        accuracies[:1], accuracies[:2], accuracies
    ]  # fmt: skip
    assert not (tmp_path / "b").exists()


def test_tables_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PRESETS", sheet_shelf(tmp_path))
    out = tmp_path / "results" / "small"
    run("small", out, "--table", "2", "--jobs", "1", "--seeds", "1")
    assert "table-2-digits-desk: same (half, " in run("small", out, "--check")
    path = out / "table-2-digits-desk.json"
    result = json.loads(path.read_text())
    for cell in result["cells"]:
        cell["seeds"][0]["accuracies"][0] += 0.25
    path.write_text(json.dumps(result))
    assert "table-2-digits-desk: stale: differs by up to 0.25" in run("small", out, "--check", code=1)
    assert "(stale)" in run("small", out, "--table", "2", "--list")
    run("small", out, "--page")
    assert "**Stale:** computed again" in (out.parent / "small.md").read_text()


def test_a_changed_scenario_is_named_instead_of_compared(paper: Path) -> None:
    scenario = paper.parents[1] / "papers" / "tiny" / "_tiny.toml"
    scenario.write_text(SCENARIO.replace("rounds = 4", "rounds = 3"))
    ended = call("reproduce", "tiny", "--check", "--out", paper, width=200)
    assert "7b-desk: not checked: its scenarios have changed since it was run" in ended.stdout
    assert refusal(ended) == "--check: no result could be computed again (see the reason in each line above)"
    assert not (paper.parent / "tiny-checked.json").exists()


def test_what_has_no_data_here_is_said_without_where_here_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path))
    out = tmp_path / "results" / "tiny"
    run("tiny", out, "--figure", "7b", "--jobs", "1", "--seeds", "1")

    def missing(job: SimulationJob, _tests: int) -> tuple[float, ...]:
        raise ConfigError("data.set", f"mnist is not in {job.data_dir}")

    monkeypatch.setattr(SimulationJob, "measure_again", missing)
    given = ("--data-dir", str(tmp_path / "mine"))
    ended = call("reproduce", "tiny", "--check", "--out", out, *given, width=200)
    assert "7b-desk: not checked: data.set: mnist is not in DATA_DIR" in ended.stdout
    assert str(tmp_path) not in ended.stdout


def test_trials_are_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_PRESETS", trial_shelf(tmp_path))
    out = tmp_path / "results" / "tiny"
    run("tiny", out, "--figure", "1a", "--jobs", "1", "--seeds", "1")
    assert "1a-desk: same (" in run("tiny", out, "--check")
    record = read_record(out / "1a-desk.json")
    assert record.commit == commit()
    worse = [
        msgspec.structs.replace(
            cell,
            seeds=tuple(
                msgspec.structs.replace(one, values=one.values | {"matched": one.values["matched"] + 1})
                for one in cell.seeds
            ),
        )
        for cell in record.cells
    ]
    write_result(out / "1a-desk.json", encode(msgspec.structs.replace(record, cells=tuple(worse))))
    assert "1a-desk: stale: differs by up to 1.0" in run("tiny", out, "--check", code=1)
    run("tiny", out, "--page")
    assert "**Stale:**" in (out.parent / "tiny.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--check", "--fresh", "--seeds", "1"),
            "--seeds, --fresh: --check repeats parts of earlier runs and keeps no result"
            " (leave out one or the other)",
        ),
        (
            ("--check", "--scale", "paper"),
            "--check: {out} holds no result of these at paper scale (see --list for the results there)",
        ),
    ],
)
def test_refused_checks_are_one_line(options: tuple[str, ...], message: str, paper: Path) -> None:
    assert refusal(call("reproduce", "tiny", *options, "--out", paper)) == message.format(out=paper)


def test_a_damaged_check_is_one_line(paper: Path) -> None:
    (paper.parent / "tiny-checked.json").write_text("{")
    said = refusal(call("reproduce", "tiny", "--page", "--out", paper))
    assert "tiny-checked.json: is not a file of --check: " in said
    assert said.endswith("(remove it and check again)")


def test_a_run_that_ends_elsewhere_today_is_stale() -> None:
    assert compare("s", "r", "c", (0.5, 0.6), (0.5, 0.6, 0.7)).difference == 1.0
    assert compare("s", "r", "c", (0.5, 0.6, 0.7), (0.5, 0.6)).difference == 0.0
    assert compare("s", "r", "c", (0.5,), ()).stale


def test_a_check_of_some_leaves_what_was_found_of_others() -> None:
    def found(stem: str, difference: float, at: str = "") -> CheckedResult:
        return CheckedResult(stem=stem, result="r", cell="c", compared=1, difference=difference, commit=at)

    def record(commit: str, *checked: CheckedResult) -> CheckRecord:
        return CheckRecord(paper="p", commit=commit, versions={}, checked=checked)

    both = merge_checks(record("a", found("x", 1), found("y", 1)), record("a", found("x", 0)))
    assert both == record("a", found("x", 0), found("y", 1))
    later = merge_checks(record("b", found("y", 1)), record("a", found("x", 0)))
    assert later == record("a", found("x", 0), found("y", 1, "b"))
    assert "at commit b," in later.note("y", "r")
    assert merge_checks(later, record("c", found("x", 1))) == record("c", found("x", 1), found("y", 1, "b"))
    missing = CheckedResult(stem="y", result="r", unchecked="no data here")
    assert merge_checks(both, record("a", missing)) == both
    assert merge_checks(record("a", found("x", 1)), record("a", missing)).of("y", "r") == missing
    assert both.mark("y", "r") == " (stale)"
    assert both.mark("y", "another result") == both.mark("x", "r") == both.note("x", "r") == ""


def test_no_commit_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_ROOT", tmp_path)
    commit.cache_clear()
    try:
        assert commit() == ""
        (tmp_path / "pyproject.toml").touch()
        assert commit() == ""
    finally:
        commit.cache_clear()
