"""Line files: they only ever grow, by whole lines.

JSON with one spelling per value, so that a hash over it means something.

Keys are sorted, there is no white space, everything outside ASCII is escaped (a transcript is safe to print),
and NaN and infinities, which JSON does not have, are refused.
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
    """The one spelling of ``value``, without a newline.

    Raises:
        UsageError: bytes, objects, numbers that are not finite: nothing is turned into JSON by guessing.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot write a value as JSON: {error}") from error
    return text.encode("ascii")


def parse(line: bytes) -> dict[str, JsonValue]:
    """The object in one canonical line (without its newline).

    Raises:
        ValueError: no JSON object, or not spelled canonically.
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
    """Appends lines to a new file, or to one of whole lines, buffered.

    When a write fails (disk full), the file is cut back to its last whole line, so that what is there stays
    readable, and the writer takes no more.

    Raises:
        ConfigError: the file exists already (with ``append``: does not), or cannot be written to.
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
        """Bytes of all lines that it has taken."""
        return self._whole + len(self._pending)

    def write(self, line: bytes) -> None:
        """Take one line, without its newline; it may stay in memory until :meth:`flush`.

        Raises:
            RunAbortedError: the disk is full or gone.
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
        """Hand all lines to the operating system; ``durable``: and wait until they are on the disk.

        Raises:
            RunAbortedError: the disk is full or gone. The file ends with a whole line all the same.
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
        """Flush durably and close. Does nothing when closed already; after a failure it only closes.

        Raises:
            RunAbortedError: the disk is full or gone.
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
            # A reader refuses the torn last line; there is nothing better to do here.
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def disk_failure(path: Path, error: OSError) -> RunAbortedError:
    """The one-line abort for a write that failed in mid-run."""
    return RunAbortedError(
        f"{path}: cannot be written: {error.strerror or error}"
        " (free disk space or choose another --out; what was written stays)"
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Abort with one line if ``path`` cannot be written within.

    Raises:
        RunAbortedError: the disk is full or gone.
    """
    try:
        yield
    except OSError as error:
        raise disk_failure(path, error) from error
