"""`securefl bench sites`: the cost of training in a site, beside the same training without one.

In the party's process: the net 784-64-10 (50,890 parameters), one epoch over 1,000 samples in batches of 32
by ``torch.optim.SGD``. A torch loop with the duties of a local training (seed, parameters in, a finite f64
update out) alternates on one thread with each of: a ``TorchSite`` behind the party's site handling, the bare
loop, the built-in training. Loop and site must end with the same bits. Ratios are medians of CPU time.

In a separate process: a site that returns its d numbers of float32. Wall milliseconds count from parameters
to returned arrays, and for the whole training with conversion to f64 and checks. Copies are bytes over 4 d:
written pages of shared memory, the party's peak allocation by tracemalloc, and the growth of the site's peak
resident memory without the shared memory.
"""

import contextlib
import itertools
import math
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.lab.bench.echo import Echo
from securefl.training import data, models, sgd, sites

SAMPLES, BATCH, RATE = 1_000, 32, 0.1
LENGTH = 10_000_000
AIM_RATIO, AIM_COPIES, AIM_MS = 1.02, 2.0, 60.0
BARE, TRAINER, SITE, BUILT_IN = "bare loop", "loop as a trainer", "TorchSite", "built-in training"
_ECHO = "securefl.lab.bench.echo:Echo"
_CPU, _SHAPE, _CLASSES = torch.device("cpu"), (28, 28), 10
ResultT = TypeVar("ResultT")
Run = tuple[float, F64]


@dataclass(frozen=True, slots=True)
class HereRow:
    """One way of training the net once."""

    batches: str
    way: str
    milliseconds: float
    """CPU time, median over repetitions."""
    ratio: float
    """Median ratio to the loop as a trainer in the same repetition."""
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ApartRow:
    """Transfer to a site in a separate process, and back."""

    length: int
    milliseconds: float
    """Wall clock, from parameters to returned arrays; median."""
    training: float
    """Whole training, up to a checked update of f64, ms."""
    here: float
    """Whole training with the site in the party's process, ms."""
    shared: float
    party: float
    """Further copies in the party."""
    site: float
    """Further copies in the site's process."""

    @property
    def copies(self) -> float:
        """Sum of all copies."""
        return self.shared + self.party + self.site


@dataclass(frozen=True, slots=True)
class SiteReport:
    """Results of `securefl bench sites`."""

    repetitions: int
    torch: str
    here: tuple[HereRow, ...]
    apart: ApartRow


