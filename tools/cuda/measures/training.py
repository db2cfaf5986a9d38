"""Seconds a round and examples a second of one party's training.

On a CPU there is one thread, as in a party's process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.cuda.measures.measure import Measure
from tools.cuda.measures.timing import spread, time_step
from tools.cuda.unit import Result, Task

_SECONDS: Final = 3.0
"""No further repetition of a kind begins after so long."""


def measure_training(task: Task) -> Iterator[Result]:
    """Yield a result for each kind of training."""
    import torch  # noqa: PLC0415 - the list of measures needs no torch

    from securefl.training.models import limit_threads, pick_device  # noqa: PLC0415 - as well
    from tools.cuda.workloads.training import KINDS  # noqa: PLC0415 - as well

    limit_threads()
    if task.device == "cuda":
        torch.zeros(1, device="cuda")  # memory statistics need a context
    device = pick_device("cuda" if task.device == "cuda" else "cpu")
    for part, kind in KINDS.items():
        if part in task.done:
            continue
        task.need(2 * _SECONDS)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        work = kind.build(device)
        times = spread(time_step(work.step, device.type, _SECONDS))
        found = {"part": part, "text": kind.text, **times, "examples": work.examples}
        if device.type == "cuda":
            found["peak_mib"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
        else:
            found["threads"] = torch.get_num_threads()
        yield found


MEASURES: Final = (
    Measure(
        name="training",
        title="One party's training",
        main=measure_training,
        worth=10,
        baseline_worth=11,
        seconds={"cuda": 30, "cpu": 40},
        limit=150,
        refused={},
    ),
)
