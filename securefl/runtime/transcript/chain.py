"""Hash chain of a transcript: each line of a vantage point commits to all lines before it.

A line is a canonical JSON object:

- ``n`` (from 0), ``kind``, the entry's own fields (``time`` in seconds, if any).
- ``prev``: hash of the line before, 64 hex digits; zeros in the first line.
- ``hash``: SHA-256 of domain || prev || the object without ``prev`` and ``hash``.

The first line is of kind ``header``, the last of a complete transcript ``end``. The last hash detects
alterations, omissions and reordering, but proves no honest writer. Later files of a long transcript
(:mod:`securefl.runtime.transcript.segments`) begin with kind ``segment``, which repeats the header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from securefl.base import files
from securefl.base.errors import ConfigError, RunAbortedError, SecureflError, UsageError
from securefl.runtime.transcript import segments
from securefl.runtime.transcript.lines import JsonValue, LineFile, canonical, disk_failure, parse

HEADER: Final = "header"
SEGMENT: Final = "segment"
END: Final = "end"
_DOMAIN: Final = b"securefl/1 transcript entry\n"
_GENESIS: Final = "00" * 32
_RESERVED: Final = frozenset({"n", "kind", "prev", "hash"})
_OF_SEGMENTS: Final = frozenset({"segment", "round", "bound"})


class TranscriptWriter:
    """Writer of one transcript at ``path``, a new file.

    ``header`` has at least ``run``, the run's id. The oldest rounds are deleted to keep this vantage point's
    transcripts, earlier starts included, within ``bound`` bytes. No round is split and the last stays: rounds
    longer than bound/8 may exceed it.

    Raises:
        ConfigError: the file exists or cannot be created.
        RunAbortedError: a write failed, here (no file is left) or in any method.
        UsageError: the header has no ``run``.
    """

    def __init__(self, path: Path, header: Mapping[str, JsonValue], bound: int | None = None) -> None:
        if not isinstance(header.get("run"), str):
            raise UsageError('header of a transcript must have the run id, a string, under "run"')
        self._header = dict(header)
        self._bound = bound
        self._lines = LineFile(path)
        self._segment = 1
        self._next = 0
        self._head = _GENESIS
        self._ended = False
        try:
            self._delete_old()
            self.append(HEADER, header)
            # A process killed at once leaves a transcript that names its run.
            self.flush()
        except SecureflError:
            self.abandon()
            path.unlink(missing_ok=True)
            raise

    @property
    def path(self) -> Path:
        """Path of the current segment."""
        return self._lines.path

    @property
    def head(self) -> str:
        """Hash of the last entry (64 hex digits)."""
        return self._head

    def append(self, kind: str, entry: Mapping[str, JsonValue]) -> None:
        """Append an entry.

        Raises:
            RunAbortedError: the write failed; the file holds the entries flushed before.
            UsageError: a reserved field, a value that is not JSON, or a call after :meth:`close`.
        """
        if self._ended or (kind in {HEADER, SEGMENT} and self._next > 0):
            raise UsageError(
                f"cannot append a {kind} entry to {self.path}: it has its end entry or must begin with"
                " this one"
            )
        if reserved := _RESERVED & entry.keys():
            raise UsageError(
                f"an entry of a transcript must not have the reserved fields: {', '.join(sorted(reserved))}"
            )
        self._write(kind, entry)

    def begin_round(self, round_: int) -> bool:
        """Begin a round, in a new segment if the file is long enough; return True if so."""
        if self._bound is None or self._ended or self._lines.size * segments.SHARE < self._bound:
            return False
        path = self.path
        self._lines.close()
        try:
            former = segments.former_path(path, self._segment)
            former.parent.mkdir(exist_ok=True)
            path.replace(former)
            self._delete_old(but=former)
            self._lines = LineFile(path)
        except OSError as error:
            raise disk_failure(path, error) from error
        except ConfigError as error:
            raise RunAbortedError(str(error)) from error
        self._segment += 1
        more: dict[str, JsonValue] = {"segment": self._segment, "round": round_, "bound": self._bound}
        self._write(SEGMENT, {**self._header, **more})
        self.flush()
        return True

    def _delete_old(self, but: Path | None = None) -> None:
        if self._bound is not None:
            # The current segment grows to its share, and by a round, before the next check.
            for old in segments.beyond(self.path, self._bound - 2 * (self._bound // segments.SHARE)):
                if old != but:
                    old.unlink(missing_ok=True)

    def _write(self, kind: str, entry: Mapping[str, JsonValue]) -> None:
        body: dict[str, JsonValue] = {**entry, "n": self._next, "kind": kind}
        digest = _hash(self._head, body)
        self._lines.write(canonical({**body, "prev": self._head, "hash": digest}))
        self._head = digest
        self._next += 1

    def flush(self) -> None:
        """Pass all lines to the operating system."""
        self._lines.flush()

    def close(self) -> None:
        """Write the ``end`` entry, wait for the disk and close; do nothing if closed.

        Raises:
            RunAbortedError: the write failed; the transcript has no end.
        """
        if not self._ended:
            try:
                self.append(END, {"entries": self._next})
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Close without an ``end``: the transcript is incomplete."""
        self._ended = True
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
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
    """Fields without ``n``, ``kind``, ``prev`` and ``hash``."""

    @property
    def time(self) -> float | None:
        """Seconds on the writer's clock; None if not recorded."""
        value = self.fields.get("time")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Transcript:
    """Transcript whose chain is verified."""

    path: Path
    header: Mapping[str, JsonValue]
    entries: tuple[Entry, ...]
    """Entries without headers, first lines of segments, and the end."""
    complete: bool
    """True if it has its ``end``; otherwise entries may be missing."""
    torn: bool
    """True if the writer was killed within the last line, which is left out."""
    head: str
    length: int
    """Lines ever written, deleted segments included."""
    first: int = 0
    """``n`` of the first line, > 0 if earlier segments are missing."""
    round: int | None = None
    """Round that begins with the first line, if segments are missing."""
    apart: tuple[str, ...] = ()
    """Segments left out because later ones are missing."""

    @property
    def run(self) -> str:
        """Id of the run."""
        return str(self.header["run"])

    def of_kind(self, kind: str) -> tuple[Entry, ...]:
        """Return all entries of one kind, in order."""
        return tuple(entry for entry in self.entries if entry.kind == kind)