def run_sites(length: int = LENGTH, repetitions: int = 100) -> SiteReport:
    """Measure both kinds of sites.

    Args:
        length: numbers sent to the site in a separate process.
        repetitions: trainings of the net each way; a tenth of them, at least one, in that process.

    Raises:
        UsageError: no repetition or number, or loop and site end with different bits.
    """
    if repetitions < 1 or length < 1:
        raise UsageError(f"repetitions and length must be at least 1, found {repetitions} and {length}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        here = [row for name in _loaders() for row in _here(name, repetitions)]
        apart = _apart(length, -(-repetitions // 10))
    finally:
        torch.set_num_threads(threads)
    return SiteReport(repetitions, str(torch.__version__), tuple(here), apart)


def _samples() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((SAMPLES, *_SHAPE)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(rng.integers(0, _CLASSES, SAMPLES))


def _loaders() -> dict[str, Any]:
    x, y = _samples()
    return {
        "DataLoader": DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True),
        "ready": list(zip(torch.split(x, BATCH), torch.split(y, BATCH), strict=True)),
    }


def _here(name: str, repetitions: int) -> list[HereRow]:
    rows = list[HereRow]()
    with tempfile.TemporaryDirectory() as folder:
        ways = _ways(_loaders()[name], Path(folder) / "site.jsonl")
        trainer = ways.pop(TRAINER)
        for way, train in ways.items():
            seconds = list[tuple[float, float]]()
            for number in range(repetitions + 1):
                # Alternate the two, so that each starts with the other's caches. Updates are dropped at once,
                # as in a party, so that memory is reused.
                (one, expected), (other, found) = trainer(number), train(number)
                if way == SITE and not np.array_equal(expected, found):
                    raise UsageError(
                        "training in loop and site gave different parameters, expected the same bits:"
                        " a bug in securefl"
                    )
                seconds.append((one, other))
            if not rows:
                rows.append(_row(name, TRAINER, [(one, one) for one, _ in seconds[1:]]))
            rows.append(_row(name, way, seconds[1:]))
    return rows


def _row(name: str, way: str, seconds: list[tuple[float, float]]) -> HereRow:
    ratios = [other / one for one, other in seconds]
    low, middle, high = map(float, np.quantile(ratios, (0.25, 0.5, 0.75)))
    return HereRow(name, way, 1e3 * statistics.median(other for _, other in seconds), middle, low, high)


def _ways(loader: Any, log: Path) -> dict[str, Callable[[int], Run]]:
    module, own = (models.build_model(models.Mlp(hidden=(64,)), _SHAPE, _CLASSES, seed=1) for _ in range(2))
    params, (x, y) = models.to_vector(module), _samples()
    site = sites.TorchSite(module, loader, cross_entropy, _sgd, samples=SAMPLES)
    trainer = sites.SiteTrainer(site, sites.Layout.of(module), 1, sites.SiteLog(log))
    config = scenario.Training(batch_size=BATCH, learning_rate=RATE)
    built_in = sgd.LocalTrainer(own, data.Shard(x.numpy(), y.numpy(), _CLASSES, _SHAPE), config, _CPU)

    def bare(number: int) -> Run:
        models.load_vector(module, params)
        # The seed of a site.
        with models.seed_torch(int.from_bytes(InsecureSeededEntropy(number).draw(8), "big") >> 1):
            spent, _ = _time(lambda: _descend(module, loader))
        return spent, models.change(params, models.to_vector(module))

    def as_a_trainer(number: int) -> Run:
        """Train as any local training does: from f32 parameters to a finite f64 update."""

        def train() -> F64:
            models.load_vector(module, params)
            with models.seed_torch(int.from_bytes(InsecureSeededEntropy(number).draw(8), "big") >> 1):
                _descend(module, loader)
            after = models.to_vector(module)
            if not np.isfinite(after).all():
                raise UsageError("training in the loop diverged: the parameters are no longer finite")
            return models.change(params, after)

        return _time(train)

    def through_a_site(number: int) -> Run:
        entropy = InsecureSeededEntropy(number)
        return _time(lambda: trainer.update(number, params, None, entropy))

    def by_ourselves(number: int) -> Run:
        entropy = InsecureSeededEntropy(number)
        spent, after = _time(lambda: built_in.train(params, entropy))
        return spent, models.change(params, after)

    return {TRAINER: as_a_trainer, SITE: through_a_site, BARE: bare, BUILT_IN: by_ourselves}


def _sgd(weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(weights, lr=RATE)


def _descend(module: nn.Module, loader: Any) -> float:
    """Train one epoch with a plain loop; return the mean loss."""
    module.train()
    optimiser, losses = _sgd(module.parameters()), []
    for inputs, targets in loader:
        optimiser.zero_grad()
        loss = cross_entropy(module(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    return math.fsum(losses) / len(losses)


def _apart(length: int, repetitions: int) -> ApartRow:
    layout, params = sites.Layout({"w": (length,)}), np.zeros(length, np.float32)
    site: Any = sites.maker_of(_ECHO, scenario.Scenario(name="bench", parties=1), Path(sys.executable), 0)(
        str(length)
    )
    own: Any = Echo(str(length))
    try:
        trainer, here = (sites.SiteTrainer(one, layout, 1, sites.SiteLog(None)) for one in (site, own))
        numbers = itertools.count()

        def ask_child() -> dict[str, float]:
            context = sites.RoundContext(next(numbers), 1, 0, None)
            return dict(site.fit(layout.views(params), context)[2])

        def time_training(by: sites.SiteTrainer) -> float:
            number = next(numbers)
            entropy = InsecureSeededEntropy(number)
            start = time.perf_counter()
            by.update(number, params, None, entropy)
            return time.perf_counter() - start

        before = ask_child()["peak"]
        tracemalloc.start()
        ask_child()
        party = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        runs = []
        for _ in range(repetitions):
            start = time.perf_counter()
            ask_child()
            runs.append((time.perf_counter() - start, time_training(trainer), time_training(here)))
        shared, grown = _shared_bytes(), ask_child()["peak"] - before
    finally:
        site.close()
    fit, whole, whole_here = (1e3 * statistics.median(run[at] for run in runs) for at in range(3))
    copies = [size / (4 * length) for size in (shared, party, max(0.0, grown - shared))]
    return ApartRow(length, fit, whole, whole_here, *copies)


def _shared_bytes() -> int:
    """Return the bytes of memory shared with sites that were ever written to."""
    found = dict[int, int]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if "memfd:securefl-site" in str(descriptor.readlink()):
                status = descriptor.stat()
                found[status.st_ino] = 512 * status.st_blocks
    return sum(found.values())


def _time(work: Callable[[], ResultT]) -> tuple[float, ResultT]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def print_sites(console: Console, report: SiteReport) -> None:
    """Print two tables."""
    title = f"in the party's process: CPU time of a round, medians of {report.repetitions}"
    table = _table(title, f"aim: {SITE} at most {AIM_RATIO:g} times the loop as a trainer")
    for column in ("batches", "way"):
        table.add_column(column, no_wrap=True)
    for column in ("ms", "times a trainer", "quartiles"):
        table.add_column(column, justify="right")
    for row in report.here:
        good = row.way != SITE or row.ratio <= AIM_RATIO
        ratio = f"[{'green' if good else 'yellow'}]{row.ratio:.3f}[/]"
        quartiles = f"{row.low:.3f} to {row.high:.3f}"
        table.add_row(row.batches, row.way, f"{row.milliseconds:.2f}", ratio, quartiles)
    console.print(table)
    apart = report.apart
    title = f"in a process of its own: d = {apart.length:,}"
    table = _table(title, f"aim: {AIM_MS:g} ms and {AIM_COPIES:g} copies, at d = {LENGTH:,}")
    table.add_column("", no_wrap=True)
    table.add_column("", justify="right")
    table.add_row("there and back, ms", f"{apart.milliseconds:.1f}")
    table.add_row("whole training, ms", f"{apart.training:.1f}")
    table.add_row("the same in the party's process, ms", f"{apart.here:.1f}")
    table.add_row("copies in shared memory", f"{apart.shared:.2f}")
    table.add_row("copies of the party beside it", f"{apart.party:.2f}")
    table.add_row("copies of the site beside it", f"{apart.site:.2f}")
    console.print(table)


def _table(title: str, caption: str) -> Table:
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, title_justify="left")
    table.pad_edge, table.padding, table.caption_justify = False, (0, 1, 0, 0), "left"
    return table
