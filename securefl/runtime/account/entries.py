"""Entries of an account, one JSON line each, chained by their hashes.

Each line holds the hash of the line before it, so that nothing inside the file can be changed, moved or taken
out unnoticed. What is cut off at the end is noticed by the :mod:`securefl.runtime.account.tip`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from securefl.base.crypto import digest
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy import ReleaseEvent

_Hex = Annotated[str, Meta(pattern="^([0-9a-f]{2})*$")]
_Number = Annotated[int, Meta(ge=0)]

NOTHING = "0" * 64
"""Stands for the hash before the first line."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    before: _Hex = NOTHING
    """Hash of the line before, 32 bytes."""


class Begun(_Entry, tag="begun", frozen=True, kw_only=True):
    """First line: whose account it is."""

    name: str
    key: _Hex
    """Identity key digest (:func:`securefl.runtime.account.meaning.key_digest`)."""


class Kept(_Entry, tag="kept", frozen=True, kw_only=True):
    """Where it is kept from here on: by its first use, or by its owner's word."""

    machine: _Hex


class Run(_Entry, tag="run", frozen=True, kw_only=True):
    """A run that the party joins; the entries that follow are of it, up to the next one."""

    run: str
    scenario: str
    server: _Hex
    """To whom: the server's key."""
    parties: tuple[_Hex, ...]
    """Keys of the roster's parties, in the order of their names; sums name them by their place."""
    data: _Hex
    """Digest of the samples."""
    samples: _Number
    event: ReleaseEvent | None = None
    """One release, as an accountant counts it; None without privacy noise."""
    delta: float = 0.0
    validated: _Number = 0
    """Sums in a round of which members measure the party's input: each verdict may tell one of them a bit."""


class Update(_Entry, tag="update", frozen=True, kw_only=True):
    """Updates of which masked inputs may have left."""

    round: int
    count: _Number
    atom_seed: _Hex = ""
    """Seed of the atoms in which they left; empty without any."""


class Sums(_Entry, tag="sums", frozen=True, kw_only=True):
    """Sums that shares may have left for."""

    round: int
    sums: dict[str, tuple[tuple[_Number, ...], ...]]
    """By digest of the model: the members of each, by their place in the run's roster."""


class GroupNamed(_Entry, tag="group", frozen=True, kw_only=True):
    """A task group that may have been named, by randomised response."""

    round: int
    epsilon: float
    made: _Number
    """Number of choices of the run up to it."""
    group: _Number


Entry = Begun | Kept | Run | Update | Sums | GroupNamed

_DECODER = msgspec.json.Decoder(Entry)


def line_of(entry: Entry, before: str) -> bytes:
    """The entry's line, after the one with the hash ``before``."""
    return msgspec.json.encode(msgspec.structs.replace(entry, before=before)) + b"\n"


def hash_of(line: bytes) -> str:
    """Hash of a line, 64 hexadecimal digits."""
    return digest("account line", line).hex()


def read_lines(where: str, lines: Iterable[bytes]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Entries and hashes of whole lines.

    Args:
        where: the file, for the error.
        lines: each with its end.

    Raises:
        ConfigError: a line that is none, or does not follow from the one before: the file was edited.
    """
    entries: list[Entry] = []
    hashes: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
            raise _damaged(f"{where}:{number}", f"is no entry of an account: {error}") from None
        if entry.before != (hashes[-1] if hashes else NOTHING):
            raise _damaged(
                f"{where}:{number}", "does not follow from the line before it: the file was edited"
            )
        if isinstance(entry, Begun) != (number == 1):
            raise _damaged(f"{where}:{number}", "an account begins once, with its first line")
        if isinstance(entry, Update | Sums | GroupNamed) and not any(isinstance(one, Run) for one in entries):
            raise _damaged(f"{where}:{number}", "belongs to no run")
        entries.append(entry)
        hashes.append(hash_of(line))
    for number, entry in _outside(entries):
        raise _damaged(f"{where}:{number}", f"names a member that the roster of its run has not ({entry})")
    return tuple(entries), tuple(hashes)


def _outside(entries: Sequence[Entry]) -> Iterable[tuple[int, int]]:
    parties = 0
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, Run):
            parties = len(entry.parties)
        elif isinstance(entry, Sums):
            for place in (place for rows in entry.sums.values() for row in rows for place in row):
                if place >= parties:
                    yield number, place


def _damaged(where: str, reason: str) -> ConfigError:
    return ConfigError(where, reason, "restore the file; it says what must not be given away twice")
