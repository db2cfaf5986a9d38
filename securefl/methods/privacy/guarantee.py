"""A guarantee: an epsilon together with everything without which it says nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

from securefl.methods.privacy import release

NO_GUARANTEE = "none"
"""What to print instead of an epsilon where nothing is guaranteed, as with seeded entropy."""


def named(epsilon: float, event: release.ReleaseEvent, delta: float) -> str:
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
        said = f"; if {many} of the party's cluster mates collude or add no noise"
        return said + (
            f", which fails with probability at most {self.failure:.2g} over this run" if self.failure else ""
        )
