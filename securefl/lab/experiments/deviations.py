"""Opened sums with and without deviating parties, for the power of the checks.

The Skellam noise of k parties is one draw of k times the variance. All signals point the same way: honest
ones use up the allowance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from securefl.base.arrays import F64, I64
from securefl.base.entropy import Entropy
from securefl.methods import privacy

STD: Final = 1024.0
"""Standard deviation of a party's noise, steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSetting:
    """Setting of sums to check."""

    dim: int
    members: int
    multiplier: float = 1.0
    """Standard deviation of a party's noise over its clipping bound."""
    note: str = "One party's noise has the standard deviation of its signal's bound."

    @property
    def norm(self) -> float:
        """Clipping bound of a signal, steps."""
        return STD / self.multiplier

    @property
    def spread(self) -> float:
        """Standard deviation of a sum's noise, steps: the unit of deviations."""
        return math.sqrt(self.members) * STD

    def plan(self, alpha: float) -> privacy.CheckPlan:
        """Return the checks of this setting."""
        rounded = privacy.BoundedRounding(self.norm, self.dim).sensitivity
        return privacy.CheckPlan(law="skellam", std=STD, member_norm=rounded, alpha=alpha)

    def noise(self, parties: int, entropy: Entropy) -> I64:
        """Return the summed noise of ``parties`` parties, i64 ``(dim,)``."""
        total = np.zeros(self.dim, dtype=np.int64)
        most = int((privacy.MAX_STD / STD) ** 2)
        for group in range(0, parties, most):
            count = min(most, parties - group)
            total += privacy.noise_table("skellam", STD * math.sqrt(count)).sample(self.dim, entropy)
        return total

    def direction(self, entropy: Entropy) -> F64:
        """Return a random unit vector, f64 ``(dim,)``."""
        dense = privacy.noise_table("skellam", 256.0).sample(self.dim, entropy).astype(np.float64)
        return dense / math.sqrt(float(np.square(dense).sum()))


Make = Callable[[PowerSetting, Entropy, Entropy], I64]
"""Function that makes a sum from a setting, entropy fixed for all rounds (directions) and fresh entropy
(noise).
"""


@dataclass(frozen=True, slots=True)
class Deviation:
    """Row of the table."""

    name: str
    make: Make
    fewest: int = 1
    honest: bool = False
    """True if its failure rate is that of false alarms."""


def _round_values(values: F64) -> I64:
    return np.rint(values).astype(np.int64)


def _signal(setting: PowerSetting, fixed: Entropy, signals: int) -> I64:
    return _round_values(signals * setting.norm * setting.direction(fixed.child("signal")))


