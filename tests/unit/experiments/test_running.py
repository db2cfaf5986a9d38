"""A table from its file to JSON, plot, verdicts, list and page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import stdev

import msgspec
import pytest

from securefl.cli import reproduce as command
from securefl.lab.experiments import measure
from securefl.lab.experiments.claims import LEAST_SEEDS
from securefl.lab.experiments.exhibits import exhibits
from securefl.lab.experiments.judging import rulings_of
from securefl.lab.experiments.measure import SimulationJob
from securefl.lab.experiments.page import privacy_of
from securefl.lab.experiments.record import CellRecord, Record, SeedRecord, read_record
from securefl.lab.experiments.verdicts import overall
from securefl.scenario.load import parse_scenario
from tests.unit.cli.programs import call, files, refusal
from tests.unit.experiments.small import SCENARIO, SHEET, STUDY, shelf

EMPTY = Record(
    format=1, paper="small", kind="table", number="1", dataset="digits", scale="desk", stem="",
    title="", settings="", note="", shows="table", axes=(), last=1, tolerance=0.1, leakage_reported=False,
    cells=(), seconds=0.0, jobs=1, versions={},
)  # fmt: skip


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small paper in place of the real ones; returns where results shall go."""
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path))
    return tmp_path / "results" / "small"


def reproduce(out: Path, *options: str) -> str:
    jobs = () if "--list" in options else ("--jobs", "1")
    ended = call("reproduce", "small", "--out", out, *jobs, *options, width=150)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_from_file_to_page(paper: Path) -> None:
    said = reproduce(paper, "--table", "2", "--seeds", "1")
    assert "left out: own: is read from files (name their folder by --data-dir, or" in said
    assert "digits for the real thing; half of the attackers" in said
    assert files(paper) >= {"table-2-digits-desk.json", "table-2-digits-desk.png"}
    record = read_record(paper / "table-2-digits-desk.json")
    assert [axis.choices for axis in record.axes] == [("none", "half"), ("1/2", "-10")]
    cells = {cell.label: cell for cell in record.cells}
    assert list(cells) == ["none, 1/2", "none, -10", "half, 1/2", "half, -10"]
    assert [cell.baseline for cell in record.cells] == [True, True, False, False]
    first, last = cells["none, 1/2"], cells["half, -10"]
    assert first.scenario == cells["none, -10"].scenario != last.scenario
    assert (first.published, first.spread, last.published) == (0.8, 0.3, 0.1)
    assert last.final is not None
    assert last.final == last.seeds[0].accuracies[-1]
    assert last.difference == pytest.approx(last.final - 0.1)
    (exhibit,) = (one for one in exhibits(command._PRESETS, paper.name) if one.item.number == "2")
    rulings = rulings_of([exhibit], [record])[record.stem]
    assert [verdict.says for verdict in rulings.verdicts] == ["the attack hurts"]
    assert rulings.unjudged == ("the sign alone hurts ('half, -1' is not run at this scale)",)
    near = [cell for cell in record.cells if cell.difference is not None and abs(cell.difference) <= 0.3]
    assert record.agreement() == f"{len(near)} of 4 cells within 0.1 of the paper's number"
    assert f"{last.final:.3f} (0.10)" in said

    before = (
        (paper / "table-2-digits-desk.json").read_bytes(),
        (paper / "table-2-digits-desk.png").read_bytes(),
    )
    assert "3 simulations kept from an earlier call" in reproduce(paper, "--table", "2", "--seeds", "1")
    after = (
        (paper / "table-2-digits-desk.json").read_bytes(),
        (paper / "table-2-digits-desk.png").read_bytes(),
    )
    assert before == after

    listed = reproduce(paper, "--list")
    assert "Scaled updates" in listed
    assert "table 10" in listed
    assert listed.count("not run") == 2
    assert "digits, desk" in listed
    detailed = reproduce(paper, "--table", "2", "--list")
    assert "table 10" not in detailed
    assert f"digits, desk scale: {overall(rulings.verdicts)}; {record.agreement()}, " in detailed
    assert f"  {rulings.verdicts[0]}\n" in detailed
    assert f"{last.final:.3f} (0.10)" in detailed
    assert "  own: not run" in detailed
    assert len(list(paper.glob("*.json"))) == 1
    reproduce(paper, "--page")
    page = (paper.parent / "small.md").read_text()
    assert "# The small paper" in page
    assert "![Table 2, digits, desk scale](small/table-2-digits-desk.png)" in page
    assert "**Not run yet:** tables 10; figures 1." in page
    assert "Not run yet on own." in page
    assert "| half | 0.90 | 0.50 | 0.10 |" in page
    assert f"| half | {cells['half, 1/2'].final:.3f} (paper 0.80 ± 0.3" in page
    assert "others, half malicious: 0.20" in page
    assert "privacy, none asked for: nothing is hidden" in page


