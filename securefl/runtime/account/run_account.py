"""A party's account during one run."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec
import numpy as np

from securefl.base.crypto import Roster, digest
from securefl.methods import privacy
from securefl.protocol import kernel
from securefl.protocol.round import NO_CHOICE, LastChoice, RunPlan
from securefl.runtime.account import summary
from securefl.runtime.account.entries import NOTHING, GroupNamed, Missing, Run
from securefl.runtime.account.file import AccountFile
from securefl.training.data import Shard


class OwnData(NamedTuple):
    """Identity of a party's training data."""

    digest: str
    """Digest in hex; for a site of its name, as its data stay there."""
    samples: int

    @classmethod
    def of(cls, shard: Shard) -> OwnData:
        """Return the identity of a shard's data."""
        return cls(_data_digest(shard), len(shard.y))

    @classmethod
    def at_site(cls, name: str, samples: int) -> OwnData:
        """Return the identity of the site ``module:name``."""
        return cls(digest("account site", name).hex(), samples)


class OpenAccount:
    """Records a run's releases in a party's account."""

    def __init__(self, file: AccountFile, plan: RunPlan, data: OwnData) -> None:
        self._file = file
        self._roster: Roster = plan.roster
        joined, entries = _run_of(plan, data), file.entries
        self._run = joined
        self.given = summary.given_of(entries, plan.roster)
        """Sums of earlier runs, and of this run before a restart."""
        known = summary.of_run(entries, plan.run, joined.server)
        self.rounds = frozenset(known.rounds) if known else frozenset[int]()
        self.refunded = known.refunded if known else frozenset[int]()
        self.unresolved = summary.unresolved_of(entries, plan.roster)
        self.unreleased = tuple(
            (one.run.run, round_)
            for one in summary.by_server(entries, joined.server)
            for round_ in one.unreleased
        )
        """(run, round) at this server with a masked input and no shares."""
        self.outcomes, self.taken = summary.outcomes_of(entries, plan.run, joined.server)
        self.atom_seed = known.atom_seed if known else b""
        self.kept = summary.kept_atoms_of(entries, plan.roster)
        choices = known.choices if known else ()
        self.choice = LastChoice(choices[-1].made, choices[-1].group) if choices else NO_CHOICE
        runs = [entry for entry in entries if isinstance(entry, Run)]
        self._joining = None if runs and _run_line(runs[-1]) == _run_line(joined) else joined

    def enter(self, entry: kernel.AccountEntry) -> None:
        """Record an entry durably before its release; skip atoms already recorded.

        Raises:
            RunAbortedError: the write failed; the caller must not release.
        """
        if isinstance(entry, kernel.AtomsCounted) and set(entry.atoms) <= set(self.kept):
            return
        if self._joining is not None:
            # Deferred: a party that releases nothing leaves no trace of the run.
            self._file.append(self._joining)
            self._joining = None
        if isinstance(entry, kernel.UpdateGiven):
            self._file.append(summary.update_entry(entry, self._roster))
        elif isinstance(entry, kernel.AtomsCounted):
            self._file.append(summary.atoms_entry(entry, self._roster))
            self.kept = summary.kept_atoms_of(self._file.entries, self._roster)
        elif isinstance(entry, kernel.RoundMissing):
            self._file.append(Missing(round=entry.round))
        elif isinstance(entry, kernel.ClustersClosed):
            self._file.append(summary.closed_entry(entry, self._file.entries, self._roster))
        elif isinstance(entry, kernel.SumsGiven):
            self._file.append(summary.sums_entry(entry.round, entry.sums, self._roster))
        else:
            named = GroupNamed(round=entry.round, epsilon=entry.epsilon, made=entry.made, group=entry.group)
            self._file.append(named)

    def spent(self, unit: privacy.Unit) -> float:
        """Return the epsilon of all other runs, and of this run's releases with different noise.

        Raises:
            ConfigError: dp_accounting is missing.
        """
        return summary.spent_epsilon(self._file.entries, unit, but=self._run)


def _run_of(plan: RunPlan, data: OwnData) -> Run:
    mechanism = plan.mechanism
    return Run(
        run=plan.run,
        scenario=plan.scenario.name,
        server=summary.key_digest(plan.roster.server),
        parties=tuple(summary.key_digest(plan.roster.parties[name]) for name in sorted(plan.roster.parties)),
        data=data.digest,
        samples=data.samples,
        event=None if mechanism is None else mechanism.event,
        delta=0.0 if mechanism is None else mechanism.delta,
        repeats=bool(plan.metrics) and mechanism is None and plan.scenario.evaluation.repeats == "accept",
        validated=0 if plan.scenario.secure_sum.validated is None else plan.scenario.clustering.reclusterings,
    )


def _run_line(run: Run) -> Run:
    return msgspec.structs.replace(run, before=NOTHING)


def _data_digest(shard: Shard) -> str:
    state = hashlib.sha256(b"securefl/1 account data")
    for array in (shard.x, shard.y):
        state.update(f"{array.dtype.str} {array.shape}".encode("ascii"))
        state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return state.hexdigest()
