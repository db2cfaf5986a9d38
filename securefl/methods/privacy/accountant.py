"""Epsilon of release events, by two accountants that both give upper bounds.

``pld``, the default, composes privacy loss distributions. ``rdp`` composes Renyi divergences: a looser,
independent cross-check.
"""

import functools
import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.privacy import composition
from securefl.methods.privacy.release import ReleaseEvent
from securefl.methods.privacy.table import added_delta

MIN_DELTA = 1e-12
"""Smallest delta: below it, the mass that the discretisation truncates would count."""

_COARSEST = 2.0**-5
_FINEST = 2.0**-20
_DOUBTFUL = 2.0**-9
"""Grid interval from which on a finite epsilon never becomes infinite."""
_MOST_POINTS = 2.0**17
"""Most grid points for the losses of one step, about 2 s; reached at sampling rates below about 10^-4."""
_PER_EPSILON = 500
"""Smallest number of grid intervals per epsilon."""
_SETTLED = 2e-3
"""Relative change at which halving stops; the remaining error is about a third of it."""
_MARGIN = 1e-4
_VISIBLE = 5e-3


def need_dp_accounting() -> None:
    """Check that dp_accounting is installed; raise a ConfigError if it is missing."""
    if importlib.util.find_spec("dp_accounting") is None:
        raise ConfigError(
            "privacy",
            "the privacy accountant needs dp-accounting, which is not installed",
            "pip install 'securefl[dp]'",
        )


def epsilon(
    events: Iterable[ReleaseEvent], delta: float, accountant: composition.Accountant = "pld"
) -> float:
    """Return epsilon at ``delta`` of all events together: 0 without events, infinite without noise.

    The discretisation of ``pld`` adds about 0.1 % and never subtracts. Results are cached: one composition
    takes 0.1 to 0.5 s.

    Raises:
        ConfigError: dp_accounting is missing.
        UsageError: mixed units or relations, an event without accounting (:func:`refusal`), or ``delta``
            outside [1e-12, 1).
    """
    if not MIN_DELTA <= delta < 1:
        raise UsageError(f"delta must be at least {MIN_DELTA:g} and below 1, found {delta:g}")
    steps, slack, left = _kinds(events, delta)
    if not steps:
        return 0.0
    if accountant == "rdp":
        return _by_rdp(steps, slack, left)
    return _by_pld(steps, slack, left)[0]


def settled_grid(events: Iterable[ReleaseEvent], delta: float) -> float:
    """Return the grid interval, a power of 2, at which :func:`epsilon` by ``pld`` settled (same errors)."""
    return _by_pld(*_kinds(events, delta))[1]


def epsilon_on_grid(events: Iterable[ReleaseEvent], delta: float, grid: float) -> float:
    """Return :func:`epsilon` by ``pld`` on a fixed grid, on which less noise never costs less. Not cached.

    ``grid`` is the discretisation interval; a coarser one gives more. Errors are those of :func:`epsilon`.
    """
    steps, slack, left = _kinds(events, delta)
    need_dp_accounting()
    return _with_slack(composition.losses(steps, grid), left, slack)


def quick_epsilon(events: Iterable[ReleaseEvent], delta: float) -> float:
    """Return :func:`epsilon` (same errors) by ``rdp`` at integer orders: never smaller, in about 10 ms."""
    steps, slack, left = _kinds(events, delta)
    need_dp_accounting()
    return _with_slack(composition.divergences(steps, composition.INTEGER_ORDERS), left, slack)


def refusal(event: ReleaseEvent) -> str:
    """Return the reason why an event has no accounting, or ""."""
    if event.sampler == "shuffle" and event.relation == "add-remove":
        # Removing one record moves all later records one place: every later batch may differ.
        return 'shuffled batches need relation = "replace-one"'
    private = event.sampler == "poisson" or (event.sampler == "none" and event.relation == "add-remove")
    if event.denominator == "drawn" and private:
        return "the number of drawn records is private: the sum needs a fixed denominator"
    return ""


