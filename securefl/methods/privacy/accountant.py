"""Epsilon of release events at a delta.

Two accountants, both upper bounds. ``pld`` composes privacy loss distributions and is the default. ``rdp``
composes Renyi divergences and is the cross-check: looser, by another way.
:mod:`securefl.methods.privacy.composition` says what they compose.
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
"""Below it, the mass that the discretisation gives up would count."""

_COARSEST = 2.0**-5
_FINEST = 2.0**-20
_DOUBTFUL = 2.0**-9
"""No grid as fine as this makes a finite epsilon infinite."""
_MOST_POINTS = 2.0**17
"""Of one step's losses: about 2 s. Below a sampling rate of about 10^-4 it stops refinement early."""
_PER_EPSILON = 500
"""No grid with fewer intervals per epsilon is fine enough."""
_SETTLED = 2e-3
"""Halving the interval lowers epsilon by a smaller share than this: what is left is about a third of it."""
_MARGIN = 1e-4
_VISIBLE = 5e-3


def need_dp_accounting() -> None:
    """Refuse to begin what needs an accountant.

    Raises:
        ConfigError: dp_accounting is missing.
    """
    if importlib.util.find_spec("dp_accounting") is None:
        raise ConfigError(
            "privacy",
            "the privacy accountant needs dp-accounting, which is not installed",
            "pip install 'securefl[dp]'",
        )


def epsilon(
    events: Iterable[ReleaseEvent], delta: float, accountant: composition.Accountant = "pld"
) -> float:
    """Epsilon at ``delta`` of all events together; 0 without any, infinite where nothing is hidden.

    The order of events does not matter. The discretisation of ``pld`` adds about 0.1 %, and never takes away.
    Results are kept, so that parties with equal events cost one composition, of 0.1 to 0.5 s.

    Raises:
        ConfigError: dp_accounting is missing.
        UsageError: events of several units or relations, an event that has no accounting
            (:func:`refusal`), or ``delta`` outside [1e-12, 1).
    """
    if not MIN_DELTA <= delta < 1:
        raise UsageError(f"delta must be from {MIN_DELTA:g} to below 1, not {delta:g}")
    steps, slack, left = _kinds(events, delta)
    if not steps:
        return 0.0
    if accountant == "rdp":
        return _by_rdp(steps, slack, left)
    return _by_pld(steps, slack, left)[0]


def settled_grid(events: Iterable[ReleaseEvent], delta: float) -> float:
    """The discretisation interval at which :func:`epsilon` by ``pld`` settled: a power of 2.

    Raises:
        ConfigError: dp_accounting is missing.
        UsageError: as for :func:`epsilon`.
    """
    return _by_pld(*_kinds(events, delta))[1]


def epsilon_on_grid(events: Iterable[ReleaseEvent], delta: float, grid: float) -> float:
    """:func:`epsilon` by ``pld`` on one grid, so that less noise is never cheaper. Not kept.

    Args:
        events: as for :func:`epsilon`.
        delta: as for :func:`epsilon`.
        grid: discretisation interval; a coarser one gives more.

    Raises:
        ConfigError: dp_accounting is missing.
        UsageError: as for :func:`epsilon`.
    """
    steps, slack, left = _kinds(events, delta)
    need_dp_accounting()
    return _with_slack(composition.losses(steps, grid), left, slack)


def quick_epsilon(events: Iterable[ReleaseEvent], delta: float) -> float:
    """:func:`epsilon` by ``rdp`` at integer orders only: a hundredth of a second, and never less. Not kept.

    Raises:
        ConfigError: dp_accounting is missing.
        UsageError: as for :func:`epsilon`.
    """
    steps, slack, left = _kinds(events, delta)
    need_dp_accounting()
    return _with_slack(composition.divergences(steps, composition.INTEGER_ORDERS), left, slack)


def refusal(event: ReleaseEvent) -> str:
    """The reason why there is no accounting for an event, or nothing."""
    if event.sampler == "shuffle" and event.relation == "add-remove":
        # One record less moves all later records one place: every later batch may differ.
        return 'shuffled batches need relation = "replace-one"'
    private = event.sampler == "poisson" or (event.sampler == "none" and event.relation == "add-remove")
    if event.denominator == "drawn" and private:
        return "the number of drawn records is private: the sum needs a fixed denominator"
    return ""


def check_one_kind(events: Iterable[ReleaseEvent]) -> None:
    """Refuse to add up what cannot be.

    Raises:
        UsageError: several units or relations, or an event that has no accounting.
    """
    kinds = {(event.unit, event.relation) for event in events}
    if len(kinds) > 1:
        raise UsageError(f"events of several units or relations do not add up: {sorted(kinds)}")
    for event in events:
        if reason := refusal(event):
            raise UsageError(reason)


def _kinds(events: Iterable[ReleaseEvent], delta: float) -> tuple[composition.Counts, float, float]:
    """Events of equal kind with their numbers of releases, in an order of their own; slack; delta left."""
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
    """The number of releases with one unit: shuffled, one of every floor(records / batch) steps."""
    return event.steps if event.sampler != "shuffle" else -(-event.steps // (event.records // event.batch))


@functools.lru_cache(maxsize=4096)
def _by_rdp(steps: composition.Counts, slack: float, delta: float) -> float:
    need_dp_accounting()
    if any(event.multiplier == 0 for event, _ in steps):
        return math.inf
    found = _with_slack(composition.divergences(steps), delta, slack)
    # The library's own orders have gaps, and it drops those that it cannot compute: epsilon then jumps. Where
    # others do visibly better they count; elsewhere nothing changes by a bit.
    more = composition.orders_between(found, delta) if 0 < found < math.inf else ()
    other = _with_slack(composition.divergences(steps, more), delta, slack) if more else found
    return other if other < found * (1 - _VISIBLE) else found


@functools.lru_cache(maxsize=4096)
def _by_pld(steps: composition.Counts, slack: float, delta: float) -> tuple[float, float]:
    """Epsilon, and the interval at which it settled."""
    need_dp_accounting()
    grid = _COARSEST
    if any(event.multiplier == 0 for event, _ in steps):
        return math.inf, grid
    finest = max(_FINEST, composition.reach(steps) / _MOST_POINTS)
    found = _with_slack(composition.losses(steps, grid), delta, slack)
    while grid >= 2 * finest and (math.isfinite(found) or grid > _DOUBTFUL):
        # On a coarse grid it may be infinite only for its own coarseness, which the slack multiplies.
        aim = found if math.isfinite(found) else grid * _PER_EPSILON / 4
        wanted = 2.0 ** math.floor(math.log2(max(aim, _FINEST) / _PER_EPSILON))
        grid = min(grid / 2, max(wanted, 2.0 ** math.ceil(math.log2(finest))))
        finer = _with_slack(composition.losses(steps, grid), delta, slack)
        if math.isfinite(found) and found - finer <= _SETTLED * found:
            return finer, grid
        found = finer
    return found, grid


def _with_slack(at: Callable[[float], float], delta: float, slack: float) -> float:
    """Smallest epsilon found with at(delta - (1 + e^epsilon) slack) <= epsilon."""
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