def _sum(signals: int, noises: int) -> Make:
    """Make sums with ``signals`` signals and ``noises`` noises beyond those of n members."""

    def make(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
        n = setting.members
        return _signal(setting, fixed, n + signals) + setting.noise(n + noises, fresh)

    return make


_aligned: Final = _sum(0, 0)


def _no_signal(setting: PowerSetting, _fixed: Entropy, fresh: Entropy) -> I64:
    return setting.noise(setting.members, fresh)


def _spike(setting: PowerSetting, _fixed: Entropy, fresh: Entropy) -> I64:
    values = setting.noise(setting.members, fresh)
    values[0] += math.floor(setting.members * setting.norm)
    return values


def _constant(setting: PowerSetting, _fixed: Entropy, fresh: Entropy) -> I64:
    """Return a sum with the whole allowance as equal integer steps."""
    values = setting.noise(setting.members, fresh)
    total = setting.members * setting.norm
    height = max(1, math.floor(total / math.sqrt(setting.dim)))
    values[: math.floor((total / height) ** 2)] += height
    return values


def _half_skip(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
    return _sum(0, -(setting.members // 2))(setting, fixed, fresh)


def _scaled_noise(factor: float) -> Make:
    def make(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
        own = setting.noise(1, fresh.child("own")).astype(np.float64)
        return _sum(0, -1)(setting, fixed, fresh) + _round_values(factor * own)

    return make


def _all_scaled(factor: float) -> Make:
    def make(setting: PowerSetting, _fixed: Entropy, fresh: Entropy) -> I64:
        return _round_values(factor * setting.noise(setting.members, fresh).astype(np.float64))

    return make


def _flipped_upload(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
    return _sum(-11, -1)(setting, fixed, fresh) - 10 * setting.noise(1, fresh.child("own"))


def _sparse(spreads: float, count: int) -> Make:
    """Add energy to ``count`` coordinates, equal in size, with fixed signs."""

    def make(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
        values = _aligned(setting, fixed, fresh)
        size = round(spreads * setting.spread / math.sqrt(count))
        signs = np.frombuffer(fixed.child("signs").draw(count), dtype=np.uint8) & 1
        values[:count] += size * (2 * signs.astype(np.int64) - 1)
        return values

    return make


def _bias(spreads: float) -> Make:
    def make(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
        more = spreads * setting.spread * setting.direction(fixed.child("target"))
        return _aligned(setting, fixed, fresh) + _round_values(more)

    return make


def _shift(spreads: float) -> Make:
    def make(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
        return _aligned(setting, fixed, fresh) + round(spreads * setting.spread / math.sqrt(setting.dim))

    return make


def _imitation(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
    """Return a sum in which one member sends only noise of the agreed law: n - 1 signals, n noises."""
    return _sum(-1, 0)(setting, fixed, fresh)


def _sort_noise(setting: PowerSetting, fixed: Entropy, fresh: Entropy) -> I64:
    """Sort one member's honestly drawn noise in the order of a direction's coordinates."""
    own = np.empty(setting.dim, dtype=np.int64)
    own[np.argsort(setting.direction(fixed.child("target")))] = np.sort(setting.noise(1, fresh.child("own")))
    return _sum(-1, -1)(setting, fixed, fresh) + own


DEVIATIONS: Final[tuple[Deviation, ...]] = (
    Deviation("honest, no signal", _no_signal, honest=True),
    Deviation("honest, all signals aligned", _aligned, honest=True),
    Deviation("honest, all signal in one coordinate", _spike, honest=True),
    Deviation("honest, all signal a constant shift", _constant, honest=True),
    Deviation("1 member adds no noise", _sum(0, -1)),
    Deviation("2 members add no noise", _sum(0, -2), 2),
    Deviation("half the members add no noise", _half_skip, 6),
    Deviation("1 member is counted that dropped out", _sum(-1, -1), 2),
    Deviation("1 member's noise x 1.01", _scaled_noise(1.01)),
    Deviation("1 member's noise x 1.1", _scaled_noise(1.1)),
    Deviation("1 member's noise x 1.2", _scaled_noise(1.2)),
    Deviation("1 member's noise x 1.5", _scaled_noise(1.5)),
    Deviation("everybody's noise x 1.01", _all_scaled(1.01)),
    Deviation("1 member sends -10 x its signal, noise as agreed", _sum(-11, 0)),
    Deviation("1 member sends -10 x its noisy upload", _flipped_upload),
    Deviation("10 spreads on 1 coordinate", _sparse(10, 1)),
    Deviation("30 spreads on 1 coordinate", _sparse(30, 1)),
    Deviation("30 spreads on 10 coordinates", _sparse(30, 10)),
    Deviation("30 spreads on 79 coordinates", _sparse(30, 79)),
    Deviation("30 spreads on 500 coordinates", _sparse(30, 500)),
    Deviation("bias of 10 spreads, random direction", _bias(10)),
    Deviation("bias of 30 spreads, random direction", _bias(30)),
    Deviation("bias of 100 spreads, random direction", _bias(100)),
    Deviation("constant shift of 10 spreads", _shift(10)),
    Deviation("constant shift of 30 spreads", _shift(30)),
    Deviation("Gaussian attack: 1 member sends only noise", _imitation),
    Deviation("1 member sorts its noise along a direction", _sort_noise),
)
