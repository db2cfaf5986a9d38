from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import tools.cuda.__main__ as program
from securefl.lab.experiments import Source, comparison_of
from tests.unit.tools_cuda.conftest import FakeSmi
from tools.cuda.__main__ import default_data_dir, main, missing, units
from tools.cuda.environment import ROOT
from tools.cuda.lines import NAME, read_lines
from tools.cuda.measures.commands import measure_rounds
from tools.cuda.measures.measure import measures
from tools.cuda.measures.memory import Memory, resident_bytes
from tools.cuda.measures.share import FOLDER, SCALE, comparison, curves
from tools.cuda.measures.timing import LEAST, spread, time_step
from tools.cuda.runner import Clock
from tools.cuda.unit import Task, TimeIsUpError

NAMES = {
    *("training", "federation-quickstart", "federation-fashion"),
    *("simulation-60", "simulation-1000", "simulation-10000", "share-3a"),
}


def task(folder: Path, seconds: float = 300.0) -> Task:
    return Task(device="cpu", out=folder, data_dir=None, deadline=time.monotonic() + seconds)


def test_measures_are_found() -> None:
    assert set(measures()) == NAMES


def test_on_a_gpu_measures_run_on_its_cpu_as_well(tmp_path: Path) -> None:
    found = [(unit.name, unit.device) for unit in units("cuda", tmp_path, tmp_path)]
    assert found[:4] == [
        ("contracts", "cuda"),
        ("crypten", "cuda"),
        ("training", "cuda"),
        ("training", "cpu"),
    ]
    assert found[-1] == ("share-3a", "cuda")
    assert ("share-3a", "cpu") not in found
    assert {name for name, device in found if device == "cpu"} == NAMES - {"share-3a"}


def test_on_a_cpu_there_is_no_second_device(tmp_path: Path) -> None:
    found = units("cpu", tmp_path, None)
    assert {unit.device for unit in found} == {"cpu"}
    refused = {unit.name: unit.refusal for unit in found if unit.refusal}
    assert "days" in refused["share-3a"]
    assert refused["simulation-60"] == "Fashion-MNIST is missing: give --data-dir"
    assert "federation-quickstart" not in refused


def test_some_units_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [unit.name for unit in units("cpu", tmp_path, None, ["training", "crypten"])] == [
        "crypten",
        "training",
    ]
    assert [unit.required for unit in units("cpu", tmp_path, None, ["training", "crypten"])] == [True, False]
    with pytest.raises(SystemExit):
        units("cpu", tmp_path, None, ["trainings"])
    assert "unknown trainings; there are contracts, crypten, training" in capsys.readouterr().err


def test_missing_packages_are_named() -> None:
    assert missing(sys.path) == ()
    assert "torch" in missing([str(ROOT)])


def test_data_of_the_kit_come_first(tmp_path: Path) -> None:
    (tmp_path / "data" / "fashion-mnist").mkdir(parents=True)
    assert default_data_dir(tmp_path) == tmp_path / "data"


def test_without_packages_or_kit_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tools.cuda.__main__.missing", lambda _path: ("msgspec",))
    with pytest.raises(SystemExit) as refusal:
        main(["--device", "cpu", "--kit", str(tmp_path / "none"), "--out", str(tmp_path)])
    assert refusal.value.code == 2
    assert "packages are missing: msgspec" in capsys.readouterr().err


INSTALL = """
import sys
from pathlib import Path
kit, scratch = map(Path, sys.argv[1:])
scratch.mkdir()  # the installer wants a new folder
(scratch / "of_the_kit.py").write_text((kit / "wheel").read_text())
if (kit / "broken").exists():
    sys.exit("no wheel fits")
"""


def test_the_kit_is_installed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kit, scratch = tmp_path / "kit", tmp_path / "scratch" / "packages"
    monkeypatch.setattr(program, "NEEDED", ("json", "of_the_kit"))
    monkeypatch.setattr(program, "_INSTALL", INSTALL)
    monkeypatch.setattr(program, "_SCRATCH", scratch)
    kit.mkdir()
    (kit / "wheel").write_text("value = 1")
    for text, installs in (("value = 1", True), ("value = 1", False), ("value = 22", True)):
        (kit / "wheel").write_text(text)
        assert program.packages(kit, Clock(60.0)) == scratch
        assert ("installing from the kit: of_the_kit" in capsys.readouterr().out) == installs
        assert (scratch / "of_the_kit.py").read_text() == text
    (kit / "broken").write_text("")
    with pytest.raises(SystemExit) as refusal:
        program.packages(kit, Clock(60.0))
    assert refusal.value.code == 2
    assert "no wheel fits" in capsys.readouterr().err
    (kit / "broken").unlink()
    assert program.packages(kit, Clock(60.0)) == scratch


def test_a_kit_that_lacks_a_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "NEEDED", ("of_the_kit", "of_no_kit"))
    monkeypatch.setattr(program, "_INSTALL", INSTALL)
    monkeypatch.setattr(program, "_SCRATCH", tmp_path / "scratch" / "packages")
    (tmp_path / "wheel").write_text("")
    with pytest.raises(SystemExit):
        program.packages(tmp_path, Clock(60.0))
    assert "the kit lacks of_no_kit" in capsys.readouterr().err