def check_one_kind(events: Iterable[ReleaseEvent]) -> None:
    """Raise a UsageError if the events mix units or relations, or one has no accounting."""
    kinds = {(event.unit, event.relation) for event in events}
    if len(kinds) > 1:
        raise UsageError(f"events must have one privacy unit and one relation, found {sorted(kinds)}")
    for event in events:
        if reason := refusal(event):
            raise UsageError(reason)


def _kinds(events: Iterable[ReleaseEvent], delta: float) -> tuple[composition.Counts, float, float]:
    """Return sorted kinds of events with numbers of releases, total slack, and remaining delta."""
    listed = list(events)
    check_one_kind(listed)
    counts: Counter[ReleaseEvent] = Counter()
    for event in listed:
        counts[replace(event, steps=1, delta_slack=0.0, delta_lost=0.0)] += _releases(event)
    # Sorted, since floating-point sums depend on their order.
    kinds = tuple(sorted(counts.items(), key=repr))
    left = delta - math.fsum(event.delta_lost for event in listed)
    return kinds, math.fsum(event.delta_slack for event in listed), left


def _releases(event: ReleaseEvent) -> int:
    """Return the number of releases with one unit: if shuffled, one in every floor(records / batch) steps."""
    return event.steps if event.sampler != "shuffle" else -(-event.steps // (event.records // event.batch))


@functools.lru_cache(maxsize=4096)
def _by_rdp(steps: composition.Counts, slack: float, delta: float) -> float:
    need_dp_accounting()
    if any(event.multiplier == 0 for event, _ in steps):
        return math.inf
    found = _with_slack(composition.divergences(steps), delta, slack)
    # The library's orders have gaps, and it skips some, so epsilon may jump. Use other orders only if visibly
    # better: otherwise the result stays bit for bit.
    more = composition.orders_between(found, delta) if 0 < found < math.inf else ()
    other = _with_slack(composition.divergences(steps, more), delta, slack) if more else found
    return other if other < found * (1 - _VISIBLE) else found


@functools.lru_cache(maxsize=4096)
def _by_pld(steps: composition.Counts, slack: float, delta: float) -> tuple[float, float]:
    """Return epsilon and the interval at which it settled."""
    need_dp_accounting()
    grid = _COARSEST
    if any(event.multiplier == 0 for event, _ in steps):
        return math.inf, grid
    finest = max(_FINEST, composition.reach(steps) / _MOST_POINTS)
    found = _with_slack(composition.losses(steps, grid), delta, slack)
    while grid >= 2 * finest and (math.isfinite(found) or grid > _DOUBTFUL):
        # A coarse grid may make epsilon infinite, because the slack multiplies its coarseness.
        aim = found if math.isfinite(found) else grid * _PER_EPSILON / 4
        wanted = 2.0 ** math.floor(math.log2(max(aim, _FINEST) / _PER_EPSILON))
        grid = min(grid / 2, max(wanted, 2.0 ** math.ceil(math.log2(finest))))
        finer = _with_slack(composition.losses(steps, grid), delta, slack)
        if math.isfinite(found) and found - finer <= _SETTLED * found:
            return finer, grid
        found = finer
    return found, grid


def _with_slack(at: Callable[[float], float], delta: float, slack: float) -> float:
    """Return the smallest epsilon found with at(delta - (1 + e^epsilon) slack) <= epsilon."""
    if delta < MIN_DELTA:
        return math.inf
    found = at(delta)
    if slack == 0:
        return found
    while math.isfinite(found):
        claimed = found * (1 + _MARGIN) + _MARGIN
        left = delta - added_delta(Fraction(slack), claimed)
        if left < MIN_DELTA:
            return math.inf
        found = at(left)
        if found <= claimed:
            return claimed
    return math.inf
