"""A panel from its file to its JSON, plot, verdict and page; and going on after an interruption."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
import torch

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.cli import batch
from securefl.cli import reproduce as command
from securefl.lab.experiments import measure
from securefl.lab.experiments.exhibits import exhibits
from securefl.lab.experiments.measure import SimulationJob
from securefl.lab.experiments.record import SeedRecord, read_record
from securefl.lab.experiments.workers import run_jobs
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.shared.plan import RunPlan
from securefl.runtime.simulation.checkpoint import write_checkpoint
from tests.unit.cli.programs import call, files, refusal
from tests.unit.experiments.tiny import FIGURE, SCENARIO, shelf


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny paper in place of the real ones; returns where results shall go."""
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path))
    return tmp_path / "results" / "tiny"


def job(tmp_path: Path, label: str = "attack", seed: int = 3) -> SimulationJob:
    (preset,) = exhibits(shelf(tmp_path / "shelf"), "tiny")
    return SimulationJob(scenario=preset.plan("desk").scenarios[label], seed=seed, folder=tmp_path / "work")


def test_from_file_to_page(paper: Path) -> None:
    drawn = call("reproduce", "tiny", "--figure", "7b", "--out", paper, "--seeds", "2", "--jobs", "1")
    assert drawn.exit_code == 0, drawn.output
    assert "digits for the real thing" in drawn.stdout
    assert files(paper) >= {"7b-desk.json", "7b-desk.png", ".work/.gitignore"}
    assert (paper / "7b-desk.png").read_bytes().startswith(b"\x89PNG\r\n")
    record = read_record(paper / "7b-desk.json")
    assert [[len(seed.accuracies) for seed in curve.seeds] for curve in record.cells] == [[4, 4], [4, 4]]
    for curve in record.cells:
        mean = sum(sum(seed.accuracies[-2:]) / 2 for seed in curve.seeds) / 2
        assert curve.final == pytest.approx(mean, abs=1e-6)
    # Two seeds decide nothing.
    assert f"not decided: the attack hurts [attack {record.cells[1].final:.3f} against" in drawn.stdout
    before = (paper / "7b-desk.json").read_bytes(), (paper / "7b-desk.png").read_bytes()

    again = call("reproduce", "tiny", "--figure", "7b", "--out", paper, "--seeds", "2", "--jobs", "1")
    assert "4 simulations kept from an earlier call" in again.stdout
    assert before == ((paper / "7b-desk.json").read_bytes(), (paper / "7b-desk.png").read_bytes())

    (paper / ".work" / "left").write_bytes(b"of another panel")
    fresh = call(
        "reproduce", "tiny", "--figure", "7b", "--out", paper, "--seeds", "2", "--jobs", "1", "--fresh"
    )
    assert fresh.exit_code == 0, fresh.output
    assert "kept from an earlier call" not in fresh.stdout
    assert (paper / ".work" / "left").exists()
    assert [c.final for c in read_record(paper / "7b-desk.json").cells] == [c.final for c in record.cells]

    listed = call("reproduce", "tiny", "--list", "--out", paper)
    _, line = listed.stdout.splitlines()
    assert line.startswith("7b ")
    assert "not decided" in line
    drawn_at = (paper / "7b-desk.json").stat().st_mtime_ns
    detailed = call("reproduce", "tiny", "--figure", "7b", "--list", "--out", paper).stdout
    assert "claim of figure 7b: The mean breaks." in detailed
    assert "    not decided: the attack hurts [attack " in detailed
    assert (paper / "7b-desk.json").stat().st_mtime_ns == drawn_at
    paged = call("reproduce", "tiny", "--page", "--out", paper)
    assert paged.exit_code == 0, paged.output
    text = (paper.parent / "tiny.md").read_text()
    assert "![Figure 7b, desk scale](tiny/7b-desk.png)" in text
    assert f"| attack | {record.cells[1].final:.3f} |" in text
    assert "- *Chosen:* all of it" in text
    assert "- **not decided**: the attack hurts" in text