def test_a_device_that_is_missing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [
        sys.executable,
        "-m",
        "tools.cuda",
        "--device",
        "cuda",
        "--out",
        str(tmp_path),
        "--limit",
        "100",
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "torch found no CUDA device" in done.stdout


@pytest.mark.slow
def test_an_interrupt_leaves_a_usable_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.cuda", "--device", "cpu", "--only", "federation-quickstart"]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "federation-quickstart on cpu, at most" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "interrupted; results so far are in" in rest
    lines = read_lines(tmp_path / NAME)
    assert [line["kind"] for line in lines] == ["environment", "end", "end"]
    assert (lines[-1]["outcome"], lines[-1]["why"]) == ("stopped", "interrupted")


def test_a_step_is_timed_after_a_warm_up() -> None:
    clock = [0.0]
    calls: list[None] = []

    def step() -> None:
        calls.append(None)
        clock[0] += 10.0 if len(calls) == 1 else float(len(calls))

    assert time_step(step, "cpu", 1.0, lambda: clock[0]) == [2.0, 3.0, 4.0]
    assert len(calls) == 1 + LEAST


def test_a_spread_is_median_least_and_most() -> None:
    assert spread([0.3, 0.1, 0.20001]) == {"seconds": 0.2, "least": 0.1, "most": 0.3, "rounds": 3}


def test_memory_by_process_and_in_all(smi: FakeSmi) -> None:
    smi(gpu="1000", compute_apps="1, 700")
    resident = iter([{10: 5 << 20, 11: 1 << 20}, {11: 9 << 20, 12: 2 << 20}])
    memory = Memory("cuda", lambda _pid: next(resident))
    smi(gpu="2500", compute_apps="1, 700\n10, 510\n11, 500")
    memory.sample(10)
    smi(gpu="2000", compute_apps="1, 700\n10, 400\n11, 530")
    memory.sample(10)
    assert memory.fields() == {
        "processes": 2,
        "rss_mib": 5,
        "gpu_processes": 2,
        "gpu_mib": 520,
        "gpu_total_mib": 1500,
    }


def test_memory_that_nvidia_smi_hides_is_missing(smi: FakeSmi) -> None:
    smi(gpu="[N/A]", compute_apps="10, [N/A]")
    memory = Memory("cuda", lambda pid: {pid: 1 << 20})
    memory.sample(10)
    assert memory.fields() == {"processes": 1, "rss_mib": 1}


def test_a_process_without_forked_children_counts_itself() -> None:
    (size,) = resident_bytes(os.getpid()).values()
    assert size > 1 << 20


@pytest.mark.slow
def test_a_simulation_is_measured(tmp_path: Path) -> None:
    found = measure_rounds(["simulate", "quickstart", "--exact"], task(tmp_path), None, 3)
    assert found["rounds"] == 2
    assert 0 < found["training"] <= found["most"]
    assert (found["processes"], found["counted"]) == (1, 11)  # p03 drops out of round 2
    assert found["rss_mib"] > 10


def test_a_command_that_fails_is_an_error_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)simulate nowhere: exit code 2.*nowhere"):
        measure_rounds(["simulate", "nowhere"], task(tmp_path), None, 3)


def test_a_command_is_interrupted_when_the_time_is_up(tmp_path: Path) -> None:
    with pytest.raises(TimeIsUpError):
        measure_rounds(["simulate", "quickstart"], task(tmp_path, seconds=0.0), None, 100_000)


def test_the_figure_is_a_comparison_with_the_papers_network(tmp_path: Path) -> None:
    figure, scenario = (tomllib.loads((FOLDER / name).read_text()) for name in ("3a.toml", SCALE))
    file = tmp_path / "3a.toml"
    file.write_text(comparison(figure, scenario), encoding="utf-8")
    exhibit = comparison_of(file)
    plan = exhibit.plan("desk", Source(exhibit.study.datasets[0]))
    assert plan.refused == {}
    assert list(plan.scenarios) == [curve["label"] for curve in figure["curves"]]
    for made in plan.scenarios.values():
        assert (made.data.set, made.stop.rounds, made.parties) == ("fashion-mnist", 200, 60)
        assert made.model.name == "cnn"
        assert made.clustering.size == 10
    assert plan.scenarios["R = 5"].clustering.reclusterings == 5
    assert list(curves(file, tmp_path, 1)) == []


@pytest.mark.slow
def test_curves_that_were_interrupted_are_results(tmp_path: Path) -> None:
    figure, scenario = (tomllib.loads((FOLDER / name).read_text()) for name in ("3a.toml", SCALE))
    file = tmp_path / "3a.toml"
    small = {**scenario, "data": {"train_limit": 600}, "stop": {"rounds": 2}, "model": {"type": "softmax"}}
    figure = {**figure, "curves": figure["curves"][:2], "claims": []}
    text = comparison(figure, small)
    file.write_text(text.replace('"fashion-mnist"', '"digits"'), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "securefl",
        "compare",
        str(file),
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
    ]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    found = list(curves(file, tmp_path, 3))
    assert [(one["part"], one["rounds"], one["complete"]) for one in found] == [
        ("no attack", 2, True),
        ("mean", 2, True),
    ]
    # As an interruption leaves it: the rounds so far, under another name.
    (kept,) = (
        path for path in (tmp_path / ".work").glob("*-0.json") if _first(path) == found[0]["accuracies"]
    )
    record = json.loads(kept.read_text())
    kept.with_suffix(".part.json").write_text(json.dumps({**record, "accuracies": record["accuracies"][:1]}))
    kept.unlink()
    again = list(curves(file, tmp_path, 3))
    assert [(one["part"], one["rounds"], one["complete"]) for one in again] == [
        ("no attack", 1, False),
        ("mean", 2, True),
    ]


def _first(path: Path) -> object:
    return json.loads(path.read_text())["accuracies"]