def test_several_seeds_show_their_standard_deviation(paper: Path) -> None:
    said = reproduce(paper, "--table", "10", "--scale", "paper", "--dataset", "digits")
    record = read_record(paper / "table-10-digits-paper.json")
    assert {len(cell.seeds) for cell in record.cells} == {LEAST_SEEDS}
    assert len(record.cells) == 6
    assert record.agreement() == "no published numbers"
    for cell in record.cells:
        finals = sorted(seed.accuracies[-1] for seed in cell.seeds)
        assert cell.deviation(record.last) == pytest.approx(stdev(finals))
        assert cell.final == pytest.approx(sum(finals) / LEAST_SEEDS, abs=1e-6)
    assert f"{record.value(record.cells[0])}" in said
    assert f"{LEAST_SEEDS} seeds, ± their standard deviation" in said


@pytest.mark.parametrize("shows", ["lines", "curves"])
def test_a_figure_with_refused_cells(shows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = f'shows = "{shows}"\n{SHEET}'
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path, sheet))
    out = tmp_path / "out"
    said = reproduce(out, "--figure", "1")
    assert "none, 1/2; none, -10: refused, aggregation.rule" in said
    assert "not judged: the attack hurts ('none, -10' is refused)" in said
    record = read_record(out / "figure-1-digits-desk.json")
    assert [bool(cell.refused) for cell in record.cells] == [True, True, False, False]
    assert (out / "figure-1-digits-desk.png").read_bytes().startswith(b"\x89PNG\r\n")
    reproduce(out, "--page")
    assert "- none, 1/2; none, -10: refused, " in (tmp_path / "out.md").read_text()


def test_list_and_page_before_anything_was_run(paper: Path) -> None:
    assert reproduce(paper, "--list").count("not run") == 3
    reproduce(paper, "--page")
    page = (paper.parent / "small.md").read_text()
    assert "**Not run yet:** tables 2, 10; figures 1." in page
    assert "| none | 0.80 | 0.80 | 0.80 | 0.90 | 0.90 | 0.90 |" in page


def test_what_was_run_from_an_older_file_is_marked(paper: Path) -> None:
    reproduce(paper, "--table", "2", "--dataset", "digits")
    sheet = paper.parents[1] / "papers" / "small" / "scaled.toml"
    sheet.write_text(SHEET.replace("margin = 0.1", "margin = 0.12"))
    assert "(of an older" in reproduce(paper, "--list")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            (),
            "--table: is missing, so there is nothing to do"
            " (give --table N or --figure N, --list, --check or --page)",
        ),
        (("--table", "3"), "--table: there is no table '3' (give 2, 10, or all)"),
        (("--figure", "2"), "--figure: there is no figure '2' (give 1, or all)"),
        (
            ("--table", "2", "--dataset", "own"),
            "--dataset own: is read from files"
            " (name their folder by --data-dir, or the data by --dataset npz:PATH)",
        ),
        (
            ("--table", "10", "--dataset", "npz:here.npz"),
            "--dataset npz:here.npz: no such file or folder (make one)",
        ),
        (
            ("--table", "2", "--aux", "mnist"),
            "--aux: no chosen table or figure needs another data set (leave it out)",
        ),
        (
            ("--table", "2", "--scale", "moon"),
            "--scale: 'moon' is not one of 'desk', 'paper' (desk: minutes; paper: the sizes of the paper,"
            " hours; see: root reproduce -h)",
        ),
    ],
)
def test_bad_calls_are_one_line(options: tuple[str, ...], message: str, paper: Path) -> None:
    assert refusal(call("reproduce", "small", *options, "--out", paper)) == message
    assert not paper.exists()


def test_a_data_set_that_a_table_is_not_about(paper: Path, tmp_path: Path) -> None:
    (tmp_path / "own.npz").touch()
    said = refusal(
        call("reproduce", "small", "--table", "10", "--dataset", f"npz:{tmp_path}/own.npz", "--out", paper)
    )
    assert said == "--dataset: table 10 has no variant for own (give digits, or leave it out)"


def test_tables_of_a_paper_of_panels() -> None:
    said = refusal(call("reproduce", "share", "--table", "1"))
    assert said.startswith("--table: there is no table '1' (give --figure 2a, ")


def test_figures_where_there_are_tables_only() -> None:
    said = refusal(call("reproduce", "hidden-groups", "--figure", "1"))
    assert said.startswith("--figure: there is no figure '1' (give --table ")
    assert "liars, " in said
    assert said.endswith(", or all; hidden-groups has no figures)")


