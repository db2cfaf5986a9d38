"""Files by which attackers on one machine tell each other what they trained. No honest process reads them.

Attackers have channels of their own, which the protocol does not carry. In a local run theirs is a directory
of the launcher's, readable by its user alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np

from securefl.base.arrays import F64, expect
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.runtime.transcript import disk_failure

_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.005, 0.25, 1.5
"""Seconds between two looks at the directory."""


class Board:
    """One member's view of its coalition's directory.

    Args:
        directory: of all coalitions of a run.
        me: whose notes this process posts.
    """

    def __init__(self, directory: Path, me: PartyId) -> None:
        self._directory = directory
        self._me = me
        self._mine: list[tuple[int, Path]] = []
        self._closed = threading.Event()

    def close(self) -> None:
        """End all waiting, in whatever thread. What was posted stays."""
        self._closed.set()

    def post(self, round_: int, work: int, update: F64 | None) -> None:
        """Tell what one local work of a round came to, f64 ``(d,)``; None that it came to nothing.

        The own notes of rounds before the last one are taken away: nobody waits for them any more.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        path = self._path(round_, work, self._me)
        partial = path.with_suffix(".part")
        try:
            with partial.open("wb") as file:
                np.save(file, np.empty(0) if update is None else update, allow_pickle=False)
            partial.replace(path)
            for old, note in self._mine:
                if old < round_ - 1:
                    note.unlink(missing_ok=True)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise disk_failure(path, error) from error
        self._mine = [(old, note) for old, note in self._mine if old >= round_ - 1] + [(round_, path)]

    def collect(
        self, round_: int, work: int, mates: Collection[PartyId], length: int, until: float
    ) -> dict[PartyId, F64]:
        """Return the updates of all ``mates``, or at ``until`` those that are there; blocks till then.

        Args:
            round_: which round.
            work: which local work of it.
            mates: who is expected to post.
            length: d.
            until: time on the monotonic clock.

        Raises:
            UsageError: a note that no member of this run can have posted.
        """
        found: dict[PartyId, F64] = {}
        missing, pause = set(mates), _FIRST_PAUSE
        while True:
            for mate in sorted(missing):
                update = _read(self._path(round_, work, mate))
                if update is None:
                    continue
                missing.remove(mate)
                if update.size:
                    expect(update, f"what {mate} posted", np.float64, (length,))
                    found[mate] = update
            left = until - time.monotonic()
            if not missing or left <= 0 or self._closed.wait(min(pause, left)):
                return found
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)

    def _path(self, round_: int, work: int, party: PartyId) -> Path:
        return self._directory / f"{round_}-{work}-{party}.npy"


def _read(path: Path) -> F64 | None:
    """The note, None where there is none yet. Files appear whole."""
    try:
        with path.open("rb") as file:
            update: F64 = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError) as error:
        raise UsageError(f"{path} is no note of a coalition: {error}") from error
    return update