class EmptyTranscriptError(ConfigError):
    """Transcript whose writer was killed before its header."""


@dataclass(frozen=True, slots=True)
class _Piece:
    path: Path
    lines: tuple[tuple[Entry, str], ...]
    prev: str
    torn: bool

    @property
    def first(self) -> Entry:
        return self.lines[0][0]

    @property
    def last(self) -> tuple[int, str]:
        return self.lines[-1][0].n, self.lines[-1][1]

    @property
    def header(self) -> dict[str, JsonValue]:
        fields = self.first.fields
        if self.first.kind == HEADER:
            return dict(fields)
        return {name: value for name, value in fields.items() if name not in _OF_SEGMENTS}

    def follows(self, other: _Piece) -> bool:
        return not other.torn and (self.first.n - 1, self.prev) == other.last


def read_transcript(path: Path) -> Transcript:
    """Read and verify all segments of a transcript.

    A missing end, an incomplete last line and missing segments are fields of the result, not errors.

    Raises:
        EmptyTranscriptError: there is no whole line.
        ConfigError: names the file and the first entry that is altered, out of place or of another run.
    """
    paths = segments.files_of(path) or (path,)
    pieces = [piece for piece in map(_piece, paths) if piece is not None]
    if not pieces:
        raise EmptyTranscriptError(str(path), "is empty", "the writer was stopped before it wrote its header")
    joined = [pieces.pop()]
    while pieces and joined[0].follows(pieces[-1]):
        joined.insert(0, pieces.pop())
    for piece in joined:
        if piece.header != joined[0].header:
            raise ConfigError(
                str(piece.path),
                f"entry {piece.first.n} belongs to another run than the entries before",
                "restore the file",
            )
    lines = [line for piece in joined for line in piece.lines]
    complete, began = lines[-1][0].kind == END, joined[0].first
    inner = tuple(entry for entry, _ in lines if entry.kind not in {HEADER, SEGMENT, END})
    round_ = began.fields.get("round")
    return Transcript(
        path,
        joined[0].header,
        inner,
        complete,
        joined[-1].torn or (paths[-1] != joined[-1].path),
        joined[-1].last[1],
        length=joined[-1].last[0] + 1,
        first=began.n,
        round=round_ if isinstance(round_, int) and began.n else None,
        apart=tuple(piece.path.name for piece in pieces),
    )


def _piece(path: Path) -> _Piece | None:
    with files.reading(path):
        raw = path.read_bytes()
    *lines, rest = raw.split(b"\n")
    if not lines:
        return None
    entries = tuple(_verified_entries(path, lines))
    if rest and entries[-1][0].kind == END:
        raise ConfigError(
            str(path),
            f"entry {entries[-1][0].n + 1} stands after the end of the transcript",
            "restore the file: entries were added after the run",
        )
    prev = str(parse(lines[0]).get("prev"))
    return _Piece(path, entries, prev, bool(rest))


def _verified_entries(path: Path, lines: list[bytes]) -> Iterator[tuple[Entry, str]]:
    prev, ended, start = _GENESIS, False, 0
    for number, line in enumerate(lines):
        n = start + number
        try:
            fields = parse(line)
        except ValueError as error:
            raise ConfigError(str(path), f"entry {n} was altered: {error}", "restore the file") from error
        stated_prev, stated = fields.pop("prev", None), fields.pop("hash", None)
        if not isinstance(stated_prev, str) or stated != _hash(stated_prev, fields):
            raise ConfigError(
                str(path), f"entry {n} was altered: its hash does not match", "restore the file"
            )
        kind, stated_n = fields.pop("kind", None), fields.pop("n", None)
        if number == 0 and kind == SEGMENT and isinstance(stated_n, int) and stated_n > 0:
            n, start, prev = stated_n, stated_n, stated_prev
        if not isinstance(kind, str) or stated_n != n or stated_prev != prev:
            raise ConfigError(
                str(path),
                f"entry {n} does not follow the entry before",
                "entries were removed, reordered or taken from another run",
            )
        begins = kind in {HEADER, SEGMENT}
        if begins != (number == 0) or (begins and not isinstance(fields.get("run"), str)):
            raise ConfigError(
                str(path), f"entry {n} is a second header: two transcripts were joined", "restore the file"
            )
        if ended:
            raise ConfigError(
                str(path),
                f"entry {n} stands after the end of the transcript",
                "restore the file: entries were added after the run",
            )
        ended = kind == END
        prev = str(stated)
        yield Entry(n, kind, fields), prev


def _hash(prev: str, body: Mapping[str, JsonValue]) -> str:
    return hashlib.sha256(_DOMAIN + prev.encode("ascii", "replace") + canonical(body)).hexdigest()
