"""SHARE, figure 3a, with the paper's network on Fashion-MNIST: ``securefl compare``, as far as the time goes.

The figure's file and its paper scale are those of ``securefl reproduce share``, whose data set is CIFAR-10.
Finished curves and checkpoints stay in the folder of results, and the next run continues.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools.cuda.environment import ROOT, cpus
from tools.cuda.measures.commands import call
from tools.cuda.measures.measure import Measure
from tools.cuda.unit import Result, Task, TimeIsUpError

FIGURE: Final = "3a"
FOLDER: Final = ROOT / "scenarios" / "papers" / "share"
SCALE: Final = "_image-paper.toml"
_LEAST: Final = 30.0
"""Seconds below which no round would end."""


def comparison(figure: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
    """Return a comparison file: the curves and claims of a figure of SHARE, on Fashion-MNIST."""
    scenario = {**scenario, "data": {**scenario["data"], "set": "fashion-mnist"}}
    lines = [f"title = {_value(figure['title'])}"]
    plain = {key: value for key, value in scenario.items() if not isinstance(value, dict)}
    lines += ["[scenario]", *_fields(plain)]
    for name, table in scenario.items():
        if isinstance(table, dict):
            lines += [f"[scenario.{name}]", *_fields(table)]
    for curve in figure["curves"]:
        overrides = [*figure["overrides"], *curve["overrides"]]
        lines += ["[[curves]]", *_fields({**curve, "overrides": overrides})]
    for claim in figure["claims"]:
        lines += ["[[claims]]", *_fields(claim)]
    return "\n".join(lines) + "\n"


def measure_figure(task: Task) -> Iterator[Result]:
    """Yield a result for each curve: accuracies by round, all of them or as many as there was time for.

    Raises:
        TimeIsUpError: some curves are not finished.
        RuntimeError: the command failed.
    """
    task.need(_LEAST)
    folder = task.out / f"share-{FIGURE}-{task.device}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{FIGURE}-fashion.toml"
    figure, scenario = (
        tomllib.loads((FOLDER / name).read_text(encoding="utf-8")) for name in (f"{FIGURE}.toml", SCALE)
    )
    file.write_text(comparison(figure, scenario), encoding="utf-8")
    jobs = max(1, min(len(figure["curves"]), cpus() - 1))
    arguments = ["compare", str(file), "--seeds", "1", "--jobs", str(jobs), "--device", task.device]
    arguments += ["--out", str(folder), "--data-dir", str(task.data_dir)]
    up = False
    try:
        code = call(arguments, task, folder / "log")
    except TimeIsUpError:
        up, code = True, 0
    if code != 0:
        text = (folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
        raise RuntimeError(f"securefl compare: exit code {code}\n{text}")
    yield from curves(file, folder, jobs)
    if up:
        raise TimeIsUpError


def curves(file: Path, folder: Path, jobs: int) -> Iterator[Result]:
    """Yield the results that ``securefl compare`` has left of a comparison, also when it was interrupted."""
    from securefl.lab.experiments import Source, comparison_of, scenario_key  # noqa: PLC0415 - needs packages

    exhibit = comparison_of(file)
    plan = exhibit.plan("desk", Source(exhibit.study.datasets[0]))
    for label, scenario in plan.scenarios.items():
        stem = f"{scenario_key(scenario)}-0"
        whole, part = (folder / ".work" / f"{stem}{end}" for end in (".json", ".part.json"))
        path = whole if whole.exists() else part
        if not path.exists():
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        accuracies = record["accuracies"]
        yield {
            "part": label,
            "planned": scenario.stop.rounds,
            "rounds": len(accuracies),
            "complete": path == whole,
            "accuracies": accuracies,
            "total_seconds": record["seconds"],
            "jobs": jobs,
        }


def _fields(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items()]


def _value(value: Any) -> str:
    """Return a number, a string, a boolean or a list of them in TOML, where they are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)


MEASURES: Final = (
    Measure(
        name="share-3a",
        title="SHARE, figure 3a, on Fashion-MNIST",
        main=measure_figure,
        worth=70,
        baseline_worth=None,
        seconds={"cuda": 45},
        limit=3600,
        refused={"cpu": "takes days on a CPU: 9 curves of 200 rounds, 60 parties with the paper's network"},
        needs_data=True,
    ),
)
