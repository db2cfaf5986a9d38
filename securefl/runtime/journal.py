"""The party's durable memory of which rounds it has submitted to or released (protocol.md, step 9).

One JSON line per entry, appended and synced to disk before the shell performs any later effect.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from securefl.errors import ConfigError, RunAbortedError
from securefl.ids import RunId


class FileJournal:
    """The journal of one party in one run."""

    def __init__(self, path: Path, run: RunId) -> None:
        self._path = path
        self._run = run
        self.spent = self._last_round()
        """Last round in the journal, -1 when there is none."""

    def note(self, round_: int, step: str) -> None:
        """Write durably that ``step`` of ``round_`` is about to happen.

        Raises:
            RunAbortedError: it cannot be written; the caller must not go on.
        """
        line = json.dumps({"run": self._run, "round": round_, "step": step}) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunAbortedError(
                f"journal {self._path}: {error.strerror}; nothing was released, free some space and restart"
            ) from error

    def _last_round(self) -> int:
        if not self._path.exists():
            return -1
        last = -1
        for number, line in enumerate(self._path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                entry = json.loads(line)
                if entry["run"] == self._run:
                    last = max(last, int(entry["round"]))
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"{self._path}:{number}",
                    "not a journal entry",
                    "the journal says which rounds must not be repeated; restore it, or join a new run",
                ) from error
        return last
