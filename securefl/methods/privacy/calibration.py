"""Smallest noise that keeps a target epsilon, found with few evaluations, since each may take 1 s."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy.accountant import epsilon, epsilon_on_grid, quick_epsilon, settled_grid
from securefl.methods.privacy.composition import Accountant
from securefl.methods.privacy.release import ReleaseEvent


def falling_root(
    over: Callable[[float], float],
    start: float,
    factor: float,
    tolerance: float,
    bounds: tuple[float, float],
) -> float | None:
    """Return x with over(x) <= 0 and over(x / (1 + ``tolerance``)) > 0; None if ``bounds`` hold none.

    Args:
        over: decreasing function; infinite values are allowed.
        start: first x, within ``bounds``.
        factor: first step up or down, > 1; steps grow.
        tolerance: > 0, relative.
        bounds: lowest and highest x from which another step is taken.
    """
    bracket = _around(over, start, factor, bounds)
    return None if bracket is None else _narrow(over, bracket, tolerance).high


class _Bracket(NamedTuple):
    """Bracket of a root: the function is above 0 at ``low`` and at most 0 at ``high``."""

    low: float
    over_low: float
    high: float
    over_high: float


def _around(
    over: Callable[[float], float], start: float, factor: float, bounds: tuple[float, float]
) -> _Bracket | None:
    """Return a bracket, searched from ``start`` in growing steps; None if the bounds hold none."""
    here, value = start, over(start)
    while bounds[0] <= here <= bounds[1]:
        there = here * factor if value > 0 else here / factor
        beyond = over(there)
        if value > 0 >= beyond:
            return _Bracket(here, value, there, beyond)
        if beyond > 0 >= value:
            return _Bracket(there, beyond, here, value)
        here, value, factor = there, beyond, factor**1.5
    return None


def _narrow(over: Callable[[float], float], bracket: _Bracket, tolerance: float) -> _Bracket:
    """Return a bracket with ``high`` <= ``low`` (1 + ``tolerance``).

    Uses false position, with bisection every third time. Guesses are moved to alternating sides by almost
    half the tolerance, so that the next one closes the bracket.
    """
    low, over_low, high, over_high = bracket
    side, turn = 1.0, 0
    while high > low * (1 + tolerance):
        turn += 1
        width = math.log(high / low)
        share = over_low / (over_low - over_high) if math.isfinite(over_low - over_high) and turn % 3 else 0.5
        nudge = 0.4 * tolerance / width
        share = min(max(share + side * nudge, nudge), 1 - nudge)
        middle = low * math.exp(share * width)
        value = over(middle)
        if value <= 0:
            high, over_high, side = middle, value, -1.0
        else:
            low, over_low, side = middle, value, 1.0
    return _Bracket(low, over_low, high, over_high)


MIN_EPSILON = 0.05
"""Smallest target: Renyi orders up to 1024 cannot show less at a small delta."""
MAX_EPSILON = 50.0
MIN_SIGMA = 0.05
MAX_SIGMA = 1e6
_WIDER = 10.0
"""Factor around the quick accountant's result within which the other accountants search."""
TOLERANCE = 1e-4
"""Relative tolerance: noise smaller by this factor no longer keeps the target."""


def steps_of_epochs(epochs: float, records: float, batch: float) -> int:
    """Return T, steps of ``batch`` expected records that cover ``epochs`` epochs: rounded up, at least 1."""
    # The margin absorbs rounding: 0.1 * 30 / 3 is above 1 in floating point.
    return max(1, math.ceil(epochs * records / batch - 1e-9))


