"""Append-only line files with canonical JSON.

Each value has one spelling, for hashes: sorted keys, no white space, no NaN or infinity. Non-ASCII is
escaped: a transcript is safe to print.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self, TypeAlias

from securefl.base.errors import ConfigError, RunAbortedError, UsageError

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


def canonical(value: JsonValue) -> bytes:
    """Return the canonical spelling of ``value``, without a newline.

    Raises:
        UsageError: bytes, objects or numbers that are not finite.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot write a value as JSON: {error}") from error
    return text.encode("ascii")


def parse(line: bytes) -> dict[str, JsonValue]:
    """Return the object in one line without its newline.

    Raises:
        ValueError: not a JSON object, or not canonical.
    """
    try:
        value = json.loads(line)
        if isinstance(value, dict) and canonical(value) == line:
            return value
    except (UsageError, RecursionError) as error:
        raise ValueError("not in canonical spelling") from error
    raise ValueError("not an object in canonical spelling")


_BUFFER: Final = 256 * 1024


class LineFile:
    """Buffered appender of lines to a new file, or to an existing file of whole lines.

    If a write fails, the file is truncated to its last whole line and later writes fail.

    Raises:
        ConfigError: the file exists (with ``append``: does not), or cannot be written.
    """

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self.path = path
        self._pending = bytearray()
        self._whole = 0
        self._failure: RunAbortedError | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("r+b" if append else "xb", buffering=0)
            self._whole = self._file.seek(0, os.SEEK_END)
        except FileExistsError:
            raise ConfigError(str(path), "exists already", "choose another run directory") from None
        except OSError as error:
            raise ConfigError(
                str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
            ) from error

    @property
    def size(self) -> int:
        """Bytes of all lines, pending ones included."""
        return self._whole + len(self._pending)

    def write(self, line: bytes) -> None:
        """Append a line, in memory until :meth:`flush`.

        Raises:
            RunAbortedError: the write failed.
            UsageError: ``line`` holds a newline, or the file is closed.
        """
        if b"\n" in line:
            raise UsageError("a line of a transcript must not have a newline")
        if self._failure is not None:
            raise self._failure
        if self._file.closed:
            raise UsageError(f"cannot write to {self.path}: it is closed")
        self._pending += line + b"\n"
        if len(self._pending) >= _BUFFER:
            self.flush()

    def flush(self, *, durable: bool = False) -> None:
        """Pass all lines to the operating system; with ``durable`` wait until they are on disk.

        Raises:
            RunAbortedError: the write failed; the file still ends with a whole line.
        """
        if self._failure is not None:
            raise self._failure
        try:
            written = 0
            while written < len(self._pending):
                written += self._file.write(memoryview(self._pending)[written:])
            if durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            self._failure = disk_failure(self.path, error)
            self._cut_back()
            raise self._failure from error
        self._whole += written
        self._pending.clear()

    def close(self) -> None:
        """Flush durably and close; after a failure only close.

        Raises:
            RunAbortedError: the write failed.
        """
        if self._file.closed:
            return
        try:
            if self._failure is None:
                self.flush(durable=True)
        finally:
            self._file.close()

    def _cut_back(self) -> None:
        try:
            self._file.truncate(self._whole)
        except OSError:
            # A reader ignores the incomplete last line.
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def disk_failure(path: Path, error: OSError) -> RunAbortedError:
    """Return the error for a failed write."""
    return RunAbortedError(
        f"{path}: cannot be written: {error.strerror or error}"
        " (free disk space or choose another --out; what was written stays)"
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Abort the run if a write to ``path`` fails inside the context.

    Raises:
        RunAbortedError: the write failed.
    """
    try:
        yield
    except OSError as error:
        raise disk_failure(path, error) from error