def test_the_list_before_anything_was_drawn(paper: Path) -> None:
    listed = call("reproduce", "tiny", "--list", "--out", paper)
    assert listed.exit_code == 0, listed.output
    assert "not run" in listed.stdout


def test_no_page_without_a_figure(paper: Path) -> None:
    paged = call("reproduce", "tiny", "--page", "--out", paper)
    assert paged.exit_code == 2
    assert "holds no result yet" in paged.stderr
    assert not (paper.parent / "tiny.md").exists()


def test_ctrl_c_says_how_to_go_on(paper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "run_jobs", interrupted)
    ended = call("reproduce", "tiny", "--figure", "7b", "--out", paper, "--seeds", "2", "--jobs", "1")
    assert ended.exit_code == 3
    assert "give the same command to resume" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_the_list_of_what_was_drawn_from_an_older_file(paper: Path) -> None:
    assert (
        call("reproduce", "tiny", "--figure", "all", "--out", paper, "--jobs", "1", "--seeds", "1").exit_code
        == 0
    )
    preset = paper.parents[1] / "papers" / "tiny" / "7b.toml"
    preset.write_text(FIGURE.replace("margin = 0.1", "margin = 0.12"))
    assert "older figure file" in " ".join(
        call("reproduce", "tiny", "--list", "--out", paper, width=200).stdout.split()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody", "--list"), "PAPER: there are no figures of 'nobody' (give one of tiny)"),
        (
            ("tiny",),
            "--figure: is missing, so there is nothing to do (give --figure N, --list, --check or --page)",
        ),
        (
            ("tiny", "--list", "--fresh", "--scale", "desk"),
            "--scale, --fresh: --list runs nothing, and shows the results of every scale"
            " (leave out one or the other)",
        ),
        (
            ("tiny", "--list", "--jobs", "2", "--seeds", "1"),
            "--seeds, --jobs: --list runs nothing, and shows the results of every scale"
            " (leave out one or the other)",
        ),
        (("tiny", "--figure", "9z"), "--figure: there is no figure '9z' (give 7b, or all)"),
        (
            ("tiny", "--figure", "7b", "--scale", "moon"),
            "--scale: 'moon' is not one of 'desk', 'paper' (desk: minutes; paper: the sizes of the paper,"
            " hours; see: root reproduce -h)",
        ),
        (
            ("tiny", "--figure", "7b", "--device", "tpu"),
            "--device: 'tpu' is not one of 'auto', 'cpu', 'cuda' (Override training.device on this machine;"
            " see: root reproduce -h)",
        ),
    ],
)
def test_bad_calls_are_one_line(arguments: tuple[str, ...], message: str, paper: Path) -> None:
    assert refusal(call("reproduce", *arguments, "--out", paper)) == message
    assert not paper.exists()


def test_the_help_names_every_paper() -> None:
    help_text = " ".join(re.sub(r"[^\w\s,;-]", " ", call("reproduce", "-h", width=200).stdout).split())
    known = [path.name for path in command._PRESETS.iterdir() if path.is_dir() and any(path.glob("*.toml"))]
    assert len(known) >= 5
    assert all(re.search(rf"The paper[^.]*\b{name}\b", help_text) for name in known)


