"""Sums given, updates submitted and epsilon spent."""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from securefl.base import crypto
from securefl.base.ids import PartyId, RunId
from securefl.methods import clustering, leakage, privacy
from securefl.protocol import kernel
from securefl.protocol.round import Outcomes, RoundOutcome, with_outcomes
from securefl.runtime.account.entries import (
    Begun,
    ClosedClusters,
    CountedAtoms,
    Entry,
    Forgiven,
    GroupNamed,
    Missing,
    Run,
    Sums,
    Update,
)


@dataclass(frozen=True, slots=True)
class RunAccount:
    """One run's part of an account."""

    run: Run
    rounds: tuple[int, ...]
    """Rounds in which masked inputs may have been sent, ascending."""
    updates: int
    """Releases by the privacy budget: one per local training of each round not refunded."""
    opened: int
    models: frozenset[str]
    """Model digests of the sums that may have been opened."""
    atom_seed: bytes
    choices: tuple[GroupNamed, ...] = ()
    refunded: frozenset[int] = frozenset()
    """Rounds whose updates were not released, by members' statements."""
    unreleased: tuple[int, ...] = ()
    """Rounds in which the party released no shares."""

    @property
    def bits(self) -> int:
        """Maximum bits about its updates that evaluators of validated sums could learn."""
        return self.run.validated * len(self.rounds)


def key_digest(identity: crypto.PublicIdentity) -> str:
    """Return the digest of an identity's keys without its name."""
    return crypto.digest("account key", identity.verify_key, identity.seal_key).hex()


def by_run(entries: Sequence[Entry]) -> tuple[RunAccount, ...]:
    """Return an account's parts by run, in the order of joining.

    Run id, server key, noise and validated sums identify a run.
    """
    return _parts(entries, lambda run: (*_release(run), run.validated))


def _parts(entries: Sequence[Entry], same: Callable[[Run], Hashable]) -> tuple[RunAccount, ...]:
    found: dict[Hashable, tuple[Run, dict[int, Update], list[Sums], list[GroupNamed]]] = {}
    refunds = {
        (run.server, entry.of, entry.round)
        for run, entry in _with_runs(entries)
        if isinstance(entry, ClosedClusters) and entry.refunded
    }
    for run, entry in _with_runs(entries):
        _, updates, sums, choices = found.setdefault(same(run), (run, {}, [], []))
        if isinstance(entry, Update):
            updates[entry.round] = entry
        elif isinstance(entry, Sums):
            sums.append(entry)
        elif isinstance(entry, GroupNamed):
            choices.append(entry)
    return tuple(_account_of(*part, refunds) for part in found.values())


def _account_of(
    run: Run,
    updates: Mapping[int, Update],
    sums: Sequence[Sums],
    choices: Sequence[GroupNamed],
    refunds: Collection[tuple[str, str, int]],
) -> RunAccount:
    refunded = frozenset(round_ for round_ in updates if (run.server, run.run, round_) in refunds)
    released = {one.round for one in sums}
    return RunAccount(
        run,
        tuple(sorted(updates)),
        sum(one.count for one in updates.values() if one.round not in refunded),
        sum(len(rows) for one in sums for rows in one.sums.values()),
        frozenset(model for one in sums for model in one.sums),
        next((bytes.fromhex(one.atom_seed) for one in updates.values() if one.atom_seed), b""),
        tuple(choices),
        refunded,
        tuple(sorted(updates.keys() - released)),
    )


def of_run(entries: Sequence[Entry], run: RunId, server: str) -> RunAccount | None:
    """Return one run's part whatever its noise; None if absent."""
    parts = _parts(entries, lambda one: (one.run, one.server))
    return next((one for one in parts if (one.run.run, one.run.server) == (run, server)), None)


def by_server(entries: Sequence[Entry], server: str) -> tuple[RunAccount, ...]:
    """Return one server's runs, whatever their noise."""
    parts = _parts(entries, lambda one: (one.run, one.server))
    return tuple(one for one in parts if one.run.server == server)


def given_of(entries: Sequence[Entry], roster: crypto.Roster) -> leakage.Given:
    """Return all sums, members named as in ``roster``; each unknown key gets a name of its own."""
    names = _names(roster)
    found: dict[bytes, dict[tuple[PartyId, ...], None]] = {}
    for run, entry in _with_runs(entries):
        if isinstance(entry, Sums):
            for model, sums in _read_rows(run, entry.sums, names).items():
                found.setdefault(model, {}).update(dict.fromkeys(sums))
    return MappingProxyType({model: tuple(rows) for model, rows in found.items()})


