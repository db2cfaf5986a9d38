"""The hash chain of a transcript: each line of a vantage point is bound to all before it.

A line is a canonical JSON object: ``n`` (from 0), ``kind``, the entry's own fields (``time`` in seconds
where there is one), ``prev`` (hash of the line before, 64 hex digits; zeros in the first) and ``hash``, the
SHA-256 of domain || prev || the object without ``prev`` and ``hash``. The first line is of kind ``header``
and names the run; an orderly last one is of kind ``end``. The chain shows alterations, omissions and
reordering to whoever holds the last hash; it does not show that the writer told the truth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from securefl.base.errors import ConfigError, SecureflError, UsageError
from securefl.runtime.transcript.canonical import JsonValue, canonical, parse
from securefl.runtime.transcript.lines import LineFile

HEADER: Final = "header"
END: Final = "end"
_DOMAIN: Final = b"securefl/1 transcript entry\n"
_GENESIS: Final = "00" * 32
_RESERVED: Final = frozenset({"n", "kind", "prev", "hash"})


class TranscriptWriter:
    """Writes one transcript.

    Args:
        path: a new file; its folder is made.
        header: at least ``run``, the run's id, by which transcripts of different runs are told apart.

    Raises:
        ConfigError: the file exists already or cannot be made.
        RunAbortedError: the disk is full; no file is left.
        UsageError: no ``run`` in the header.
    """

    def __init__(self, path: Path, header: Mapping[str, JsonValue]) -> None:
        if not isinstance(header.get("run"), str):
            raise UsageError("the header of a transcript names its run")
        self._lines = LineFile(path)
        self._next = 0
        self._head = _GENESIS
        self._ended = False
        try:
            self.append(HEADER, header)
            # A process that is killed at once leaves a transcript that says whose it is.
            self.flush()
        except SecureflError:
            self.abandon()
            path.unlink(missing_ok=True)
            raise

    @property
    def path(self) -> Path:
        """The path of its file."""
        return self._lines.path

    @property
    def head(self) -> str:
        """Hash of the last entry (64 hex digits): it commits to the whole transcript."""
        return self._head

    def append(self, kind: str, entry: Mapping[str, JsonValue]) -> None:
        """Add one entry. ``n``, ``kind``, ``prev`` and ``hash`` are not the entry's to set.

        Raises:
            RunAbortedError: the disk is full or gone; the file holds the entries flushed before.
            UsageError: a reserved field, a value that is no JSON, or after :meth:`close`.
        """
        if self._ended or (kind == HEADER and self._next > 0):
            raise UsageError(f"{self.path}: no {kind} entry may follow")
        if reserved := _RESERVED & entry.keys():
            raise UsageError(f"a transcript entry sets {', '.join(sorted(reserved))}")
        body: dict[str, JsonValue] = {**entry, "n": self._next, "kind": kind}
        digest = _hash(self._head, body)
        self._lines.write(canonical({**body, "prev": self._head, "hash": digest}))
        self._head = digest
        self._next += 1

    def flush(self) -> None:
        """Hand everything to the operating system.

        Raises:
            RunAbortedError: the disk is full or gone.
        """
        self._lines.flush()

    def close(self) -> None:
        """Write the ``end`` entry, wait for the disk and close. A second call does nothing.

        Raises:
            RunAbortedError: the disk is full or gone; the transcript then has no end.
        """
        if not self._ended:
            try:
                self.append(END, {"entries": self._next})
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close without an ``end``, so that readers know that something is missing."""
        self._ended = True
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


@dataclass(frozen=True, slots=True)
class Entry:
    """One verified line."""

    n: int
    kind: str
    fields: Mapping[str, JsonValue]
    """What the writer gave, without ``n``, ``kind``, ``prev`` and ``hash``."""

    @property
    def time(self) -> float | None:
        """Seconds on the writer's clock, where the entry has them."""
        value = self.fields.get("time")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript whose chain holds."""

    path: Path
    header: Mapping[str, JsonValue]
    entries: tuple[Entry, ...]
    """Without the header and the end."""
    complete: bool
    """Whether it has its ``end``; without it the writer was stopped, and entries may be missing."""
    torn: bool
    """Whether the last line broke off in the middle and is left out: the writer was killed as it wrote."""
    head: str
    """Hash of the last line (64 hex digits)."""

    @property
    def run(self) -> str:
        """Id of the run."""
        return str(self.header["run"])

    def of_kind(self, kind: str) -> tuple[Entry, ...]:
        """All entries of one kind, in order."""
        return tuple(entry for entry in self.entries if entry.kind == kind)


class EmptyTranscriptError(ConfigError):
    """Not even the header is whole: its writer was killed before it had written anything."""


def read_transcript(path: Path) -> Transcript:
    """Read and verify a transcript.

    A missing end is no error, nor is a last line that broke off: see :attr:`Transcript.complete` and
    :attr:`Transcript.torn`. Both are what a killed writer leaves.

    Raises:
        EmptyTranscriptError: there is no whole line.
        ConfigError: names the file and the first entry that is altered, out of place or of another run.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from error
    *lines, rest = raw.split(b"\n")
    if not lines:
        raise EmptyTranscriptError(str(path), "is empty", "the writer was stopped before it wrote its header")
    entries = list(_verified(path, lines))
    header, complete = entries[0][0], entries[-1][0].kind == END
    if rest and complete:
        raise ConfigError(str(path), f"entry {len(lines)} follows the end")
    inner = tuple(entry for entry, _ in (entries[1:-1] if complete else entries[1:]))
    return Transcript(path, header.fields, inner, complete, bool(rest), entries[-1][1])


def _verified(path: Path, lines: list[bytes]) -> Iterator[tuple[Entry, str]]:
    """Each entry with its hash."""
    prev, ended = _GENESIS, False
    for n, line in enumerate(lines):
        try:
            fields = parse(line)
        except ValueError as error:
            raise ConfigError(str(path), f"entry {n} was altered: {error}") from error
        stated_prev, stated = fields.pop("prev", None), fields.pop("hash", None)
        if not isinstance(stated_prev, str) or stated != _hash(stated_prev, fields):
            raise ConfigError(str(path), f"entry {n} was altered: its hash does not fit")
        kind = fields.pop("kind", None)
        if not isinstance(kind, str) or fields.pop("n", None) != n or stated_prev != prev:
            raise ConfigError(
                str(path),
                f"entry {n} does not follow the one before",
                "entries were removed, reordered or taken from another run",
            )
        if (kind == HEADER) != (n == 0) or (n == 0 and not isinstance(fields.get("run"), str)):
            raise ConfigError(str(path), f"entry {n}: a transcript has one header, and it comes first")
        if ended:
            raise ConfigError(str(path), f"entry {n} follows the end")
        ended = kind == END
        prev = str(stated)
        yield Entry(n, kind, fields), prev


def _hash(prev: str, body: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(_DOMAIN + prev.encode("ascii", "replace") + canonical(body)).hexdigest()
