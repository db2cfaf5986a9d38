"""Party processes on one device, over the embedded broker, against one process that trains for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tools.cuda.measures.commands import measure_rounds
from tools.cuda.measures.measure import Measure
from tools.cuda.unit import Result, Task

_BENIGN: Final = ("--set", "behaviours=[]")
"""All parties train, and none drops out: rounds take the same time."""


def measure_federation(scenario: str, parties: int, rounds: int, task: Task) -> Iterator[Result]:
    """Yield a result for ``processes`` and one for ``one-process``."""
    data_dir: Path | None = None if scenario == "quickstart" else task.data_dir
    kinds = {
        "processes": (f"{parties} party processes and a server", ["run", scenario, "--broker", "embedded"]),
        "one-process": ("one process, one party after the other", ["simulate", scenario, "--exact"]),
    }
    for part, (text, arguments) in kinds.items():
        if part not in task.done:
            found = measure_rounds([*arguments, *_BENIGN], task, data_dir, rounds)
            yield {"part": part, "scenario": scenario, "parties": parties, "text": text, **found}


def _of(scenario: str, parties: int, rounds: int) -> Callable[[Task], Iterator[Result]]:
    return partial(measure_federation, scenario, parties, rounds)


MEASURES: Final = (
    Measure(
        name="federation-quickstart",
        title="12 parties on one device, digits",
        main=_of("quickstart", 12, 8),
        worth=20,
        baseline_worth=60,
        seconds={"cuda": 45, "cpu": 30},
        limit=150,
        refused={},
    ),
    Measure(
        name="federation-fashion",
        title="60 parties on one device, Fashion-MNIST",
        main=_of("fashion", 60, 5),
        worth=40,
        baseline_worth=61,
        seconds={"cuda": 80, "cpu": 75},
        limit=240,
        refused={},
        needs_data=True,
    ),
)
