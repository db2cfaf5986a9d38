"""Masked inputs in memory up to a limit, and on disk above it (``secure_sum.spool_megabytes``)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from securefl.base.errors import RunAbortedError


class SpoolingStore:
    """A ``VectorStore`` that spills to one unlinked temporary file.

    What it keeps is masked, hence uniform: the file needs no protection beyond mode 0600.
    """

    def __init__(self, memory_limit: int, directory: Path | None = None) -> None:
        self._limit = memory_limit
        self._directory = directory
        self._memory: dict[int, bytes] = {}
        self._used = 0
        self._file: int | None = None
        self._spooled: dict[int, tuple[int, int]] = {}
        self._end = 0
        self._next = 0

    @property
    def spooled_bytes(self) -> int:
        """Bytes on disk at present."""
        return self._end

    def put(self, vector: bytes) -> int:
        """Keep ``vector`` and return its handle.

        Raises:
            RunAbortedError: the disk is full.
        """
        self._next += 1
        if self._used + len(vector) <= self._limit:
            self._memory[self._next] = vector
            self._used += len(vector)
        else:
            self._spill(self._next, vector)
        return self._next

    def get(self, handle: int) -> bytes:
        """Return the vector of ``handle``."""
        if handle in self._memory:
            return self._memory[handle]
        offset, size = self._spooled[handle]
        if self._file is None:
            raise KeyError(handle)
        return os.pread(self._file, size, offset)

    def discard_all(self) -> None:
        """Forget everything and give the disk space back."""
        self._memory.clear()
        self._spooled.clear()
        self._used = self._end = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _spill(self, handle: int, vector: bytes) -> None:
        try:
            if self._file is None:
                self._file, name = tempfile.mkstemp(prefix="securefl-spool-", dir=self._directory)
                Path(name).unlink()
            written = 0
            while written < len(vector):
                written += os.pwrite(self._file, memoryview(vector)[written:], self._end + written)
        except OSError as error:
            raise RunAbortedError(
                f"masked inputs do not fit on disk ({error.strerror}); free some space, or raise"
                " secure_sum.spool_megabytes to keep more of them in memory"
            ) from error
        self._spooled[handle] = (self._end, len(vector))
        self._end += len(vector)
