"""Entries of an account, one JSON line each, chained by their hashes.

Each line holds the hash of the line before it, so that nothing inside the file can be changed, moved or taken
out unnoticed. What is cut off at the end is noticed by the :mod:`securefl.runtime.account.tip`.
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
    event: privacy.ReleaseEvent | None = None
    """One release, as an accountant counts it; None without privacy noise."""
    delta: float = 0.0
    repeats: bool = False
    """True if metrics without noise left in any clusters (``evaluation.repeats = "accept"``)."""
    validated: _Number = 0
    """Sums in a round of which members measure the party's input: each verdict may tell one of them a bit."""


class Update(_Entry, tag="update", frozen=True, kw_only=True):
    """Updates of which masked inputs may have left."""

    round: int
    count: _Number
    atom_seed: _Hex = ""
    """Seed of the atoms in which they left; empty without any."""
    drawn: _Rows = msgspec.field(default_factory=dict)
    """Clusters of the round, by digest of the model: members by their place in the run's roster. Each may be
    open unless an entry :class:`Sums` or :class:`ClosedClusters` resolves it. Empty in earlier versions."""
    silent: int = -1
    """Most members without a statement of a cluster that stays closed."""


class Sums(_Entry, tag="sums", frozen=True, kw_only=True):
    """Sums that shares may have left for."""

    round: int
    sums: _Rows
    """By digest of the model: the members of each, by their place in the run's roster."""


class ClosedClusters(_Entry, tag="closed", frozen=True, kw_only=True):
    """Clusters of an earlier round that can no longer be opened."""

    of: str
    """Id of the run that the round is of; its server is that of the run at hand."""
    round: int
    clusters: dict[str, tuple[_Number, ...]]
    """By digest of the model: their places in ``drawn`` of the round's :class:`Update`."""
    refunded: bool
    """True if the updates of the round were not released."""


class CountedAtoms(_Entry, tag="atoms", frozen=True, kw_only=True):
    """Atoms over which metrics without noise may have left."""

    atoms: tuple[tuple[_Number, ...], ...]
    """Members of each, by their place in the run's roster."""


class Missing(_Entry, tag="missing", frozen=True, kw_only=True):
    """A round of the run at hand that the chain of its server lacks."""

    round: int


class Forgiven(_Entry, tag="forgiven", frozen=True, kw_only=True):
    """Word of the owner that missing rounds before this line no longer count."""


class GroupNamed(_Entry, tag="group", frozen=True, kw_only=True):
    """A task group that may have been named, by randomised response."""

    round: int
    epsilon: float
    made: _Number
    """Number of choices of the run up to it."""
    group: _Number


Entry = Begun | Kept | Run | Update | Sums | ClosedClusters | CountedAtoms | Missing | Forgiven | GroupNamed

_OF_A_RUN = Update | Sums | ClosedClusters | CountedAtoms | Missing | GroupNamed
_DECODER = msgspec.json.Decoder(Entry)


def line_of(entry: Entry, before: str) -> bytes:
    """The entry's line, after the one with the hash ``before``."""
    return msgspec.json.encode(msgspec.structs.replace(entry, before=before)) + b"\n"


def hash_of(line: bytes) -> str:
    """Hash of a line, 64 hexadecimal digits."""
    return crypto.digest("account line", line).hex()


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
    """Yield the lines that close clusters which no line before them has drawn."""
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
