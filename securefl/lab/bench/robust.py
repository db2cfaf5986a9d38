"""`securefl bench robust`: rules and pre-aggregators beside their floors.

The floor is one ``np.sort`` along the clusters for coordinate-wise rules, and one Gram matrix for
distance-based rules, the mean and rules with a server gradient. Bulyan has both. Nearest-neighbour mixing has
a Gram matrix and a product of its size with the rows, clipping and bucketing a copy. Seconds are CPU seconds
of all threads; ratios are medians over pairs of floor and rule. Waiting threads of a matrix product count as
working: on a busy machine set OPENBLAS_NUM_THREADS=1.
"""

import gc
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import msgspec
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from securefl import scenario
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans
from securefl.methods import robust

ROBUST_SIZES = ((20, 1_000_000), (60, 100_000), (100, 1_000_000))
AIM = 2.0
FEWEST = 7
"""Fewest clusters that all measured rules accept."""

Floor = Literal["sort", "gram", "sort + gram", "gram + product", "copy"]
_SEED = bytes(32)


@dataclass(frozen=True, slots=True)
class RobustRow:
    """One rule at one size."""

    name: str
    clusters: int
    dimension: int
    seconds: float
    floor: Floor
    floor_seconds: float
    ratio: float
    """Median over repetitions; infinite if a floor took no time."""
    memory: float
    """Peak allocation besides the input, over the input's 8 c d bytes."""


@dataclass(frozen=True, slots=True)
class RobustReport:
    """Results of `securefl bench robust`."""

    repetitions: int
    rows: tuple[RobustRow, ...]


def run_robust(sizes: Iterable[tuple[int, int]] = ROBUST_SIZES, repetitions: int = 3) -> RobustReport:
    """Measure each rule at each size.

    Raises:
        UsageError: no repetition or coordinate, or fewer than ``FEWEST`` clusters.
    """
    sizes = tuple(sizes)
    if repetitions < 1 or any(c < FEWEST or d < 1 for c, d in sizes):
        raise UsageError(
            f"sizes must have {FEWEST} or more clusters and 1 or more coordinates, repetitions be 1 or"
            f" more; found {sizes}, {repetitions}"
        )
    rows = [row for c, d in sizes for row in _measure_size(c, d, repetitions)]
    return RobustReport(repetitions, tuple(rows))


def rules_for(clusters: int) -> tuple[tuple[scenario.Rule, Floor], ...]:
    """Return the measured rules with demanding parameters, and their floors."""
    third, quarter = (clusters - 1) // 3, (clusters - 3) // 4
    return (
        (robust.Mean(), "gram"),
        (robust.Median(), "sort"),
        (robust.TrimmedMean(trim=third), "sort"),
        (robust.MeanAroundMedian(byzantine=third), "sort"),
        (robust.SignMajority(step=1.0), "sort"),
        (robust.Krum(byzantine=third), "gram"),
        (robust.MultiKrum(byzantine=third), "gram"),
        (robust.Bulyan(byzantine=quarter), "sort + gram"),
        (robust.GeometricMedian(), "gram"),
        (robust.CentredClipping(radius=1.0, iterations=3), "gram"),
        (robust.MinimumDiameter(byzantine=min(third, 20)), "gram"),
        (robust.FlTrust(), "gram"),
        (robust.ZenoPlusPlus(), "gram"),
        (robust.InnerProduct(gamma=0.5), "gram"),
    )


def steps_for(clusters: int) -> tuple[tuple[scenario.PreAggregation, Floor], ...]:
    """Return the measured pre-aggregators and their floors."""
    third = (clusters - 1) // 3
    return (
        (robust.NormClipping(radius=1.0), "copy"),
        (robust.Bucketing(size=2), "copy"),
        (robust.NearestNeighbourMixing(byzantine=third), "gram + product"),
        (robust.AdaptiveClipping(byzantine=third), "copy"),
    )


def sample_stack(clusters: int, dimension: int) -> ClusterMeans:
    """Return normal rows of unequal weight around one update; a tenth is -10 times an honest one."""
    rng = np.random.default_rng(1)
    means = rng.standard_normal((clusters, dimension))
    means += 0.5
    means[: clusters // 10] *= -10.0
    weights = rng.uniform(0.5, 1.0, clusters)
    return ClusterMeans(
        means, weights, np.full(clusters, 3), server_gradient=rng.standard_normal(dimension) - 0.5
    )


def _measure_size(clusters: int, dimension: int, repetitions: int) -> Iterable[RobustRow]:
    stack = sample_stack(clusters, dimension)
    floors = _floors(stack)

    def row(what: object, floor: Floor, call: Callable[[], object]) -> RobustRow:
        pairs = [(_seconds(floors[floor]), _seconds(call)) for _ in range(repetitions)]
        ratio = statistics.median(taken / least if least else math.inf for least, taken in pairs)
        least, taken = (statistics.median(column) for column in zip(*pairs, strict=True))
        memory = _peak(call) / stack.means.nbytes
        return RobustRow(_name(what), clusters, dimension, taken, floor, least, ratio, memory)

    for rule, floor in rules_for(clusters):
        yield row(rule, floor, partial(robust.aggregate, rule, stack))
    for step, floor in steps_for(clusters):
        yield row(step, floor, partial(robust.prepare, step, stack, _SEED))


def _floors(stack: ClusterMeans) -> dict[Floor, Callable[[], object]]:
    means = stack.means
    square = means @ means.T

    def sort() -> object:
        return np.sort(means, axis=0)

    def gram() -> object:
        return means @ means.T

    return {
        "sort": sort,
        "gram": gram,
        "sort + gram": lambda: (sort(), gram()),
        "gram + product": lambda: (gram(), square @ means),
        "copy": means.copy,
    }


def _name(what: object) -> str:
    return str(msgspec.to_builtins(what)["type"])


def _seconds(call: Callable[[], object]) -> float:
    collected = gc.isenabled()
    gc.disable()  # as in timeit: a collection would count as the rule's
    try:
        start = time.process_time()
        call()
        return time.process_time() - start
    finally:
        if collected:
            gc.enable()


def _peak(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def print_robust(console: Console, report: RobustReport) -> None:
    """Print a table for each size."""
    sizes = dict.fromkeys((row.clusters, row.dimension) for row in report.rows)
    for size in sizes:
        rows = [row for row in report.rows if (row.clusters, row.dimension) == size]
        console.print(_table(rows, report.repetitions))


def _table(rows: Sequence[RobustRow], repetitions: int) -> Table:
    title = f"{rows[0].clusters} clusters x {rows[0].dimension:,}: CPU ms, medians of {repetitions}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.caption = f"aim: ratio at most {AIM:g}. memory: besides the input, in multiples of it"
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    table.add_column("rule", no_wrap=True)
    for column in ("time", "floor", "ms", "ratio", "memory"):
        table.add_column(column, justify="right")
    for row in rows:
        style = "green" if row.ratio <= AIM else "yellow"
        table.add_row(
            row.name,
            f"{1e3 * row.seconds:,.1f}",
            row.floor,
            f"{1e3 * row.floor_seconds:,.1f}",
            f"[{style}]{row.ratio:.2f}[/]",
            f"{row.memory:.2f}",
        )
    return table
