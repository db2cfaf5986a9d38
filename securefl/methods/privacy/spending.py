"""Epsilon by number of releases for reports, and the ledger of each party's releases."""

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
"""Text in place of an epsilon without a guarantee, as with seeded entropy."""


def describe_epsilon(epsilon: float, event: release.ReleaseEvent, delta: float) -> str:
    """Return a one-line description of an epsilon of releases like ``event``."""
    what = f"{event.unit} level, {event.relation}, {event.sampling()}"
    return f"epsilon {epsilon:.4g} at delta {delta:.3g} ({what})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of all releases of a party, under stated assumptions.

    ``epsilon`` (by PLD) and ``epsilon_rdp`` bound the same value; quote ``epsilon``.
    """

    epsilon: float
    epsilon_rdp: float
    delta: float
    unit: release.Unit
    relation: release.Relation
    samplers: tuple[str, ...]
    """Text for each kind of sampling."""
    steps: int
    """Number of releases of all kinds."""
    colluders: int | None = None
    """Number of cluster mates whose noise does not count; None if no mate's noise counts."""
    failure: float = 0.0
    """Upper bound on the probability that, in some round, more mates collude or add no noise."""

    def __str__(self) -> str:
        """Return one line; the word "none" without a finite epsilon."""
        if not math.isfinite(self.epsilon):
            return NO_GUARANTEE
        other = f"{self.epsilon_rdp:.4g}" if math.isfinite(self.epsilon_rdp) else NO_GUARANTEE
        bounds = f"epsilon {self.epsilon:.4g} (PLD; RDP {other})"
        many = f"{self.steps} step{'' if self.steps == 1 else 's'}"
        return f"{bounds} {self.kind}, {many}{self._premise()}"

    @property
    def kind(self) -> str:
        """Kind of the epsilon: delta, unit, relation and sampling."""
        sampling = " and ".join(self.samplers) or "nothing released"
        return f"at delta {self.delta:.3g}: {self.unit} level, {self.relation}, {sampling}"

    def _premise(self) -> str:
        if self.colluders is None:
            return ""
        many = f"at most {self.colluders}" if self.colluders else "none"
        text = f"; if {many} of the other parties in a cluster collude or add no noise"
        return text + (
            f", which fails with probability at most {self.failure:.2g} over this run" if self.failure else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All release events of one party; in a run they are alike and known in advance (docs/adr/0017)."""

    unit: release.Unit
    relation: release.Relation
    delta: float
    """In (0, 1), below 1 over the party's number of records."""
    events: tuple[release.ReleaseEvent, ...] = ()

    def epsilon(self, accountant: Accountant = "pld") -> float:
        """Return the epsilon spent so far; raise a ConfigError if dp_accounting is missing."""
        return epsilon(self.events, self.delta, accountant)

    def guarantee(self, *, colluders: int | None = None, failure: float = 0.0) -> Guarantee:
        """Return the guarantee of all releases so far; arguments as the fields of :class:`Guarantee`.

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
"""Largest number of releases up to which each number has its own epsilon."""

_GROWTH = 1.03
"""Ratio between the numbers that have an epsilon, beyond :data:`EXACT_UP_TO`."""


class Spending:
    """Epsilon spent by one party that releases up to ``most`` times.

    All numbers share the grid that is fine enough for ``most`` releases, so another number costs
    milliseconds. A coarse grid only adds to epsilon.

    Raises:
        ConfigError: dp_accounting is missing.
    """

    def __init__(self, mechanism: Mechanism, most: int) -> None:
        need_dp_accounting()
        self._mechanism = mechanism
        self._grid = settled_grid((mechanism.event.times(most),), mechanism.delta)
        self._known: dict[int, float] = {0: 0.0}

    def after(self, releases: int) -> float:
        """Return an upper bound on the epsilon of ``releases`` releases, by privacy loss distributions."""
        count = _rounded_up(releases)
        if count not in self._known:
            event = self._mechanism.event.times(count)
            self._known[count] = epsilon_on_grid((event,), self._mechanism.delta, self._grid)
        return self._known[count]


def ledger_of(mechanism: Mechanism, releases: int) -> Ledger:
    """Return the ledger of a party with ``releases`` releases: one event for each."""
    event = mechanism.event
    return Ledger(unit=event.unit, relation=event.relation, delta=mechanism.delta, events=(event,) * releases)


def _rounded_up(releases: int) -> int:
    """Return the smallest number of a fixed series that is >= ``releases``."""
    if releases <= EXACT_UP_TO:
        return releases
    group = math.ceil(math.log(releases / EXACT_UP_TO) / math.log(_GROWTH) - 1e-9)
    return max(releases, math.ceil(EXACT_UP_TO * _GROWTH**group))
