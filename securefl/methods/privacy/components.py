"""Noise shares of the parties of a sum, and noise components that keep the noise exact under dropouts.

Shares:

- ``local``: every upload carries the whole target by itself (h = 1).
- ``threshold``: every party adds 1/h of the target's variance, h = min_survivors - f. Every opened sum has at
  least min_survivors members, of which at most f collude. Colluders here are parties whose noise the
  adversary may know, or that may add none.

This assumes that no sum of fewer survivors is opened, and that f bounds the colluders of *every* cluster. For
clusters drawn at random the latter holds only with a probability (:mod:`securefl.methods.clustering.odds`).

Components (Dordis' XNoise): an opened sum carries the same noise for any number of dropouts. Every member
adds a base share, sized for the largest planned cluster, and one component for each tolerated dropout.
Members missing from a smaller cluster count as dropouts. Superfluous components of the survivors are removed
from the sum again (:mod:`securefl.protocol.secure_sum.removal`). With s survivors, of which at most f
collude, each has then added a variance of target^2 / (s - f). So target^2 of the sum is unknown to the
adversary, and the sum holds target^2 s / (s - f), both up to float rounding.

Every opening needs fresh noise: components removed from one opening would be known in the next.

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
    """Smallest number of members of a sum that is opened."""
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
    """Divide the noise.

    Args:
        placement: ``local`` or ``threshold``.
        target: standard deviation in steps, > 0.
        min_survivors: smallest number of members of a sum that is opened, >= 1.
        colluders: f >= 0, of one cluster.
        path: scenario field that errors name.

    Raises:
        ConfigError: ``threshold`` with h < 1.
        UsageError: a target that is not finite and positive, or counts out of range.

    Source: noise divided among the parties of a sum, Kairouz et al. 2021 (arXiv 2102.06387); the effect of
    dropouts, Jiang et al. (Dordis, arXiv 2209.12528).
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
    """Standard deviation, steps, of the noise unknown to the adversary in every opened sum."""
    planned: int
    """Members of the largest planned cluster. A cluster that grows, because parties are absent, has more
    noise."""
    colluders: int
    """f: largest number of members that collude or add no noise."""
    share_std: float
    """Standard deviation, steps, of the base share, which is never removed."""
    stds: tuple[float, ...]
    """Standard deviations, steps: of component k at index k - 1, kept if at least k members have dropped
    out."""

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
    """Divide the noise into components.

    Args:
        target: standard deviation in steps, > 0.
        planned: members of the largest planned cluster, at least ``min_survivors``.
        min_survivors: smallest number of members of a sum that is opened, >= 1.
        colluders: f >= 0, of one cluster.
        path: scenario field that errors name.

    Raises:
        ConfigError: no survivor's noise would be secret.
        UsageError: a target that is not finite and positive, or counts out of range.
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
        # Floats round up: the noise so far exceeds its target slightly, and the excess is not added again.
        stds.append(std_of(squared / (survivors - colluders) - kept))
        kept += Fraction(stds[-1]) ** 2
    return ComponentPlan(target, planned, colluders, stds[0], tuple(stds[1:]))
