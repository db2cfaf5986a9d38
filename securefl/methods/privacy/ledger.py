"""What a party has spent of its privacy budget: a value that is replaced, never changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from securefl.base.errors import UsageError
from securefl.methods.privacy.accountant import check_one_kind, epsilon
from securefl.methods.privacy.composition import Accountant
from securefl.methods.privacy.guarantee import Guarantee
from securefl.methods.privacy.release import Relation, ReleaseEvent, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All release events of one party.

    In a run all events of a party are alike and known before it (docs/adr/0017). So what a party compares
    before it releases anything is their number (:mod:`securefl.protocol.round.shared.budget`).
    """

    unit: Unit
    relation: Relation
    delta: float
    """In (0, 1), below 1 over the party's number of records."""
    events: tuple[ReleaseEvent, ...] = ()

    def spend(self, event: ReleaseEvent) -> Ledger:
        """The ledger with one more event.

        Raises:
            UsageError: an event of another unit or relation, or one that has no accounting.
        """
        if (event.unit, event.relation) != (self.unit, self.relation):
            raise UsageError(
                f"a ledger of {self.unit}, {self.relation} cannot add {event.unit}, {event.relation}"
            )
        check_one_kind((event,))
        return replace(self, events=(*self.events, event))

    def epsilon(self, accountant: Accountant = "pld") -> float:
        """Spent so far, at the ledger's delta.

        Raises:
            ConfigError: dp_accounting is missing.
        """
        return epsilon(self.events, self.delta, accountant)

    def guarantee(self, *, colluders: int | None = None, failure: float = 0.0) -> Guarantee:
        """What has been spent, with its assumptions.

        Args:
            colluders: cluster mates whose noise the events do not count; None where they count no mate's.
            failure: probability that a cluster has more of them.

        Raises:
            ConfigError: dp_accounting is missing.
        """
        return Guarantee(
            epsilon=self.epsilon(),
            epsilon_rdp=self.epsilon("rdp"),
            delta=self.delta,
            unit=self.unit,
            relation=self.relation,
            samplers=tuple(dict.fromkeys(event.sampling() for event in self.events)),
            steps=sum(event.steps for event in self.events),
            colluders=colluders,
            failure=failure,
        )
