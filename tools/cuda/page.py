"""The page on GPU runs, from the JSON lines of one or several files.

``python -m tools.cuda.page`` writes ``docs/results/cuda.md`` from ``docs/results/cuda.jsonl``; files that
are named beside it are added to these lines first. The newest result of each part, device and machine
counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, Final

from tools.cuda.environment import ROOT
from tools.cuda.lines import DONE, SKIPPED, Line, encode, read_lines
from tools.cuda.measures.measure import measures
from tools.cuda.quantities import duration, memory, rate, ratio, share
from tools.cuda.suites import SUITES

PAGE: Final = ROOT / "docs" / "results" / "cuda.md"
LINES: Final = PAGE.with_suffix(".jsonl")
_LAST: Final = 5
"""Rounds whose mean accuracy is the final one, as in the figure."""

Key = tuple[str, ...]
Row = Sequence[str]


def newest(lines: Iterable[Line]) -> list[Line]:
    """Return the lines that count, each in the place of the first line that it replaces.

    Of each part of a unit, of each end and of each environment it is the newest one, by device and machine.
    Failed tests count if they are of the newest run of their suite.
    """
    found: dict[Key, Line] = {}
    for line in lines:
        former = found.setdefault(_key(line), line)
        if str(line["run"]) >= str(former["run"]):
            found[_key(line)] = line
    runs = {
        _place(line): line["run"]
        for line in found.values()
        if line["kind"] == "result" and line.get("part") == "tests"
    }
    return [
        line
        for line in found.values()
        if line["kind"] != "test" or runs.get(_place(line), line["run"]) == line["run"]
    ]


def render(lines: Iterable[Line]) -> str:
    """Return the page."""
    kept = newest(lines)
    sections = [
        _opening(kept),
        _section("Machines", _MACHINES, _machines(kept)),
        _tests(kept),
        _section(
            "One party's training",
            (
                "training",
                "device",
                "a round",
                "least to most",
                "examples a second",
                "GPU memory",
                "GPU against CPU",
            ),
            _training(kept),
            "Medians of 3 to 30 rounds after one that does not count. Samples are drawn at random in "
            "these shapes. On a CPU training has one thread, as in a party's process. GPU memory is the "
            "most that torch had allocated.",
        ),
        _section(
            "Party processes on one device",
            (
                *("federation", "device", "processes", "a round", "its training", "start and end"),
                *("memory of a process", "GPU memory of a process", "GPU memory of all"),
            ),
            _federations(kept),
            "`securefl run --broker embedded` with a process for each party, against `securefl simulate "
            "--exact`: one process that trains for all parties in turn. Medians without the first "
            "round. Training is the time from the first shares to the last masked update; start and end "
            "is the time of the command outside of rounds. Memory is resident memory, the median over "
            "processes; forked processes share a part of it.",
        ),
        _section(
            "Simulations",
            (
                "parties",
                "device",
                "a round",
                "least to most",
                "its training",
                "start and end",
                "memory",
                "GPU memory",
            ),
            _simulations(kept),
            "`securefl simulate fashion` with clusters of 5, the median and no attack; its 60,000 "
            "images are split over the parties. Medians without the first round.",
        ),
        _section(
            "SHARE, figure 3a, on Fashion-MNIST",
            ("curve", "device", "rounds", "a round", "accuracy"),
            _share(kept),
            "The figure's settings at the paper's scale, network included; the data set is "
            f"Fashion-MNIST, not CIFAR-10. Accuracy is the mean of the last {_LAST} rounds so far. "
            "Curves are simulated side by side, so that a round takes longer than alone.",
        ),
        _section(
            "Not measured",
            ("suite or measure", "device", "reason"),
            _gaps(kept),
            empty="No suite or measure was left out.",
        ),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _opening(lines: Sequence[Line]) -> str:
    gpus = sorted({_device(line) for line in lines if line["kind"] == "result" and line["device"] == "cuda"})
    cpus = sorted({_device(line) for line in lines if line["kind"] == "result" and line["device"] == "cpu"})
    if gpus:
        first = f"These checks have run on {' and '.join(gpus)}."
    else:
        first = (
            "No GPU has run these checks yet. The code paths for GPUs have not run on one; all figures are"
            " of CPUs."
        )
    if cpus:
        first += f" {'For comparison they' if gpus else 'They'} have run on {' and '.join(cpus)}."
    return (
        "# GPU training, tested and measured\n\n"
        f"{first}\n\n"
        "`make cuda` runs the contract suites and the measures; `make cuda-page` writes this page from"
        " [cuda.jsonl](cuda.jsonl). Do not edit it. The newest result of each device counts."
    )


_MACHINES: Final = (
    "machine",
    "processor",
    "Python",
    "torch",
    "numpy",
    "driver",
    "GPU memory",
    "run",
    "commit",
)


def _machines(lines: Sequence[Line]) -> Iterator[Row]:
    newest_first = {line["machine"]: line for line in lines if line["kind"] == "environment"}
    for name, line in sorted(newest_first.items()):
        versions = line.get("versions", {})
        yield (
            name,
            line.get("processor", "-"),
            line.get("python", "-"),
            versions.get("torch", "-"),
            versions.get("numpy", "-"),
            line.get("driver", "-"),
            memory(line.get("gpu_mib")),
            str(line["run"])[:10],
            f"`{line['commit']}`" if line.get("commit") else "-",
        )


def _tests(lines: Sequence[Line]) -> str:
    titles = {suite.name: suite.title for suite in SUITES}
    rows = []
    for line in _results(lines, *titles):
        skipped = ", ".join(f"{reason} ({count})" for reason, count in line.get("reasons", {}).items())
        count = f"{line['skipped']}: {skipped}" if skipped else str(line["skipped"])
        end = "" if line.get("complete", True) else " (interrupted)"
        rows.append(
            (titles[line["unit"]], _device(line), f"{line['passed']}{end}", str(line["failed"]), count)
        )
    text = _section("Contract tests", ("suite", "device", "passed", "failed", "skipped"), rows)
    failed = [
        f"- `{line['test']}` on {_device(line)}: {_last_line(line)}"
        for line in lines
        if line["kind"] == "test" and line["outcome"] == "failed"
    ]
    return text + ("\n\nFailed:\n\n" + "\n".join(failed) if failed else "")


def _training(lines: Sequence[Line]) -> Iterator[Row]:
    found = _results(lines, "training")
    slow = {(line["part"], line["machine"]): line["seconds"] for line in found if line["device"] == "cpu"}
    for line in _by_part(found):
        before = slow.get((line["part"], line["machine"]))
        gain = ratio(before, line["seconds"]) if before and line["device"] == "cuda" else "-"
        yield (
            line["text"],
            _device(line),
            duration(line["seconds"]),
            _range(line),
            rate(line["examples"], line["seconds"]),
            memory(line.get("peak_mib")),
            gain,
        )


def _federations(lines: Sequence[Line]) -> Iterator[Row]:
    names = [name for name in measures() if name.startswith("federation-")]
    for line in _by_part(_results(lines, *names)):
        lost = f" (as few as {line['counted']} in time)" if line["counted"] < line["parties"] else ""
        yield (
            f"`{line['scenario']}`, {line['parties']} parties: {line['text']}{lost}",
            _device(line),
            str(line["processes"]),
            duration(line["seconds"]),
            duration(line["training"]),
            duration(line["start_and_end"]),
            memory(line.get("rss_mib")),
            memory(line.get("gpu_mib")),
            memory(line.get("gpu_total_mib")),
        )


def _simulations(lines: Sequence[Line]) -> Iterator[Row]:
    names = [name for name in measures() if name.startswith("simulation-")]
    for line in sorted(_results(lines, *names), key=lambda one: (one["parties"], _device(one))):
        yield (
            f"{line['parties']:,}",
            _device(line),
            duration(line["seconds"]),
            _range(line),
            duration(line["training"]),
            duration(line["start_and_end"]),
            memory(line.get("rss_mib")),
            memory(line.get("gpu_total_mib")),
        )


def _share(lines: Sequence[Line]) -> Iterator[Row]:
    for line in _by_part(_results(lines, "share-3a")):
        accuracies = line["accuracies"]
        yield (
            line["part"],
            _device(line),
            f"{line['rounds']} of {line['planned']}",
            duration(line["total_seconds"] / line["rounds"]) if line["rounds"] else "-",
            share(mean(accuracies[-_LAST:])) if accuracies else "-",
        )


def _gaps(lines: Sequence[Line]) -> Iterator[Row]:
    titles = {suite.name: suite.title for suite in SUITES}
    titles |= {name: measure.title for name, measure in measures().items()}
    measured = {_place(line) for line in lines if line["kind"] == "result"}
    for line in lines:
        if line["kind"] != "end" or line["unit"] not in titles:
            continue
        # A run without time for it takes nothing away from the results of an earlier one.
        if line["outcome"] != DONE and not (line["outcome"] == SKIPPED and _place(line) in measured):
            errors = line.get("errors", ())
            last = f" (`{errors[-1]}`)" if errors else ""
            yield titles[line["unit"]], _device(line), f"{line['outcome']}: {line['why']}{last}"


def _section(
    title: str, heads: Row, rows: Iterable[Row], note: str = "", *, empty: str = "No result yet."
) -> str:
    """Return a section with a note and a table, or with ``empty`` if there are no rows."""
    found = list(rows)
    text = f"## {title}\n\n"
    if not found:
        return text + empty
    if note:
        text += f"{note}\n\n"
    table = [heads, ["---"] * len(heads), *found]
    return text + "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in table)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _results(lines: Iterable[Line], *names: str) -> list[Line]:
    return [line for line in lines if line["kind"] == "result" and line["unit"] in names]


def _by_part(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of one part beside each other, the parts in the order of their first lines."""
    order = {
        key: place for place, key in enumerate(dict.fromkeys((one["unit"], one["part"]) for one in lines))
    }
    return sorted(lines, key=lambda one: (order[one["unit"], one["part"]], _device(one)))


def _range(line: Line) -> str:
    return f"{duration(line['least'])} to {duration(line['most'])}"


def _device(line: Line) -> str:
    """Return the device by name: the GPU, or the CPU with its machine."""
    gpu, _, processors = str(line["machine"]).rpartition(", ")
    if line["device"] == "cuda":
        return gpu
    return f"a CPU, {processors}" if gpu == "no GPU" else f"the CPU beside {gpu}, {processors}"


def _last_line(line: Mapping[str, Any]) -> str:
    errors = line.get("error") or ["no message"]
    return f"`{str(errors[-1]).strip().replace('`', '')}`"


def _place(line: Line) -> Key:
    return str(line["unit"]), str(line["device"]), str(line["machine"])


def _key(line: Line) -> Key:
    return (*_place(line), str(line["kind"]), str(line.get("part", "")), str(line.get("test", "")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Add the lines of the named files to the committed ones, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="*", help="files of JSON lines to add")
    given = parser.parse_args(arguments)
    kept = newest(line for path in (LINES, *given.files) for line in read_lines(path))
    LINES.write_text("".join(f"{encode(line)}\n" for line in kept), encoding="utf-8")
    PAGE.write_text(render(kept), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and {LINES.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
