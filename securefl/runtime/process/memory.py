"""A party's journal and account."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from securefl.base import crypto
from securefl.base.errors import DecisionError
from securefl.methods import clustering
from securefl.protocol.round import (
    NO_CHOICE,
    LastChoice,
    RunPlan,
    reason_to_leave,
    simulated_atoms,
)
from securefl.runtime import account
from securefl.runtime.process.journal import FileJournal
from securefl.runtime.process.privacy import own_releases
from securefl.runtime.process.settings import ProcessSettings


@dataclass(frozen=True)
class Memory:
    """Durable stores of a party, and its state at the start."""

    journal: FileJournal
    account: account.OpenAccount | None
    """None for a key that ends with the run."""
    releases: int
    allowed: int | None
    """Updates that the party's budget allows in this run."""

    @property
    def spent(self) -> int:
        """Last round that the party has begun; -1 for none."""
        return max(self.journal.spent, *(self.account.rounds if self.account else ()), -1)

    @property
    def atom_seed(self) -> bytes:
        """Seed of the atoms in which updates may have been sent."""
        return self.journal.atom_seed or (self.account.atom_seed if self.account else b"")

    @property
    def choice(self) -> LastChoice:
        """Task group that the party has named last."""
        known = self.account.choice if self.account else NO_CHOICE
        return max(self.journal.choice, known)

    def context(self, plan: RunPlan) -> dict[str, Any]:
        """Return the fields of :class:`securefl.protocol.round.PartyContext` that outlast a process."""
        own = self.account
        known: dict[str, Any] = {"metric_atoms": simulated_atoms(plan)}
        if own is not None:
            known = {
                "released_sums": own.given,
                "unresolved": own.unresolved,
                "rounds_without_release": own.unreleased,
                "outcomes": own.outcomes,
                "unknown_outcomes": own.taken,
                "metric_atoms": own.kept,
            }
        return known | {
            "last_spent_round": self.spent,
            "releases": self.releases,
            "own_budget": self.allowed,
            "atom_seed": self.atom_seed,
            "choice": self.choice,
            "root": self.journal.root,
            "root_round": self.journal.rooted,
            "leader": self.journal.leader,
        }


@contextmanager
def open_memory(
    settings: ProcessSettings, identity: crypto.Identity, plan: RunPlan, data: account.OwnData
) -> Iterator[Memory]:
    """Open a party's memory, its account locked against other processes of its key.

    Raises:
        ConfigError: journal or account is unreadable or invalid, or the budget left is too small.
        DecisionError: a person must decide whether the party continues with this server.
        RunAbortedError: the account cannot be written.
    """
    journal = FileJournal(settings.out / f"{settings.name}.journal", settings.run)
    works = clustering.works_of(plan.scenario.clustering)
    if settings.account is None:
        allowed = own_releases(plan, settings.own_budget, settings.own_spent)
        yield Memory(journal, None, len(journal.submitted) * works, allowed)
        return
    head = account.AccountHead.of(account.key_digest(identity.public))
    with account.AccountFile(settings.account, identity.public, head) as file:
        open_account = account.OpenAccount(file, plan, data)
        allowed = own_releases(plan, settings.own_budget, settings.own_spent, open_account.spent)
        if reason := reason_to_leave(open_account.outcomes):
            raise DecisionError(
                str(settings.account),
                reason,
                "ask the server's operator why; to join anyway: securefl account --forgive",
            )
        counted = (journal.submitted | open_account.rounds) - open_account.refunded
        yield Memory(journal, open_account, len(counted) * works, allowed)
