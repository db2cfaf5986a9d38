"""Meaning of an account's entries: sums given, updates submitted, epsilon spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from securefl.base.crypto import PublicIdentity, Roster, digest
from securefl.base.ids import PartyId, RunId
from securefl.methods.leakage import Given
from securefl.methods.privacy import Ledger, ReleaseEvent
from securefl.methods.privacy import Unit as PrivacyUnit
from securefl.runtime.account.entries import Entry, GroupNamed, Run, Sums, Update


@dataclass(frozen=True, slots=True)
class RunAccount:
    """One run's part of an account, of all times that the party was started for it."""

    run: Run
    rounds: tuple[int, ...]
    """Rounds of which masked inputs may have left, ascending."""
    updates: int
    """Releases, by the privacy budget: one for each local work of those rounds."""
    opened: int
    """Sums that shares may have left for."""
    models: frozenset[str]
    """Digests of the models that those were about."""
    atom_seed: bytes
    """Seed of the run's atoms; empty without any."""
    choices: tuple[GroupNamed, ...] = ()
    """Task groups that may have been named, in order."""

    @property
    def bits(self) -> int:
        """Bits of its choice that evaluators of validated sums could learn, if one deviated each time."""
        return self.run.validated * len(self.rounds)


def key_digest(identity: PublicIdentity) -> str:
    """Digest of an identity's keys, whatever its name: 64 hexadecimal digits."""
    return digest("account key", identity.verify_key, identity.seal_key).hex()


def by_run(entries: Sequence[Entry]) -> tuple[RunAccount, ...]:
    """What the account says of each run, in the order in which they were first joined.

    A run is its id and its server's key: an id that comes again with another server is another run. So is one
    that comes again with other noise or other sums, as its releases count by what they were made with.
    """
    return _parts(entries, lambda run: (*_release(run), run.validated))


def _parts(entries: Sequence[Entry], same: Callable[[Run], Hashable]) -> tuple[RunAccount, ...]:
    """Parts of an account, one for all runs that are the same."""
    found: dict[Hashable, tuple[Run, dict[int, Update], list[Sums], list[GroupNamed]]] = {}
    for run, entry in _with_runs(entries):
        _, updates, sums, choices = found.setdefault(same(run), (run, {}, [], []))
        if isinstance(entry, Update):
            updates[entry.round] = entry
        elif isinstance(entry, Sums):
            sums.append(entry)
        elif isinstance(entry, GroupNamed):
            choices.append(entry)
    return tuple(
        RunAccount(
            run,
            tuple(sorted(updates)),
            sum(one.count for one in updates.values()),
            sum(len(rows) for one in sums for rows in one.sums.values()),
            frozenset(model for one in sums for model in one.sums),
            next((bytes.fromhex(one.atom_seed) for one in updates.values() if one.atom_seed), b""),
            tuple(choices),
        )
        for run, updates, sums, choices in found.values()
    )


def of_run(entries: Sequence[Entry], run: RunId, server: str) -> RunAccount | None:
    """One run's part, whatever its noise was; None where the account does not know it."""
    parts = _parts(entries, lambda one: (one.run, one.server))
    return next((one for one in parts if (one.run.run, one.run.server) == (run, server)), None)


def given_of(entries: Sequence[Entry], roster: Roster) -> Given:
    """All sums of the account, with the names that this roster has for the keys of their members.

    Keys that it does not know keep a name of their own: two of them are two parties.
    """
    names = {key_digest(identity): name for name, identity in roster.parties.items()}
    found: dict[bytes, dict[tuple[PartyId, ...], None]] = {}
    for run, entry in _with_runs(entries):
        if isinstance(entry, Sums):
            members = [names.get(key, PartyId(f"key {key[:16]}")) for key in run.parties]
            for model, sums in entry.sums.items():
                rows = found.setdefault(bytes.fromhex(model), {})
                rows.update((tuple(sorted(members[place] for place in row)), None) for row in sums)
    return MappingProxyType({model: tuple(rows) for model, rows in found.items()})


def sums_entry(round_: int, given: Given, roster: Roster) -> Sums:
    """The entry of sums that a party gives its shares for."""
    places = {name: place for place, name in enumerate(sorted(roster.parties))}
    rows = {
        model.hex(): tuple(tuple(places[member] for member in row) for row in sums)
        for model, sums in given.items()
    }
    return Sums(round=round_, sums=rows)


def spent_epsilon(entries: Sequence[Entry], unit: PrivacyUnit, but: Run | None = None) -> float:
    """Epsilon of all releases of the account together, at the smallest delta of their runs.

    Infinite where one was without noise, or hides single records only and ``unit`` is the whole party.
    Choices of task groups count with their own, which is pure and of all data of a party, whether or not
    updates left in their runs: a server may void every round behind an answer.

    Args:
        entries: of the account.
        unit: whose presence it is to hide.
        but: a run that does not count: the one that goes on, which counts its own. What left under its id
            with other noise counts.

    Raises:
        ConfigError: dp_accounting is missing.
    """
    events: list[ReleaseEvent] = []
    deltas: list[float] = []
    total = chosen_epsilon(entries, but)
    for one in by_run(entries):
        event = one.run.event
        if not one.updates or (but is not None and _release(one.run) == _release(but)):
            continue
        if event is None or (event.unit == "record" and unit == "party"):
            return math.inf
        events.append(event.times(one.updates))
        deltas.append(one.run.delta)
    relations = {event.relation for event in events}
    for relation in sorted(relations):
        alike = tuple(event for event in events if event.relation == relation)
        total += Ledger(unit=unit, relation=relation, delta=min(deltas), events=alike).epsilon()
    return total


def chosen_epsilon(entries: Sequence[Entry], but: Run | None = None) -> float:
    """Epsilon of all choices of task groups together, but for those of a run that goes on."""
    return math.fsum(
        choice.epsilon
        for one in by_run(entries)
        for choice in one.choices
        if but is None or (one.run.run, one.run.server) != (but.run, but.server)
    )


def _release(run: Run) -> tuple[Hashable, ...]:
    """What the releases of a run that goes on have in common."""
    return run.run, run.server, run.event, run.delta


def _with_runs(entries: Sequence[Entry]) -> Iterator[tuple[Run, Entry]]:
    run: Run | None = None
    for entry in entries:
        run = entry if isinstance(entry, Run) else run
        if run is not None:
            yield run, entry