def test_the_list_needs_neither_torch_nor_matplotlib(paper: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from securefl.cli import reproduce\nfrom securefl.cli.app import app\n"
        f"reproduce._PRESETS = Path({str(paper.parents[1] / 'papers')!r})\n"
        f"try:\n app(['reproduce', 'small', '--list', '--page', '--out', {str(paper)!r}])\n"
        "except SystemExit as end:\n assert not end.code\n"
        "print(sorted({'torch', 'matplotlib'} & sys.modules.keys()), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr.strip() == "[]"


def test_what_is_hidden_is_in_the_record(tmp_path: Path) -> None:
    text = SCENARIO.replace(
        "[training]", "[weighting]\nmode = 'ignore'\n[training.dp_sgd]\n[training]"
    ).replace(
        "rounds = 1",
        "rounds = 3\n[privacy]\nunit = 'record'\nmultiplier = 1.5\ndelta = 1e-4\n[encoding]\nscale_bits = 13",
    )
    scenario = parse_scenario(text, ("data.train_limit=200",))
    record = SimulationJob(scenario=scenario, seed=0, folder=tmp_path).measure(lambda _rounds: None)
    assert len(record.accuracies) == 3
    assert record.epsilon is not None
    assert 0 < record.epsilon < 10
    assert record.guarantee.startswith(f"epsilon {record.epsilon:.4g} (PLD; RDP ")
    assert (
        "record level, add-remove, Poisson sampling, q = 32/50, denominator 32, 3 steps" in record.guarantee
    )
    plain = parse_scenario(SCENARIO, ("data.train_limit=200",))
    bare = SimulationJob(scenario=plain, seed=0, folder=tmp_path).measure(lambda _rounds: None)
    assert (bare.epsilon, bare.guarantee) == (None, "")
    omniscient = parse_scenario(
        text,
        (
            "data.train_limit=200",
            "behaviours=[{ kind = 'inner-product-manipulation', epsilon = 1.0, count = 1,"
            " knowledge = 'omniscient' }]",
        ),
    )
    known = SimulationJob(scenario=omniscient, seed=0, folder=tmp_path).measure(lambda _rounds: None)
    assert known.epsilon is None
    assert known.guarantee.startswith("none: omniscient attackers")


@pytest.mark.parametrize(
    ("epsilon", "guarantee", "shown"),
    [
        (
            0.5,
            "epsilon 0.5 at delta 1e-4: record level",
            "none, since the noise follows from the seed; were it secret: epsilon 0.5 at",
        ),
        (None, "none: omniscient attackers", "none: omniscient attackers"),
        (None, "", "not accounted"),
    ],
)
def test_no_epsilon_of_a_simulation_is_printed_as_if_it_held(
    epsilon: float | None, guarantee: str, shown: str
) -> None:
    seed = SeedRecord(
        seed=0,
        accuracies=(0.5,),
        ended="",
        seconds=1.0,
        device="cpu",
        dataset="",
        epsilon=epsilon,
        guarantee=guarantee,
    )
    cell = CellRecord(label="2", place=("2",), baseline=False, asked="epsilon = 2 per record", seeds=(seed,))
    record = msgspec.structs.replace(EMPTY, cells=(cell,))
    (line,) = privacy_of(record)
    assert line.startswith(f"privacy, epsilon = 2 per record: {shown}")


def test_a_model_is_tested_when_asked_for_and_the_simulation_is_the_same(tmp_path: Path) -> None:
    scenario = parse_scenario(SCENARIO.replace("rounds = 1", "rounds = 9"), ("data.train_limit=200",))
    thin = SimulationJob(scenario=scenario, seed=0, folder=tmp_path, every=4, last=2)
    assert thin.read_finished() is None
    found = thin.measure(lambda _rounds: None)
    full = SimulationJob(scenario=scenario, seed=0, folder=tmp_path).measure(lambda _rounds: None).accuracies
    assert len(set(full)) > 4, "the test needs a model that changes"
    assert found.accuracies == (*[full[0]] * 4, *[full[4]] * 3, *full[7:])
    assert (found.tested_every, thin.read_finished() == found) == (4, False), "the full one serves as well"


@pytest.mark.parametrize(("device", "seconds"), [("cpu", 3.5), ("cuda", 70.0)])
def test_the_time_of_a_simulation_is_that_of_its_processor(
    device: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu, elapsed = iter((10.0, 13.5)), iter((100.0, 170.0))
    federation = SimulationJob(scenario=parse_scenario(SCENARIO), seed=0, folder=tmp_path)._assemble(
        parse_scenario(SCENARIO)
    )
    monkeypatch.setattr(measure, "device_of", lambda _federation: device)
    monkeypatch.setattr("time.process_time", lambda: next(cpu))
    monkeypatch.setattr("time.monotonic", lambda: next(elapsed))
    began = measure._seconds(federation)
    assert measure._seconds(federation) - began == seconds


def test_a_simulation_that_may_end_early_tests_every_model(tmp_path: Path) -> None:
    text = SCENARIO.replace("rounds = 1", "rounds = 5\npatience = 4")
    scenario = parse_scenario(text, ("data.train_limit=200",))
    thin = SimulationJob(scenario=scenario, seed=0, folder=tmp_path, every=4, last=1).measure(
        lambda _rounds: None
    )
    full = SimulationJob(scenario=scenario, seed=0, folder=tmp_path).measure(lambda _rounds: None)
    assert thin.accuracies == full.accuracies


def test_a_data_set_that_is_not_at_hand_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = STUDY.replace('remedy = "make one"', 'unavailable = "it is secret"')
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path, study=study))
    out = tmp_path / "out"
    assert "  own: not run (it is secret)" in reproduce(out, "--table", "2", "--list")
    reproduce(out, "--page")
    page = (tmp_path / "out.md").read_text()
    assert "**Not run on** own (it is secret)." in page
    assert "Not run yet on digits." in page
