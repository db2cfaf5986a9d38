"""Metrics of a run as an event file of TensorBoard."""

from __future__ import annotations

import importlib.util
import io
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.lab import new_folder, run_page
from securefl.runtime.report import RoundRecord

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

FILE_VERSION: Final = "brain.Event:2"
FOLLOW_SECONDS: Final = 2.0
_NAME: Final = "events.out.tfevents.{started}.securefl"
"""TensorBoard reads files with ``tfevents`` in their names."""


class RoundScalars(NamedTuple):
    """Numbers of one round by tag, with the time when it ended, s since 1970."""

    round: int
    ended: float
    values: Mapping[str, float]


def scalars_of(record: RoundRecord) -> Mapping[str, float]:
    """Return the finite numbers of a round by tag. The first part of a tag is its group in TensorBoard."""
    found: dict[str, float | None] = {
        "test/accuracy": record.accuracy,
        "test/loss": record.loss,
        "test/backdoor_success": record.backdoor_success,
        "update/norm": record.update_norm,
        "parties/drawn": len(record.participants),
        "parties/counted": record.survivor_count,
        "parties/left_out": len(record.left_out),
        "parties/joined_late": len(record.joined),
        "sums/opened": len(record.sums),
        "sums/lost": len(record.lost),
        "sums/left_out_by_rule": len(record.rejected),
        "sums/left_out_by_checks": len(record.failed),
        "protocol/redraws": record.redraws,
        "protocol/retries": record.retries,
        "protocol/rejected_messages": sum(record.refusals.values()),
    }
    if record.failures is not None:
        found["parties/failed_trainings"] = len(record.failures)
    known = [spent for spent in (record.epsilon or {}).values() if spent is not None]
    if known:
        found["privacy/largest_epsilon"] = max(known)
    for one in record.metrics:
        found[f"sites/{one.name}"] = one.value
        found |= {f"sites/{one.name}/{part}": getattr(one, part) for part in ("low", "high", "deviation")}
    found |= {f"seconds/{step}": spent for step, spent in record.seconds.items()}
    for way in ("up", "down"):
        sizes = [volumes[way].size for volumes in record.traffic.values() if way in volumes]
        found |= {f"traffic/{way}_bytes": sum(sizes)} if sizes else {}
    found |= {f"tally/{name}": number for name, number in record.tally.items()}
    return {tag: float(value) for tag, value in found.items() if value is not None and math.isfinite(value)}


def add_times(records: Iterable[RoundRecord], ended: float) -> Iterator[RoundScalars]:
    """Yield the numbers of rounds. The last round ended at ``ended``, s since 1970."""
    rows = tuple(records)
    left = math.fsum(record.seconds.get("total", 0.0) for record in rows)
    for record in rows:
        left -= record.seconds.get("total", 0.0)
        yield RoundScalars(record.round, ended - left, scalars_of(record))


def write_events(run: Path, folder: Path) -> Path:
    """Write the metrics of a run, also of an unfinished one, to an event file in a new folder; return it.

    Raises:
        ConfigError: tensorboard is missing, ``folder`` exists and is not empty, or not a run.
        RunAbortedError: the file cannot be written.
    """
    need_tensorboard()
    new_folder.check_new(folder, "--tensorboard")
    rounds = tuple(add_times(run_page.read_run(run).records, _written_at(run)))
    name = _NAME.format(started=int(rounds[0].ended if rounds else time.time()))
    (file,) = new_folder.fill_folder(folder, {name: _encode(chain((_head(),), map(_event, rounds)))})
    return file


def follow_events(run: Path, folder: Path) -> Path:
    """Append each round to an event file in a new folder until the run has ended; return the file.

    Raises:
        ConfigError, RunAbortedError: as for :func:`write_events`.
    """
    file, written = write_events(run, folder), len(run_page.read_run(run).records)
    while True:
        # In this order: the last rows are on disk before the summary.
        content = run_page.read_run(run)
        rounds = tuple(add_times(content.records, _written_at(run)))[written:]
        try:
            with file.open("ab") as opened:
                opened.write(_encode(map(_event, rounds)))
        except OSError as error:
            raise RunAbortedError(f"{file}: cannot be written: {error.strerror}") from error
        written += len(rounds)
        if content.summary is not None:
            return file
        time.sleep(FOLLOW_SECONDS)  # a file that grows has no event


def need_tensorboard() -> None:
    """Raise ConfigError if tensorboard is missing."""
    if importlib.util.find_spec("tensorboard") is None:
        reason = "needs the package tensorboard, which is not installed"
        raise ConfigError("--tensorboard", reason, "pip install 'securefl[tensorboard]'")


def _written_at(run: Path) -> float:
    file = run / "metrics.jsonl"
    return file.stat().st_mtime if file.exists() else time.time()


def _head() -> Event:
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 - an extra

    return Event(wall_time=time.time(), file_version=FILE_VERSION)


def _event(one: RoundScalars) -> Event:
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 - an extra
    from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415 - with it

    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in one.values.items()]
    return Event(wall_time=one.ended, step=one.round, summary=Summary(value=values))


def _encode(events: Iterable[Event]) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415 - an extra

    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    for event in events:
        writer.write(event.SerializeToString())
    return buffer.getvalue()
