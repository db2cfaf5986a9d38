"""`securefl bench secagg`: one secure sum beside the floor of the same run.

Seconds are CPU seconds of one thread, medians over repetitions and survivors. As in Bonawitz et al. 2017, one
instance counts (:mod:`securefl.lab.bench.rehearsal`).
"""

import gc
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from securefl.base.entropy import Entropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.lab.bench.floor import (
    Operations,
    Rates,
    floor_seconds,
    measure_rates,
    median_rates,
    member_operations,
    server_operations,
)
from securefl.lab.bench.meter import Meter
from securefl.lab.bench.rehearsal import ENCODE, rehearse
from securefl.protocol import messages

SIZES = ((10, 100_000), (10, 1_000_000), (32, 100_000), (32, 1_000_000), (100, 100_000))
"""Default rows: members, words; without dropouts and with 10 %."""


@dataclass(frozen=True, slots=True, order=True)
class BenchRow:
    """One setting to measure.

    Raises:
        UsageError: fewer than 3 members, an empty vector, more than messages allow of either, or more than a
            third dropped.
    """

    members: int
    length: int
    """d, in 32-bit words."""
    dropped: int = 0
    """Members whose masked input never arrives."""

    def __post_init__(self) -> None:
        if (
            not 3 <= self.members <= messages.MAX_CLUSTER
            or not 1 <= self.length <= messages.MAX_VECTOR // 4
            or not 0 <= 3 * self.dropped <= self.members
        ):
            raise UsageError(
                f"members must be 3 to {messages.MAX_CLUSTER}, length 1 to {messages.MAX_VECTOR // 4},"
                f" dropped at most a third of members; found {self.members}, {self.length}, {self.dropped}"
            )


@dataclass(frozen=True, slots=True)
class Side:
    """One member, or the server, in one row; CPU seconds."""

    seconds: float
    """All stages except ``encode``."""
    floor: float
    ratio: float
    encode: float
    """Clip, stochastic rounding and ring (members only), which belong to the update."""
    stages: dict[str, float]
    floor_parts: dict[str, float]
    operations: Operations
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class RowResult:
    """One measured row."""

    row: BenchRow
    member: Side
    server: Side
    rates: Rates


@dataclass(frozen=True, slots=True)
class Fit:
    """Bytes as ``per_word * d + per_member * m + constant``, by least squares over rows without dropouts.

    SHARE (Velicheti et al. 2021), appendix C.5: a client sends and receives O(Rm + Rd), the server O(Rnm +
    Rdn). Here R = 1 and n = m; the server's bytes are per member.
    """

    per_word: float
    per_member: float
    constant: float
    error: float
    """Largest relative error."""


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Results of `securefl bench secagg`."""

    repetitions: int
    rows: tuple[RowResult, ...]
    member_bytes: Fit | None
    """None with fewer than three different rows without dropouts."""
    server_bytes: Fit | None


def standard_rows(sizes: Iterable[tuple[int, int]] = SIZES) -> tuple[BenchRow, ...]:
    """Return each size without dropouts and with 10 % of the members (at least one)."""
    return tuple(BenchRow(m, d, dropped) for m, d in sizes for dropped in (0, max(1, m // 10)))


def run_secagg(rows: Sequence[BenchRow], repetitions: int = 3, entropy: Entropy | None = None) -> BenchReport:
    """Measure ``rows``, each ``repetitions`` times with the rates of the floor in between.

    Raises:
        UsageError: no repetition, or a wrong sum.
    """
    if repetitions < 1:
        raise UsageError(f"repetitions must be at least 1, found {repetitions}")
    source = entropy or OsEntropy()
    # Not measured: first library calls, and tables made once per process.
    rehearse(4, 1_000, 1, source)
    results = tuple(_measure(row, repetitions, source) for row in rows)
    whole = [result for result in results if not result.row.dropped]
    return BenchReport(
        repetitions,
        results,
        _fit([(r.row, r.member.sent + r.member.received) for r in whole]),
        _fit([(r.row, (r.server.sent + r.server.received) / r.row.members) for r in whole]),
    )


def _measure(row: BenchRow, repetitions: int, entropy: Entropy) -> RowResult:
    members: list[Meter] = []
    servers: list[Meter] = []
    rates: list[Rates] = []
    for _ in range(repetitions):
        gc.collect()
        rates.append(measure_rates(row.length))
        rehearsal = rehearse(row.members, row.length, row.dropped, entropy)
        members += rehearsal.members
        servers.append(rehearsal.server)
        # Before and after: on a busy machine the rates drift.
        rates.append(measure_rates(row.length))
    rate, alive = median_rates(rates), row.members - row.dropped
    hashed = round(median(meter.hashed for meter in members))
    server_hashed = round(median(meter.hashed for meter in servers))
    return RowResult(
        row,
        _side(members, member_operations(row.members, alive, row.length, hashed), rate),
        _side(servers, server_operations(row.members, alive, row.length, server_hashed), rate),
        rate,
    )


def _side(meters: Sequence[Meter], operations: Operations, rates: Rates) -> Side:
    stages = {name: median(m.seconds[name] for m in meters) for name in meters[0].seconds if name != ENCODE}
    seconds = median(math.fsum(m.seconds.values()) - m.seconds.get(ENCODE, 0.0) for m in meters)
    parts = floor_seconds(operations, rates)
    floor = math.fsum(parts.values())
    return Side(
        seconds=seconds,
        floor=floor,
        ratio=seconds / floor,
        encode=median(m.seconds.get(ENCODE, 0.0) for m in meters),
        stages=stages,
        floor_parts=parts,
        operations=operations,
        sent=round(median(m.sent for m in meters)),
        received=round(median(m.received for m in meters)),
    )


def _fit(points: Sequence[tuple[BenchRow, float]]) -> Fit | None:
    if len({row for row, _ in points}) < 3:
        return None
    design = np.array([[row.length, row.members, 1.0] for row, _ in points])
    sizes = np.array([size for _, size in points])
    solution, _, rank, _ = np.linalg.lstsq(design, sizes, rcond=None)
    if rank < 3:
        return None
    error = float(np.max(np.abs(design @ solution - sizes) / sizes))
    return Fit(float(solution[0]), float(solution[1]), float(solution[2]), error)