def test_a_gpu_that_is_not_there_is_refused_whatever_is_at_hand(
    paper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = refusal(call("reproduce", "tiny", "--figure", "7b", "--out", paper, "--device", "cuda"))
    assert said.startswith("training.device: ")
    assert not paper.exists()


def test_missing_data_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = SCENARIO.replace('set = "digits"', 'set = "mnist"')
    monkeypatch.setattr(command, "_PRESETS", shelf(tmp_path, scenario=scenario))
    out = tmp_path / "out"
    said = refusal(call("reproduce", "tiny", "--figure", "7b", "--out", out, "--jobs", "1"))
    assert said == "data.set: mnist is read from files (name their folder by --data-dir)"


def test_without_matplotlib_it_does_not_even_start(paper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    said = refusal(call("reproduce", "tiny", "--figure", "7b", "--out", paper))
    assert said == "figures: need matplotlib, which is not installed (pip install 'securefl[plots]')"


def test_the_list_needs_neither_torch_nor_matplotlib() -> None:
    program = (
        "import sys\nfrom securefl.cli.app import app\n"
        "try:\n app(['reproduce', '--list'])\nexcept SystemExit as end:\n assert not end.code\n"
        "print(sorted({'torch', 'matplotlib'} & sys.modules.keys()), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr.strip() == "[]"


@pytest.mark.parametrize("rounds", [1, 2])
def test_an_interrupted_simulation_goes_on_where_it_was(
    rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "BETWEEN_CHECKPOINTS", 0.0)
    whole = job(tmp_path / "whole").measure(lambda _rounds: None)
    halved = job(tmp_path / "halved")

    def interrupted(
        path: Path, plan: RunPlan, standing: ServerState, dead: Collection[PartyId], *, training: str
    ) -> None:
        if standing.round > rounds:
            raise KeyboardInterrupt
        write_checkpoint(path, plan, standing, dead, training=training)

    with monkeypatch.context() as patched:
        patched.setattr(measure, "write_checkpoint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            halved.measure(lambda _rounds: None)
    assert halved.read_finished() is None
    heard: list[int] = []
    resumed = halved.measure(heard.append)
    assert heard == list(range(rounds, 5))
    assert resumed.accuracies == whole.accuracies
    assert halved.read_finished() == resumed
    assert {path.name for path in halved.folder.iterdir()} == {f"{halved.stem}.json"}


def test_a_damaged_checkpoint_or_result_means_from_the_beginning(tmp_path: Path) -> None:
    one = job(tmp_path)
    one.folder.mkdir()
    for suffix in ("safetensors", "part.json", "json"):
        (one.folder / f"{one.stem}.{suffix}").write_text("{")
    assert one.read_finished() is None
    heard: list[int] = []
    assert len(one.measure(heard.append).accuracies) == 4
    assert heard == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_side_by_side_gives_what_one_after_the_other_gives(tmp_path: Path) -> None:
    """And a refusal in a worker is told as it was, to whoever takes it; then the others go on."""
    (preset,) = exhibits(shelf(tmp_path / "mnist", scenario=SCENARIO.replace('"digits"', '"mnist"')), "tiny")
    refused = SimulationJob(
        scenario=preset.plan("desk").scenarios["attack"], seed=0, folder=tmp_path / "work"
    )
    (preset,) = exhibits(shelf(tmp_path / "digits"), "tiny")
    attack = preset.plan("desk").scenarios["attack"]
    jobs = [SimulationJob(scenario=attack, seed=seed, folder=tmp_path / "work") for seed in (3, 4)]
    results: dict[int, SeedRecord] = {}
    heard: list[tuple[int, int]] = []
    errors: dict[int, ConfigError] = {}
    run_jobs(
        [*jobs, refused],
        2,
        lambda index, done: heard.append((index, done)),
        results.__setitem__,
        errors.__setitem__,
    )
    assert errors.keys() == {2}
    assert errors[2].reason == "mnist is read from files"
    assert errors[2].remedy == "name their folder by --data-dir"
    assert results.keys() == {0, 1}
    for index, record in results.items():
        assert [done for job, done in heard if job == index] == [0, 1, 2, 3, 4]
        assert jobs[index].read_finished() == record
        alone = SimulationJob(scenario=attack, seed=jobs[index].seed, folder=tmp_path / "alone")
        assert alone.measure(lambda _rounds: None).accuracies == record.accuracies


def test_the_record_is_json_that_people_can_read(paper: Path) -> None:
    assert (
        call("reproduce", "tiny", "--figure", "7b", "--out", paper, "--seeds", "2", "--jobs", "1").exit_code
        == 0
    )
    text = (paper / "7b-desk.json").read_text()
    assert "verdicts" not in json.loads(text)
    assert max(map(len, text.splitlines())) < 300
    assert len(text.splitlines()) < 120
