"""`securefl bench dpsgd`: CPU time of a step of DP-SGD per example, beside plain SGD, on one thread.

Nets of Xiang et al. 2023 (Tables 7 and 8): 784-32-10 with ELU (25,450 parameters), and three 5x5 convolutions
of 16 channels with GroupNorm on 28x28 images (21,802). A step of DP-SGD loads the parameters, draws a batch
of fixed size from 3,000 records, and makes one update. Plain SGD trains on as many examples in batches of the
same size.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn

from securefl import scenario
from securefl.base import entropy
from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.training import batched, data, dpsgd, models, sgd

RECORDS = 3_000
PARTIES = 20
PLAIN = "plain SGD"
AIMS = {"mlp": 40.0, "cnn": 500.0}
"""Target of microseconds per example at batches of 16."""

_SHAPE, _CLASSES = (28, 28), 10
_CPU = torch.device("cpu")
_Work = tuple[Callable[[], object], int]


@dataclass(frozen=True, slots=True)
class DpRow:
    """One way of training one net."""

    net: str
    parameters: int
    way: str
    microseconds: float
    """CPU time per example, median over repetitions."""
    ratio: float
    """Median ratio to plain SGD in the same repetition."""


@dataclass(frozen=True, slots=True)
class DpReport:
    """Results of `securefl bench dpsgd`."""

    batch: int
    repetitions: int
    torch: str
    rows: tuple[DpRow, ...]


def run_dpsgd(batch: int = 16, repetitions: int = 5, steps: int = 40) -> DpReport:
    """Measure both nets; ``batch`` is the number of examples of a step, ``steps`` that of each repetition.

    Raises:
        UsageError: a batch outside [1, 3000], or no repetition or step.
    """
    if not 1 <= batch <= RECORDS or repetitions < 1 or steps < 1:
        raise UsageError(
            f"batch must be from 1 to {RECORDS}, repetitions and steps at least 1; found {batch},"
            f" {repetitions} and {steps}"
        )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = [row for name in AIMS for row in _measure(name, net(name), batch, repetitions, steps)]
    finally:
        torch.set_num_threads(threads)
    return DpReport(batch, repetitions, str(torch.__version__), tuple(rows))


def net(name: str) -> nn.Module:
    """Return ``mlp`` (Xiang et al. 2023, Table 8) or ``cnn`` (Table 7), for 28x28 images and ten classes."""
    model = models.Mlp(hidden=(32,), activation="elu") if name == "mlp" else models.GroupNormCnn()
    return models.build_model(model, _SHAPE, _CLASSES, seed=1)


def _measure(name: str, module: nn.Module, batch: int, repetitions: int, steps: int) -> list[DpRow]:
    ways = _ways(module, batch, steps)
    for work, _ in ways.values():
        work()  # warm-up
    runs = [
        {way: _seconds(work) / examples for way, (work, examples) in ways.items()} for _ in range(repetitions)
    ]
    return [
        DpRow(
            name,
            len(models.to_vector(module)),
            way,
            1e6 * statistics.median(run[way] for run in runs),
            statistics.median(run[way] / run[PLAIN] for run in runs),
        )
        for way in ways
    ]


def _ways(module: nn.Module, batch: int, steps: int) -> dict[str, _Work]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((RECORDS, *_SHAPE)).astype(np.float32)
    y = rng.integers(0, _CLASSES, RECORDS)
    shard = data.Shard(x, y, _CLASSES, _SHAPE)
    params, own = models.to_vector(module), entropy.InsecureSeededEntropy(1)
    carry = rng.standard_normal(len(params)) / 100
    dp = scenario.DpSgd(sampler="fixed-size", momentum=0.1, carry="own")
    config = scenario.Training(batch_size=batch, learning_rate=0.01)
    examples = min(steps * batch, RECORDS)
    plain = sgd.LocalTrainer(module, replace(shard, x=x[:examples], y=y[:examples]), config, _CPU)
    trainer = dpsgd.DpSgdTrainer(module, shard, config, dp, _CPU)
    pool, (portion,) = data.pool_samples([(x, y)], _CPU)
    mapped = dpsgd.DpStep(module, dpsgd.PoolSource(pool, _SHAPE), batch, dp)
    mapped.way = dpsgd.Mapped(module)
    fleet = batched.DpFleet(module, pool, _SHAPE, config, dp)
    rounds = -(-steps // PARTIES)

    def update(carry: F64 | None) -> None:
        for step in range(steps):
            trainer.update(params, carry, own.child(step))

    def together() -> None:
        for step in range(rounds):
            jobs = [batched.DpJob(portion, own.child(step, party), None) for party in range(PARTIES)]
            list(fleet.updates(params, jobs))

    def one_by_vmap() -> None:
        for step in range(steps):
            mapped.load(params)
            drawn = dpsgd.draw_batch("fixed-size", RECORDS, batch, own.child(step))
            slots = dpsgd.draw_slots(mapped.slots, batch, own.child("slots", step))
            mapped.update(dpsgd.DrawnBatch(drawn, drawn, None), slots)

    return {
        PLAIN: (lambda: plain.train(params, own), examples),
        "DP-SGD": (lambda: update(None), steps * batch),
        "with a carry": (lambda: update(carry), steps * batch),
        f"{PARTIES} parties at once": (together, rounds * PARTIES * batch),
        "vmap(grad)": (one_by_vmap, steps * batch),
    }


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def print_dpsgd(console: Console, report: DpReport) -> None:
    """Print the table."""
    title = f"DP-SGD, batches of {report.batch}: CPU us per example, medians of {report.repetitions}"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    table.caption = "aim, at batches of 16: " + ", ".join(f"{name} {aim:g} us" for name, aim in AIMS.items())
    table.pad_edge, table.padding = False, (0, 1, 0, 0)
    for column in ("net", "way"):
        table.add_column(column, no_wrap=True)
    for column in ("parameters", "us", "times plain"):
        table.add_column(column, justify="right")
    for row in report.rows:
        style = "green" if row.microseconds <= AIMS[row.net] else "yellow"
        table.add_row(
            row.net,
            row.way,
            f"{row.parameters:,}",
            f"[{style}]{row.microseconds:,.1f}[/]",
            f"{row.ratio:.2f}",
        )
    console.print(table)