def calibrate(
    event: ReleaseEvent,
    target: float,
    delta: float,
    accountant: Accountant = "pld",
    *,
    tolerance: float = TOLERANCE,
    path: str = "--epsilon",
) -> Calibrated:
    """Return the smallest noise multiplier with which ``event`` keeps ``target``, up to ``tolerance``.

    Brackets the root on logarithms: by integer Renyi orders, then by the accountant itself, on a coarse and a
    settled grid. A ledger of exactly this event has an epsilon of at most ``target``. The multiplier of
    ``event`` is ignored. ``target`` is in [0.05, 50], ``tolerance`` relative, in (0, 0.1]. Errors name
    ``path``, an argument or field.

    Raises:
        ConfigError: ``target`` is out of range or out of reach, or dp_accounting is missing.
        UsageError: a tolerance out of range, or an event without accounting.
    """
    if not MIN_EPSILON <= target <= MAX_EPSILON:
        raise ConfigError(
            path,
            f"cannot compute noise for epsilon = {target:g}",
            f"choose {MIN_EPSILON:g} to {MAX_EPSILON:g}",
        )
    if not 0 < tolerance <= 0.1:
        raise UsageError(f"tolerance must be above 0 and at most 0.1, found {tolerance}")

    find = _Search(event, target, delta, path)
    rough = find.start()
    if accountant == "rdp":
        sigma = find.root(lambda one: epsilon(one, delta, "rdp"), rough, 1.01, tolerance)
    else:
        grid = settled_grid(find.noisy(rough), delta)
        rough = find.root(lambda one: epsilon_on_grid(one, delta, 4 * grid), rough, 1.1, max(tolerance, 1e-3))
        sigma = find.root(lambda one: epsilon_on_grid(one, delta, grid), rough, 1.005, tolerance)
    spent = epsilon(find.noisy(sigma), delta, accountant)
    while spent > target:
        if not math.isfinite(spent):
            raise find.out_of_reach(sigma)
        # On its own grid, a ledger may find slightly more. A budget must last for all planned releases.
        sigma *= spent / target * (1 + tolerance / 2)
        spent = epsilon(find.noisy(sigma), delta, accountant)
    return Calibrated(sigma, spent)


class Calibrated(NamedTuple):
    """A noise multiplier and its epsilon, at most the target."""

    sigma: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class _Search:
    """Search for the noise at which an event spends a target."""

    event: ReleaseEvent
    target: float
    delta: float
    path: str

    def noisy(self, sigma: float) -> tuple[ReleaseEvent]:
        return (replace(self.event, noise_multiplier=sigma),)

    def start(self) -> float:
        """Return the root by integer Renyi orders, in about 10 ms; raise a ConfigError out of range."""

        def spent(one: tuple[ReleaseEvent]) -> float:
            return quick_epsilon(one, self.delta)

        found = falling_root(self._over(spent), 1.0, 2.0, 1e-2, (MIN_SIGMA, MAX_SIGMA))
        if found is not None and MIN_SIGMA <= found <= MAX_SIGMA:
            return found
        if spent(self.noisy(MAX_SIGMA)) > self.target:
            least = spent(self.noisy(MAX_SIGMA))
            raise ConfigError(
                self.path,
                f"epsilon = {self.target:g} needs more noise than supported (multiplier {MAX_SIGMA:g})",
                f"give at least {least:.3g}, or fewer steps"
                if least <= MAX_EPSILON
                else "give fewer steps, or a larger delta",
            )
        most = spent(self.noisy(MIN_SIGMA))
        raise ConfigError(
            self.path,
            f"epsilon = {self.target:g} needs less noise than supported (multiplier {MIN_SIGMA:g})",
            f"give at most {most:.3g}"
            if most >= MIN_EPSILON
            else "give a smaller delta: no epsilon fits this one",
        )

    def root(
        self, spent: Callable[[tuple[ReleaseEvent]], float], start: float, factor: float, tolerance: float
    ) -> float:
        """Return the noise at which ``spent`` is the target or just below, searched from ``start``."""
        bounds = (max(MIN_SIGMA / _WIDER, start / _WIDER), min(MAX_SIGMA * _WIDER, start * _WIDER))
        found = falling_root(self._over(spent), start, factor, tolerance, bounds)
        if found is None:
            raise self.out_of_reach(start)
        return found

    def out_of_reach(self, sigma: float) -> ConfigError:
        """Return the error for a target that this accountant does not reach near ``sigma``."""
        return ConfigError(
            self.path,
            f"no noise multiplier near {sigma:.3g} gives epsilon = {self.target:g}"
            f" at delta = {self.delta:.3g}",
            "try a smaller epsilon, a larger delta, or the other privacy.accountant",
        )

    def _over(self, spent: Callable[[tuple[ReleaseEvent]], float]) -> Callable[[float], float]:
        def over(sigma: float) -> float:
            value = spent(self.noisy(sigma))
            return math.log(value / self.target) if value > 0 else -math.inf

        return over
