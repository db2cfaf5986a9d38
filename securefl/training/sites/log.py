"""Private log of a site: trainings, metrics and failures."""

import contextlib
import json
import math
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from securefl.base import foreign
from securefl.base.errors import SecureflError
from securefl.training.sites.layout import SiteError
from securefl.training.sites.site import Metrics
from securefl.training.sites.tables import ColumnCounts

SITE_LOG = "{}.site.jsonl"
"""Name of the file, formatted with the party's name."""


class SiteLog:
    """Log of a line of JSON per round, in a file that only its owner can read.

    A full disk loses lines, but no round: participation must not depend on the log. The callbacks are for a
    run of all sites on one machine.

    Args:
        path: of the file, made with the first line; None to keep nothing.
        tell: receives the round and the reason of each failure.
        note: receives the round and the reasons why metrics were dropped.
        count: receives the counts of columns' values that are missing or outside their range.
    """

    def __init__(
        self,
        path: Path | None,
        tell: Callable[[int, str], None] = lambda _round, _reason: None,
        note: Callable[[int, Sequence[str]], None] = lambda _round, _notes: None,
        count: Callable[[Mapping[str, ColumnCounts]], None] = lambda _counts: None,
    ) -> None:
        self._tell, self._note, self._count = tell, note, count
        self.path = path
        """Path of the file. It may be set later, without the earlier lines."""

    def follow(self, note: Callable[[int, Sequence[str]], None]) -> None:
        """Set the callback ``note`` for dropped metrics."""
        self._note = note

    def log_training(
        self,
        round_: int,
        samples: int,
        metrics: Metrics,
        received: Metrics | None,
        notes: Sequence[str] = (),
    ) -> None:
        """Log a training, its metrics, those of the received model, and reasons for dropped metrics."""
        entry: dict[str, object] = {"round": round_, "samples": samples, "metrics": _plain(metrics)}
        if received is not None:
            entry["received"] = _plain(received)
        if notes:
            entry["notes"] = [*notes]
            with contextlib.suppress(OSError):
                self._note(round_, notes)
        self._append(entry)

    def log_failure(self, round_: int, error: BaseException) -> None:
        """Log the reason for a missing update, with the traceback."""
        lines = traceback.format_exception(error)
        # A SiteError is the line to read.
        reason = str(error) if isinstance(error, SiteError) else foreign.describe(error)
        self._append({"round": round_, "error": reason, "traceback": "".join(lines)})
        self._tell(round_, str(error) if isinstance(error, SecureflError) else reason)

    def log_counts(self, round_: int, counts: Mapping[str, ColumnCounts]) -> None:
        """Log each column's values that are missing or outside its range."""
        self._append({"round": round_, "columns": {name: asdict(one) for name, one in counts.items()}})
        self._count(counts)

    def log_output(self, round_: int, text: str) -> None:
        """Log the output of a site's process, if any."""
        if text:
            self._append({"round": round_, "printed": text})

    def _append(self, entry: Mapping[str, object]) -> None:
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            handle = self._open_file(self.path)
            try:
                os.write(handle, json.dumps(entry).encode() + b"\n")
            finally:
                os.close(handle)

    @staticmethod
    def _open_file(path: Path) -> int:
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            return os.open(path, how, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, how, 0o600)


def _plain(metrics: Metrics) -> dict[str, float | None]:
    """Return metrics for JSON; None for numbers that are not finite."""
    return {str(name): float(value) if math.isfinite(value) else None for name, value in metrics.items()}
