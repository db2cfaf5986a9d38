from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.cuda import page
from tools.cuda.lines import encode, read_lines
from tools.cuda.page import LINES, PAGE, main, newest, render
from tools.cuda.quantities import duration, memory, rate, ratio, share

CPU = {
    "machine": "no GPU, 2 processors",
    "device": "cpu",
    "run": "2026-01-01T10:00:00+00:00",
    "code": "c",
    "commit": "abc",
}
GPU = {**CPU, "machine": "NVIDIA H100 80GB HBM3, 16 processors", "device": "cuda"}
BESIDE = {**GPU, "device": "cpu"}
LATER = {"run": "2026-01-02T10:00:00+00:00"}


def training(setting: dict[str, str], seconds: float, part: str = "mlp", **more: Any) -> dict[str, Any]:
    times = {"seconds": seconds, "least": seconds, "most": seconds * 2, "rounds": 5, "examples": 1000}
    return {
        "kind": "result",
        "unit": "training",
        **setting,
        "part": part,
        "text": f"the {part}",
        **times,
        **more,
    }


def counted(setting: dict[str, str], passed: int, failed: int) -> dict[str, Any]:
    counts = {"passed": passed, "failed": failed, "skipped": 1, "reasons": {"no GPU": 1}, "complete": True}
    return {"kind": "result", "unit": "contracts", **setting, "part": "tests", **counts}


def failure(setting: dict[str, str], name: str) -> dict[str, Any]:
    error = ["assert 1 == 2", "E  AssertionError"]
    return {"kind": "test", "unit": "contracts", **setting, "test": name, "outcome": "failed", "error": error}


def end(setting: dict[str, str], unit: str, outcome: str, why: str = "", **more: Any) -> dict[str, Any]:
    return {"kind": "end", "unit": unit, **setting, "outcome": outcome, "why": why, "seconds": 1.0, **more}