def kept_atoms_of(entries: Sequence[Entry], roster: crypto.Roster) -> tuple[clustering.Atom, ...]:
    """Return the account's disjoint atoms, the owner's first.

    Of the owner's atoms the first with metrics counts, of others the latest.
    """
    names = _names(roster)
    found: list[clustering.Atom] = []
    for run, entry in _with_runs(entries):
        if isinstance(entry, CountedAtoms):
            found = [*_read_rows(run, {"": entry.atoms}, names)[b""], *found]
    keys = {one.key for one in entries if isinstance(one, Begun)}
    own = [atom for atom in found if any(names.get(key) in atom for key in keys)]
    kept: list[clustering.Atom] = []
    for atom in (*own[-1:], *found):
        if not any(set(atom) & set(one) for one in kept):
            kept.append(atom)
    return tuple(kept)


def own_atom_keys(entries: Sequence[Entry], owner: crypto.PublicIdentity) -> tuple[str, ...]:
    """Return the key digests of the owner's mates in its atom."""
    own = key_digest(owner)
    for run, entry in _with_runs(entries):
        for atom in entry.atoms if isinstance(entry, CountedAtoms) else ():
            keys = [run.parties[place] for place in atom]
            if own in keys:
                return tuple(key for key in keys if key != own)
    return ()


def unresolved_of(entries: Sequence[Entry], roster: crypto.Roster) -> tuple[leakage.UnresolvedRound, ...]:
    """Return the rounds whose opened sums are unknown, oldest first.

    Rounds of other servers have no run id: no statement to this server resolves them.
    """
    names, server = _names(roster), key_digest(roster.server)
    owner = frozenset(names[one.key] for one in entries if isinstance(one, Begun) and one.key in names)
    found: dict[tuple[str, str, int], tuple[Run, Update, dict[str, set[int]]]] = {}
    for run, entry in _with_runs(entries):
        if isinstance(entry, Update):
            found[run.server, run.run, entry.round] = run, entry, {}
        elif isinstance(entry, Sums):
            found.pop((run.server, run.run, entry.round), None)
        elif isinstance(entry, ClosedClusters) and (key := (run.server, entry.of, entry.round)) in found:
            for model, places in entry.clusters.items():
                found[key][2].setdefault(model, set()).update(places)
    rounds = list[leakage.UnresolvedRound]()
    for run, update, closed in found.values():
        left = {
            model: tuple(row for at, row in enumerate(rows) if at not in closed.get(model, ()))
            for model, rows in update.drawn.items()
        }
        drawn = _read_rows(run, {model: rows for model, rows in left.items() if rows}, names)
        if drawn:
            id_ = run.run if run.server == server else ""
            rounds.append(leakage.UnresolvedRound(id_, update.round, drawn, update.silent, owner))
    return tuple(rounds)


def outcomes_of(entries: Sequence[Entry], run: RunId, server: str) -> tuple[Outcomes, tuple[int, ...]]:
    """Return outcomes of a server's rounds over all runs, and undecided rounds of this run.

    Each round is decided before the next takes an input: only a run's last one can be undecided. In an
    earlier run it has no outcome.
    """
    refunds = {
        (entry.of, entry.round)
        for of, entry in _with_runs(entries)
        if isinstance(entry, ClosedClusters) and entry.refunded and of.server == server
    }
    found: dict[tuple[str, int], bool] = {}
    counted = set[tuple[str, int]]()
    last: dict[str, int] = {}
    for of, entry in _with_runs(entries):
        if isinstance(entry, Forgiven):
            counted.clear()
        elif of.server == server and isinstance(entry, Update | Missing):
            key = (of.run, entry.round)
            found[key] = isinstance(entry, Missing)
            counted.add(key)
            last[of.run] = entry.round
    undecided = {(id_, round_) for id_, round_ in last.items() if not found[id_, round_]}
    ended = tuple(
        RoundOutcome(*key, missing) for key, missing in found.items() if key in counted - undecided - refunds
    )
    return with_outcomes((), ended), tuple(
        round_ for id_, round_ in sorted(undecided - refunds) if id_ == run
    )


