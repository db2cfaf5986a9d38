"""`securefl bench crypten --order`: what the median inside one cluster costs under CrypTen, one member lying.

All members run in one process, one after another. Counted are the words of the computation itself, without
boxes and frames, and the dealer's work apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import msgspec
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from securefl.base.arrays import F64, I64, U64
from securefl.base.entropy import Entropy, OsEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum import (
    Done,
    Failed,
    Incoming,
    Session,
    Tuples,
    World,
    check_zeros,
    deal,
    load,
    median_trim,
    order_requests,
    order_session,
)

SIZES: Final = ((3, 100), (3, 1000), (5, 100), (5, 1000))
"""(members, coordinates) of the default rows."""
FACTOR: Final = -10
"""What the last member multiplies an honest update with."""
_CONTEXT: Final = b"order benchmark".ljust(32, b"\0")
_SCALE: Final = 2**16


@dataclass(frozen=True, slots=True)
class OrderRun:
    """One size; times are medians over repetitions."""

    members: int
    length: int
    """d: coordinates."""
    rounds: int
    """Times that everybody waits for everybody."""
    sent: int
    """Bytes that a member sends to all others together."""
    dealt: int
    """Bytes from the dealer to the first member."""
    dealer_seconds: float
    wall_seconds: float
    """All members, one after another."""
    mean_beyond: float
    """Coordinates in which the plain mean lies beyond all honest values, as a part of all."""
    median_beyond: float
    """The same of the median."""


def run_order(
    sizes: Iterable[tuple[int, int]] = SIZES, repetitions: int = 3, entropy: Entropy | None = None
) -> tuple[OrderRun, ...]:
    """Measure every size.

    Raises:
        ConfigError: CrypTen is missing.
        UsageError: fewer than 3 members, or a result that is not the median of the sorted values: a bug.
    """
    source = entropy or OsEntropy()
    load()  # its import is not the computation's
    rows = []
    for members, length in sizes:
        runs = [_once(members, length, source.child(members, length, i)) for i in range(repetitions)]
        rows.append(
            replace(
                runs[0],
                dealer_seconds=median(run.dealer_seconds for run in runs),
                wall_seconds=median(run.wall_seconds for run in runs),
            )
        )
    return tuple(rows)


def _once(members: int, length: int, entropy: Entropy) -> OrderRun:
    generator = np.random.default_rng(1)
    honest = np.round((1 + 0.3 * generator.standard_normal((members - 1, length))) * _SCALE).astype(np.int64)
    vectors = np.concatenate([honest, FACTOR * honest[:1]])
    trim = median_trim(members)
    requests = order_requests(members, length, trim)
    began = time.perf_counter()
    deals = deal(_CONTEXT, members, requests, entropy)
    dealt = time.perf_counter()
    names, everybody = [PartyId(f"p{rank:02d}") for rank in range(members)], range(members)
    shares = _shared(vectors, entropy)
    keys = {(a, b): entropy.child("pair", a, b).draw(32) for b in everybody for a in range(b)}
    made = []
    for rank in everybody:
        pairs = {other: keys[min(rank, other), max(rank, other)] for other in everybody if other != rank}
        world = World(names, rank, check_zeros(pairs, everybody, rank))
        tuples = Tuples(deals[rank], rank, _CONTEXT, requests, "dealer")
        made.append(order_session(world, shares[rank], trim, tuples))
    opened, rounds, sent = _drive(made)
    ended = time.perf_counter()
    if not np.array_equal(opened, np.sort(vectors, axis=0)[trim : members - trim].sum(axis=0)):
        raise UsageError("the computation opened something else than the values in the middle")
    return OrderRun(
        members,
        length,
        rounds,
        sent,
        len(deals[0].correction) + len(deals[0].seed),
        dealt - began,
        ended - dealt,
        _beyond(vectors.mean(axis=0), honest),
        _beyond(opened / (members - 2 * trim), honest),
    )


def _shared(vectors: I64, entropy: Entropy) -> U64:
    """Additive shares of everybody's vector, by holder: u64 ``(members, members, length)``."""
    members, length = vectors.shape
    raw = entropy.child("shares").draw(8 * (members - 1) * vectors.size)
    shares = np.empty((members, members, length), np.uint64)
    shares[1:] = np.frombuffer(raw, "<u8").reshape(members - 1, members, length)
    shares[0] = vectors.view(np.uint64) - shares[1:].sum(axis=0, dtype=np.uint64)
    return shares


def _drive(made: Sequence[Session[I64]]) -> tuple[I64, int, int]:
    """The result, the rounds, and what the first member sent in bytes."""
    inboxes: list[list[Incoming]] = [[] for _ in made]
    results: dict[int, I64] = {}
    rounds = sent = 0
    while True:
        waiting, inboxes = inboxes, [[] for _ in made]
        for rank, session in enumerate(made):
            progress = session.resume(waiting[rank])
            if isinstance(progress, Failed):
                raise progress.error
            for out in progress.outbound:
                inboxes[out.to].append(Incoming(rank, out.number, out.payload))
                sent += len(out.payload) * (rank == 0)
            if isinstance(progress, Done):
                results[rank] = progress.result
        if len(results) == len(made):
            return results[0], rounds, sent
        rounds += 1


def _beyond(values: F64, honest: I64) -> float:
    return float(((values < honest.min(axis=0)) | (values > honest.max(axis=0))).mean())


def order_json(runs: Iterable[OrderRun]) -> bytes:
    """The report; field names are those of :class:`OrderRun`."""
    return msgspec.json.format(msgspec.json.encode(list(runs)), indent=2)


def print_order(console: Console, runs: Iterable[OrderRun]) -> None:
    """Print one line for each size."""
    table = Table(
        box=box.SIMPLE_HEAD, title=f"median inside one cluster under MPC, one member at {FACTOR}x: medians"
    )
    for column in ("m", "d", "rounds", "MB up", "MB dealt", "dealer s", "wall s", "mean out", "median out"):
        table.add_column(column, justify="right")
    for run in runs:
        table.add_row(
            str(run.members),
            f"{run.length:,}",
            str(run.rounds),
            f"{run.sent / 1e6:,.2f}",
            f"{run.dealt / 1e6:,.2f}",
            f"{run.dealer_seconds:.2f}",
            f"{run.wall_seconds:.2f}",
            f"{run.mean_beyond:.0%}",
            f"{run.median_beyond:.0%}",
        )
    console.print(table)