def row(text: str, begin: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {begin}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def first(text: str) -> str:
    return text.split("\n\n")[1]


def test_the_committed_page_is_that_of_the_committed_lines() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(read_lines(LINES))


def test_the_committed_lines_are_the_newest_ones() -> None:
    lines = read_lines(LINES)
    assert newest(lines) == lines


def test_without_a_gpu_the_page_says_so() -> None:
    text = render([training(CPU, 0.5)])
    assert first(text).startswith("No GPU has run these checks yet.")
    assert first(text).endswith("They have run on a CPU, 2 processors.")


def test_the_devices_stand_in_the_first_paragraph() -> None:
    text = render([training(CPU, 0.5), training(GPU, 0.01), training(BESIDE, 0.2)])
    assert first(text) == (
        "These checks have run on NVIDIA H100 80GB HBM3. For comparison they have run on"
        " a CPU, 2 processors and the CPU beside NVIDIA H100 80GB HBM3, 16 processors."
    )


def test_missing_results_are_named_as_missing() -> None:
    text = render([])
    assert first(text).startswith("No GPU has run these checks yet.")
    assert text.count("No result yet.") == 6
    assert text.endswith("No suite or measure was left out.\n")


def test_a_gpu_is_compared_with_the_cpu_beside_it() -> None:
    text = render([training(CPU, 9.0), training(GPU, 0.01, peak_mib=85.0), training(BESIDE, 0.2)])
    on_gpu = row(text, "the mlp | NVIDIA H100")
    assert on_gpu[2:] == ["10 ms", "10 ms to 20 ms", "100,000", "85 MiB", "20 x"]
    assert row(text, "the mlp | a CPU")[-1] == "-"


def test_the_newest_result_of_a_device_counts() -> None:
    lines = [training({**CPU, **LATER}, 0.25), training(CPU, 0.5), training(CPU, 0.75, part="cnn")]
    text = render(lines)
    assert row(text, "the mlp")[2] == "0.25 s"
    assert row(text, "the cnn")[2] == "0.75 s"


def test_failed_tests_of_the_newest_run_are_listed() -> None:
    old = [failure(GPU, "test_a"), counted(GPU, 3, 1)]
    new = [failure({**GPU, **LATER}, "test_b"), counted({**GPU, **LATER}, 3, 1)]
    text = render([*new, *old])
    assert row(text, "device contracts") == [
        "device contracts",
        "NVIDIA H100 80GB HBM3",
        "3",
        "1",
        "1: no GPU (1)",
    ]
    assert "- `test_b` on NVIDIA H100 80GB HBM3: `E  AssertionError`" in text
    assert "test_a" not in text
    assert "Failed:" not in render([*old, counted({**GPU, **LATER}, 4, 0)])


def test_units_without_results_are_listed_with_their_reason() -> None:
    lines = [
        end(CPU, "share-3a", "skipped", "takes days"),
        end(CPU, "training", "failed", "exit code 1", errors=["Traceback", "ValueError: | bad"]),
        end(CPU, "crypten", "done"),
        training(GPU, 0.1),
        end({**GPU, **LATER}, "training", "skipped", "no time"),
    ]
    text = render(lines)
    assert row(text, "SHARE, figure 3a")[-1] == "skipped: takes days"
    assert "failed: exit code 1 (`ValueError: \\| bad`)" in text
    assert "no time" not in text
    assert "CrypTen" not in text


def test_every_kind_of_result_has_its_row() -> None:
    times = {"seconds": 0.44, "least": 0.4, "most": 0.5, "rounds": 4, "training": 0.3, "start_and_end": 8.7}
    federation = {
        **times,
        "scenario": "quickstart",
        "parties": 12,
        "text": "12 party processes",
        "processes": 13,
        "counted": 11,
    }
    curve = {
        "planned": 200,
        "rounds": 2,
        "complete": False,
        "accuracies": [0.5, 0.6],
        "total_seconds": 7.0,
        "jobs": 9,
    }
    lines: list[dict[str, Any]] = [
        {
            "kind": "environment",
            "unit": "environment",
            **GPU,
            "driver": "580",
            "gpu_mib": 81559.0,
            "versions": {},
        },
        {
            "kind": "result",
            "unit": "federation-quickstart",
            **GPU,
            "part": "processes",
            **federation,
            "rss_mib": 2900,
            "gpu_mib": 520,
            "gpu_total_mib": 6800,
        },
        {"kind": "result", "unit": "simulation-1000", **GPU, "part": "simulate", "parties": 1000, **times},
        {"kind": "result", "unit": "share-3a", **GPU, "part": "R = 1", **curve},
    ]
    text = render(lines)
    assert row(text, "`quickstart`, 12 parties")[2:] == [
        *("13", "0.44 s", "0.30 s", "8.7 s", "2.8 GiB", "520 MiB", "6.6 GiB"),
    ]
    assert row(text, "`quickstart`, 12 parties")[0].endswith("(as few as 11 in time)")
    assert row(text, "1,000")[2:] == ["0.44 s", "0.40 s to 0.50 s", "0.30 s", "8.7 s", "-", "-"]
    assert row(text, "R = 1")[1:] == ["NVIDIA H100 80GB HBM3", "2 of 200", "3.5 s", "55.0 %"]
    assert row(text, "NVIDIA H100 80GB HBM3, 16")[5:] == ["580", "80 GiB", "2026-01-01", "`abc`"]


def test_new_lines_are_added_to_the_committed_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ROOT", tmp_path)
    monkeypatch.setattr(page, "LINES", tmp_path / "cuda.jsonl")
    monkeypatch.setattr(page, "PAGE", tmp_path / "cuda.md")
    for number, line in enumerate((training(CPU, 0.5), training({**CPU, **LATER}, 0.25), training(GPU, 0.1))):
        given = tmp_path / f"{number}.jsonl"
        given.write_text(encode(line) + "\n")
        assert main([str(given)]) == 0
    assert [line["seconds"] for line in read_lines(tmp_path / "cuda.jsonl")] == [0.25, 0.1]
    assert (tmp_path / "cuda.md").read_text() == render(read_lines(tmp_path / "cuda.jsonl"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00124, "1.2 ms"),
        (0.0119, "12 ms"),
        (0.0996, "0.10 s"),
        (0.46, "0.46 s"),
        (0.999, "1.0 s"),
        (4.493, "4.5 s"),
        (42.4, "42 s"),
        (99.6, "1 min 40 s"),
        (3725.0, "62 min 05 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_other_quantities() -> None:
    assert [memory(None), memory(85.4), memory(999), memory(1638)] == ["-", "85 MiB", "999 MiB", "1.6 GiB"]
    assert [rate(1000, 0.0119), rate(128, 4.5), rate(250, 0.0021)] == ["84,000", "28", "119,000"]
    assert [ratio(0.2, 0.01), ratio(0.1, 0.2), ratio(1.0, 0.0)] == ["20 x", "0.50 x", "-"]
    assert share(0.55) == "55.0 %"