def _names(roster: crypto.Roster) -> dict[str, PartyId]:
    return {key_digest(identity): name for name, identity in roster.parties.items()}


def _read_rows(
    run: Run, rows: Mapping[str, Sequence[Sequence[int]]], names: Mapping[str, PartyId]
) -> dict[bytes, tuple[tuple[PartyId, ...], ...]]:
    members = [names.get(key, PartyId(f"key {key[:16]}")) for key in run.parties]
    return {
        bytes.fromhex(model): tuple(tuple(sorted(members[place] for place in row)) for row in sums)
        for model, sums in rows.items()
    }


def _written_rows(given: leakage.Given, roster: crypto.Roster) -> dict[str, tuple[tuple[int, ...], ...]]:
    places = {name: place for place, name in enumerate(sorted(roster.parties))}
    return {
        model.hex(): tuple(tuple(places[member] for member in row) for row in sums)
        for model, sums in given.items()
    }


def sums_entry(round_: int, given: leakage.Given, roster: crypto.Roster) -> Sums:
    """Return the entry of sums about to be opened."""
    return Sums(round=round_, sums=_written_rows(given, roster))


def update_entry(given: kernel.UpdateGiven, roster: crypto.Roster) -> Update:
    """Return the entry of updates about to be sent masked."""
    return Update(
        round=given.round,
        count=given.count,
        atom_seed=given.atom_seed.hex(),
        drawn=_written_rows(given.drawn, roster),
        silent=given.silent,
    )


def atoms_entry(counted: kernel.AtomsCounted, roster: crypto.Roster) -> CountedAtoms:
    """Return the entry of atoms over which metrics are about to be sent."""
    return CountedAtoms(atoms=_written_rows({b"": counted.atoms}, roster)[""])


def closed_entry(
    closed: kernel.ClustersClosed, entries: Sequence[Entry], roster: crypto.Roster
) -> ClosedClusters:
    """Return the entry of clusters that can no longer be opened."""
    names, server = _names(roster), key_digest(roster.server)
    places: dict[str, tuple[int, ...]] = {}
    for run, entry in _with_runs(entries):
        if isinstance(entry, Update) and (run.server, run.run, entry.round) == (
            server,
            closed.run,
            closed.round,
        ):
            rows = _read_rows(run, entry.drawn, names)
            places = {
                model.hex(): tuple(rows[model].index(row) for row in found)
                for model, found in closed.clusters.items()
            }
    return ClosedClusters(of=closed.run, round=closed.round, clusters=places, refunded=closed.refunded)


def spent_epsilon(entries: Sequence[Entry], unit: privacy.Unit, but: Run | None = None) -> float:
    """Return the epsilon of all releases of the account, at the smallest delta of their runs.

    It is infinite if a release was without noise, or hid single records while ``unit`` is the party. Choices
    of task groups add pure epsilon, even without updates: a server may void every round after an answer. The
    current run ``but`` is left out, except releases with other noise.

    Raises:
        ConfigError: dp_accounting is missing.
    """
    events: list[privacy.ReleaseEvent] = []
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
        total += privacy.Ledger(unit=unit, relation=relation, delta=min(deltas), events=alike).epsilon()
    return total


def without_run(entries: Sequence[Entry], run: str) -> tuple[Entry, ...]:
    """Return the entries of all runs but those of one id."""
    of_run = [of.run == run for of, _ in _with_runs(entries)]
    before = len(entries) - len(of_run)
    return (*entries[:before], *(entry for entry, it in zip(entries[before:], of_run, strict=True) if not it))


def chosen_epsilon(entries: Sequence[Entry], but: Run | None = None) -> float:
    """Return the epsilon of all choices of task groups, except in the run ``but``."""
    return math.fsum(
        choice.epsilon
        for one in by_run(entries)
        for choice in one.choices
        if but is None or (one.run.run, one.run.server) != (but.run, but.server)
    )


def _release(run: Run) -> tuple[Hashable, ...]:
    return run.run, run.server, run.event, run.delta


def _with_runs(entries: Sequence[Entry]) -> Iterator[tuple[Run, Entry]]:
    run: Run | None = None
    for entry in entries:
        run = entry if isinstance(entry, Run) else run
        if run is not None:
            yield run, entry
