"""``simulate`` with 60, 1,000 and 10,000 parties: the scenario ``fashion``, clusters of 5 and the median."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tools.cuda.measures.commands import measure_rounds
from tools.cuda.measures.measure import Measure
from tools.cuda.unit import Result, Task

_SETTINGS: Final = ("behaviours=[]", "clustering.size=5", "aggregation.rule={ type = 'median' }")


def measure_simulation(parties: int, rounds: int, task: Task) -> Iterator[Result]:
    """Yield the result for one number of parties."""
    arguments = ["simulate", "fashion"]
    for setting in (f"parties={parties}", *_SETTINGS):
        arguments += ["--set", setting]
    yield {"part": "simulate", "parties": parties, **measure_rounds(arguments, task, task.data_dir, rounds)}


def _of(parties: int, rounds: int) -> Callable[[Task], Iterator[Result]]:
    return partial(measure_simulation, parties, rounds)


MEASURES: Final = tuple(
    Measure(
        name=f"simulation-{parties}",
        title=f"simulate, {parties:,} parties",
        main=_of(parties, rounds),
        worth=worth,
        baseline_worth=worth + 1,
        seconds=seconds,
        limit=150,
        refused={},
        needs_data=True,
    )
    for parties, rounds, worth, seconds in (
        (60, 6, 30, {"cuda": 20, "cpu": 20}),
        (1000, 6, 50, {"cuda": 25, "cpu": 25}),
        (10_000, 3, 55, {"cuda": 60, "cpu": 60}),
    )
)
