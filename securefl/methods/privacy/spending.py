"""Epsilon by number of releases, for reports of every round, and the ledger of what each party has spent.

A guarantee: an epsilon together with everything without which it says nothing.
"""

import math
from dataclasses import dataclass

from securefl.base import sums
from securefl.methods.privacy import release
from securefl.methods.privacy.accountant import (
    epsilon,
    epsilon_on_grid,
    need_dp_accounting,
    settled_grid,
)
from securefl.methods.privacy.composition import Accountant
from securefl.methods.privacy.mechanism import Mechanism

NO_GUARANTEE = "none"
"""What to print instead of an epsilon where nothing is guaranteed, as with seeded entropy."""


def describe_epsilon(epsilon: float, event: release.ReleaseEvent, delta: float) -> str:
    """An epsilon of releases like ``event`` in one line, with what it is an epsilon of."""
    what = f"{event.unit} level, {event.relation}, {event.sampling()}"
    return f"epsilon {epsilon:.4g} at delta {delta:.3g} ({what})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of all that a party has released.

    ``epsilon`` (by privacy loss distributions) and ``epsilon_rdp`` are two upper bounds of the same; the
    former is the one to quote.
    """

    epsilon: float
    epsilon_rdp: float
    delta: float
    unit: release.Unit
    relation: release.Relation
    samplers: tuple[str, ...]
    """Each kind of sampling in words."""
    steps: int
    """Releases, of all kinds together."""
    colluders: int | None = None
    """Cluster mates whose noise does not count; None where no mate's does."""
    failure: float = 0.0
    """Probability, at most, that more of the party's mates do, in some round of the run."""

    def __str__(self) -> str:
        """One line; the word "none" without a finite epsilon."""
        if not math.isfinite(self.epsilon):
            return NO_GUARANTEE
        other = f"{self.epsilon_rdp:.4g}" if math.isfinite(self.epsilon_rdp) else NO_GUARANTEE
        bounds = f"epsilon {self.epsilon:.4g} (PLD; RDP {other})"
        many = f"{self.steps} step{'' if self.steps == 1 else 's'}"
        return f"{bounds} {self.kind}, {many}{self._premise()}"

    @property
    def kind(self) -> str:
        """The kind of its epsilon: delta, unit, relation and sampling."""
        sampling = " and ".join(self.samplers) or "nothing released"
        return f"at delta {self.delta:.3g}: {self.unit} level, {self.relation}, {sampling}"

    def _premise(self) -> str:
        if self.colluders is None:
            return ""
        many = f"at most {self.colluders}" if self.colluders else "none"
        said = f"; if {many} of the other parties in a cluster collude or add no noise"
        return said + (
            f", which fails with probability at most {self.failure:.2g} over this run" if self.failure else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All release events of one party.

    In a run all events of a party are alike and known before it (docs/adr/0017). So what a party compares
    before it releases anything is their number (:mod:`securefl.protocol.round.shared.budget`).
    """

    unit: release.Unit
    relation: release.Relation
    delta: float
    """In (0, 1), below 1 over the party's number of records."""
    events: tuple[release.ReleaseEvent, ...] = ()

    def epsilon(self, accountant: Accountant = "pld") -> float:
        """Spent so far, at the ledger's delta.

        Raises:
            ConfigError: dp_accounting is missing.
        """
        return epsilon(self.events, self.delta, accountant)

    def guarantee(self, *, colluders: int | None = None, failure: float = 0.0) -> Guarantee:
        """The guarantee of what has been spent, with its assumptions.

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
            steps=sums.exact_sum(event.steps for event in self.events),
            colluders=colluders,
            failure=failure,
        )


EXACT_UP_TO = 64
"""Each number of releases up to this one has an epsilon of its own."""

_GROWTH = 1.03
"""Beyond, one for each group of numbers, which are at most so far apart."""


class Spending:
    """Epsilon spent by one party that releases again and again.

    All numbers share one discretisation, the one that is fine enough for ``most`` releases, so that a number
    more costs milliseconds. A coarse grid only adds to epsilon.

    Args:
        mechanism: of every release.
        most: releases that are planned.

    Raises:
        ConfigError: dp_accounting is missing.
    """

    def __init__(self, mechanism: Mechanism, most: int) -> None:
        need_dp_accounting()
        self._mechanism = mechanism
        self._grid = settled_grid((mechanism.event.times(most),), mechanism.delta)
        self._known: dict[int, float] = {0: 0.0}

    def after(self, releases: int) -> float:
        """At least the epsilon of so many releases, by privacy loss distributions."""
        count = _rounded_up(releases)
        if count not in self._known:
            event = self._mechanism.event.times(count)
            self._known[count] = epsilon_on_grid((event,), self._mechanism.delta, self._grid)
        return self._known[count]


def ledger_of(mechanism: Mechanism, releases: int) -> Ledger:
    """The ledger of a party that has released so often: one event for each."""
    event = mechanism.event
    return Ledger(unit=event.unit, relation=event.relation, delta=mechanism.delta, events=(event,) * releases)


def _rounded_up(releases: int) -> int:
    """The smallest number of a fixed series that is not below ``releases``; epsilon grows with the number."""
    if releases <= EXACT_UP_TO:
        return releases
    group = math.ceil(math.log(releases / EXACT_UP_TO) / math.log(_GROWTH) - 1e-9)
    return max(releases, math.ceil(EXACT_UP_TO * _GROWTH**group))
