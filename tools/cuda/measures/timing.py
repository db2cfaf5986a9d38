"""Seconds of a step that is repeated: warm-up, then the median with the least and the most."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, Final

LEAST: Final = 3
"""Fewest repetitions."""
MOST: Final = 30


def time_step(
    step: Callable[[], object],
    device: str,
    seconds: float = 3.0,
    now: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the seconds of each of 3 to 30 repetitions, after one that does not count.

    A repetition ends when the device has finished. After ``seconds`` no further one begins.
    """
    wait = synchroniser(device)
    step()
    wait()
    found: list[float] = []
    began = now()
    while len(found) < LEAST or (len(found) < MOST and now() - began < seconds):
        start = now()
        step()
        wait()
        found.append(now() - start)
    return found


def synchroniser(device: str) -> Callable[[], object]:
    """Return a function that waits until the device has finished; on a CPU there is nothing to wait for."""
    if device != "cuda":
        return lambda: None
    import torch  # noqa: PLC0415 - the list of measures needs no torch

    return torch.cuda.synchronize


def spread(times: Sequence[float]) -> dict[str, Any]:
    """Return the fields of a result: median, least and most seconds, and the number of repetitions."""
    return {
        "seconds": _rounded(median(times)),
        "least": _rounded(min(times)),
        "most": _rounded(max(times)),
        "rounds": len(times),
    }


def _rounded(seconds: float) -> float:
    """Four significant digits."""
    return float(f"{seconds:.4g}")
