"""Entries of an account: one JSON line each, chained by hashes (ADR 0043).

Keys are digests (:func:`securefl.runtime.account.summary.key_digest`), members indices into
:attr:`Run.parties`, rows keyed by model digest.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from securefl.base import crypto
from securefl.base.errors import ConfigError, DecisionError, UsageError
from securefl.methods import privacy

_Hex = Annotated[str, Meta(pattern="^([0-9a-f]{2})*$")]
_Number = Annotated[int, Meta(ge=0)]
_Rows = dict[str, tuple[tuple[_Number, ...], ...]]

NOTHING = "0" * 64


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    before: _Hex = NOTHING


class Begun(_Entry, tag="begun", frozen=True, kw_only=True):
    """First line of an account."""

    name: str
    key: _Hex


class Kept(_Entry, tag="kept", frozen=True, kw_only=True):
    """Machine of the account from this line on."""

    machine: _Hex


class Run(_Entry, tag="run", frozen=True, kw_only=True):
    """A run that the party joins; it owns the entries up to the next one."""

    run: str
    scenario: str
    server: _Hex
    parties: tuple[_Hex, ...]
    """Ordered by party name."""
    data: _Hex
    samples: _Number
    event: privacy.ReleaseEvent | None = None
    """Accounting event of one release; None without noise."""
    delta: float = 0.0
    repeats: bool = False
    """True if metrics without noise were sent in any clusters (``evaluation.repeats = "accept"``)."""
    validated: _Number = 0
    """Sums per round in which members measure the party's input; each verdict may reveal one bit."""


class Update(_Entry, tag="update", frozen=True, kw_only=True):
    """Updates whose masked inputs may have been sent."""

    round: int
    count: _Number
    atom_seed: _Hex = ""
    drawn: _Rows = msgspec.field(default_factory=dict)
    """Clusters of the round. Each may be open unless a :class:`Sums` or :class:`ClosedClusters` entry
    resolves it. Empty in earlier versions.
    """
    silent: int = -1
    """Maximum number of members without a statement in a cluster that stays closed."""


class Sums(_Entry, tag="sums", frozen=True, kw_only=True):
    """Sums that the party may have released shares for."""

    round: int
    sums: _Rows


class ClosedClusters(_Entry, tag="closed", frozen=True, kw_only=True):
    """Clusters of an earlier round that can no longer be opened."""

    of: str
    """Run id of the round, at the current run's server."""
    round: int
    clusters: dict[str, tuple[_Number, ...]]
    """Indices into ``drawn`` of the round's :class:`Update`."""
    refunded: bool


class CountedAtoms(_Entry, tag="atoms", frozen=True, kw_only=True):
    """Atoms over which metrics without noise may have been sent."""

    atoms: tuple[tuple[_Number, ...], ...]


class Missing(_Entry, tag="missing", frozen=True, kw_only=True):
    """A round of the current run that the server's chain lacks."""

    round: int


class Forgiven(_Entry, tag="forgiven", frozen=True, kw_only=True):
    """The owner's statement that earlier missing rounds no longer count."""


class GroupNamed(_Entry, tag="group", frozen=True, kw_only=True):
    """A task group that may have been named, by randomised response."""

    round: int
    epsilon: float
    made: _Number
    """Choices in the run so far, this one included."""
    group: _Number


Entry = Begun | Kept | Run | Update | Sums | ClosedClusters | CountedAtoms | Missing | Forgiven | GroupNamed

_OF_A_RUN = Update | Sums | ClosedClusters | CountedAtoms | Missing | GroupNamed
_DECODER = msgspec.json.Decoder(Entry)


def line_of(entry: Entry, before: str) -> bytes:
    """Return an entry's line, after the line with hash ``before``."""
    return msgspec.json.encode(msgspec.structs.replace(entry, before=before)) + b"\n"


def hash_of(line: bytes) -> str:
    """Return the hash of a line, 64 hex digits."""
    return crypto.digest("account line", line).hex()


def read_lines(where: str, lines: Iterable[bytes]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Return entries and hashes of whole lines.

    Raises:
        ConfigError: a line is invalid or does not follow from the line before.
    """
    entries: list[Entry] = []
    hashes: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, UsageError) as error:
            raise _damage_error(f"{where}:{number}", f"is no entry of an account: {error}") from None
        if entry.before != (hashes[-1] if hashes else NOTHING):
            raise _damage_error(
                f"{where}:{number}", "does not follow from the line before it: the file was edited"
            )
        if isinstance(entry, Begun) != (number == 1):
            raise _damage_error(f"{where}:{number}", "an account begins once, with its first line")
        if isinstance(entry, _OF_A_RUN) and not any(isinstance(one, Run) for one in entries):
            raise _damage_error(f"{where}:{number}", "belongs to no run")
        entries.append(entry)
        hashes.append(hash_of(line))
    for number, place in _outside(entries):
        raise _damage_error(
            f"{where}:{number}", f"names a member that the roster of its run has not ({place})"
        )
    for number in _unknown_clusters(entries):
        raise _damage_error(f"{where}:{number}", "closes clusters of a round that the account does not have")
    return tuple(entries), tuple(hashes)


def _outside(entries: Sequence[Entry]) -> Iterable[tuple[int, int]]:
    parties = 0
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, Run):
            parties = len(entry.parties)
        elif isinstance(entry, Sums | Update):
            named = entry.sums if isinstance(entry, Sums) else entry.drawn
            for place in (place for rows in named.values() for row in rows for place in row):
                if place >= parties:
                    yield number, place


def _unknown_clusters(entries: Sequence[Entry]) -> Iterable[int]:
    run, drawn = None, dict[tuple[str, str, int], _Rows]()
    for number, entry in enumerate(entries, start=1):
        if isinstance(entry, Run):
            run = entry
        elif isinstance(entry, Update) and run is not None:
            drawn[run.server, run.run, entry.round] = entry.drawn
        elif isinstance(entry, ClosedClusters) and run is not None:
            rows = drawn.get((run.server, entry.of, entry.round), {})
            if any(
                at >= len(rows.get(model, ())) for model, places in entry.clusters.items() for at in places
            ):
                yield number


def _damage_error(where: str, reason: str) -> ConfigError:
    return DecisionError(
        where, reason, "restore the file from a backup: it records what this key has released"
    )
