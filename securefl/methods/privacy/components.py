"""Noise shares of the parties of a sum, and noise components that keep the noise exact under dropouts.

With ``local`` shares every upload carries the whole target (h = 1), with ``threshold`` 1/h of its variance, h
= min_survivors - f. Colluders, at most f in *every* cluster, are parties whose noise the adversary may know,
or that may add none. For random clusters f holds only with a probability
(:mod:`securefl.methods.clustering.odds`).

Components (Dordis' XNoise): every member adds a base share, sized for the largest planned cluster, and one
component for each tolerated dropout. Members missing from a smaller cluster count as dropouts. Surplus
components of the s survivors are removed from the opened sum (:mod:`securefl.protocol.secure_sum.removal`).
Each has then added a variance of target^2 / (s - f), so target^2 is unknown to the adversary, up to float
rounding. Every opening needs fresh noise: removed components would be known in the next.

Source: Jiang et al. (Dordis, arXiv 2209.12528), theorem 1, with f colluders subtracted before the division.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from securefl.base import sums
from securefl.base.errors import ConfigError, UsageError

Placement = Literal["local", "threshold", "dropout-exact"]
"""Placement of noise; ``dropout-exact`` uses components."""


@dataclass(frozen=True, slots=True)
class SharePlan:
    """Each party's share of the noise, made by :func:`plan_shares`."""

    placement: Placement
    target: float
    """Standard deviation, steps, of the noise unknown to the adversary in every opened sum."""
    min_survivors: int
    colluders: int
    """f: largest number of members that collude or add no noise."""

    @property
    def honest(self) -> int:
        """h: number of parties over whose noise the target is spread."""
        return 1 if self.placement == "local" else self.min_survivors - self.colluders

    @property
    def share_std(self) -> float:
        """Standard deviation of one party's noise, steps: the smallest float s with h s^2 >= target^2."""
        return std_of(Fraction(self.target) ** 2 / self.honest)

    def kept_std(self, _survivors: int) -> float:
        """Return the standard deviation, steps, of each survivor's noise in an opened sum."""
        return self.share_std


def std_of(variance: Fraction) -> float:
    """Return the smallest float whose square is at least ``variance`` > 0."""
    std = math.sqrt(variance)
    while Fraction(std) ** 2 >= variance:
        std = math.nextafter(std, 0.0)
    while Fraction(std) ** 2 < variance:
        std = math.nextafter(std, math.inf)
    return std


def plan_shares(
    placement: Placement, target: float, min_survivors: int, colluders: int, path: str = "privacy.noise"
) -> SharePlan:
    """Divide noise of standard deviation ``target`` > 0, steps, among the parties of a sum.

    ``placement`` is ``local`` or ``threshold``; every opened sum has at least ``min_survivors`` members, at
    most ``colluders`` of a cluster collude. Errors name the scenario field ``path``.

    Raises:
        ConfigError: ``threshold`` with h < 1.
        UsageError: a target that is not finite and positive, or counts out of range.

    Source: Kairouz et al. 2021 (arXiv 2102.06387); for dropouts Jiang et al. (arXiv 2209.12528).
    """
    if not (math.isfinite(target) and target > 0):
        raise UsageError(f"target, a standard deviation, must be finite and positive, found {target}")
    if min_survivors < 1 or colluders < 0:
        raise UsageError(
            f"min_survivors must be at least 1 and colluders at least 0, found {min_survivors} and"
            f" {colluders}"
        )
    plan = SharePlan(placement, target, min_survivors, colluders)
    if plan.honest < 1:
        raise ConfigError(
            path,
            f"with min_survivors = {min_survivors} and f = {colluders} colluders an opened sum may hold no"
            " secret noise at all",
            f"set min_survivors to at least {colluders + 1}, or local noise",
        )
    return plan


@dataclass(frozen=True, slots=True)
class ComponentPlan:
    """Noise components of one member, made by :func:`plan_components`."""

    target: float
    planned: int
    """Members of the largest planned cluster; if absences make a cluster larger, it has more noise."""
    colluders: int
    """f: largest number of members that collude or add no noise."""
    share_std: float
    """Standard deviation, steps, of the base share, which is never removed."""
    stds: tuple[float, ...]
    """Standard deviations, steps, of components; number k (at index k - 1) stays if k or more drop out."""

    @property
    def honest(self) -> int:
        """Largest number of parties over whose noise the target is spread."""
        return self.planned - self.colluders

    def kept_std(self, survivors: int) -> float:
        """Return the standard deviation, steps, of each survivor's noise in the opened sum.

        Raises:
            UsageError: more dropouts than are tolerated.
        """
        return std_of(self._kept_fraction(survivors))

    def _kept_fraction(self, survivors: int) -> Fraction:
        missing = max(0, self.planned - survivors)
        if missing > len(self.stds):
            raise UsageError(
                f"survivors must be at least {self.planned - len(self.stds)} (planned {self.planned}, at"
                f" most {len(self.stds)} dropouts), found {survivors}"
            )
        return sums.exact_sum(Fraction(std) ** 2 for std in (self.share_std, *self.stds[:missing]))


def plan_components(
    target: float, planned: int, min_survivors: int, colluders: int, path: str = "privacy.placement"
) -> ComponentPlan:
    """Divide noise into components of every member.

    ``planned`` is the size of the largest planned cluster, at least ``min_survivors``. Other arguments and
    errors are as for :func:`plan_shares`; a ConfigError means that no survivor's noise would be secret.
    """
    if not (math.isfinite(target) and target > 0):
        raise UsageError(f"target, a standard deviation, must be finite and positive, found {target}")
    if not 1 <= min_survivors <= planned or colluders < 0:
        raise UsageError(
            f"min_survivors must be from 1 to {planned} (planned) and colluders at least 0, found"
            f" {min_survivors} and {colluders}"
        )
    if min_survivors <= colluders:
        raise ConfigError(
            path,
            f"with min_survivors = {min_survivors} and f = {colluders} colluders an opened sum may hold no"
            " secret noise at all",
            f"set min_survivors to at least {colluders + 1}, or local noise",
        )
    squared = Fraction(target) ** 2
    kept = Fraction(0)
    stds: list[float] = []
    for survivors in range(planned, min_survivors - 1, -1):
        # Floats round up, so the noise so far slightly exceeds its target; the excess is not added again.
        stds.append(std_of(squared / (survivors - colluders) - kept))
        kept += Fraction(stds[-1]) ** 2
    return ComponentPlan(target, planned, colluders, stds[0], tuple(stds[1:]))
