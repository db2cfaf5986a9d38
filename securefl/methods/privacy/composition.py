"""Composition of release events with ``dp_accounting``, and the pair of distributions of an event.

``losses`` composes privacy loss distributions (Koskela et al. 2020; pessimistic discretisation by "connect
the dots", Doroshenko et al. 2022). ``divergences`` composes Renyi divergences (Mironov 2017).

Pairs for one step, with noise multiplier m, sampling rate q and sensitivity 1 of a record:

================  ===================================  ==========================================
sampler           add-remove                           replace-one
================  ===================================  ==========================================
none, shuffle     N(0) and N(1) at m                   the same at m / 2
poisson           N(0) and (1-q) N(0) + q N(1) at m    pld: (1-q) N(0) + q N(-1) and
                                                       (1-q) N(0) + q N(1) at m;
                                                       rdp: the pair of add-remove at m / 2
fixed-size        the pair of poisson at m / 2         pld: the pair of poisson at m / 2;
                                                       rdp: Wang et al. 2019 at m / 2
================  ===================================  ==========================================

Halving m accounts for replace-one's double sensitivity, which ``dp_accounting`` leaves to the caller (issue
378 of google/differential-privacy), but for the PLD of Poisson sampling (proof:
``docs/adr/0012-accountants.md``). In fixed-size batches a drawn record displaces another, so the sensitivity
is 2 under both relations.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from securefl.methods.privacy import release

Accountant = Literal["pld", "rdp"]

_DISPLACED_ORDERS = (*range(2, 33), 40, 48, 64, 96, 128)
"""Orders for sampling without replacement, whose bound is for integer orders and takes quadratic time."""
INTEGER_ORDERS = (*_DISPLACED_ORDERS, 256, 512, 1024)
_GAPS_FROM = 63
"""Order up to which the library has all integers; beyond, it has 128, 256, 512 and 1024."""
_STEP = 1.05

Counts = tuple[tuple[release.ReleaseEvent, int], ...]
"""Kinds of releases, each with its number."""


class _Step(NamedTuple):
    """One release as the library composes it; q = ``batch`` / ``records``."""

    multiplier: float
    batch: int
    records: int
    kind: Literal["gaussian", "replaced", "displaced"]
    """``gaussian``: N(0) and (1-q) N(0) + q N(1), in both directions. ``replaced``: (1-q) N(0) + q N(-1) and
    (1-q) N(0) + q N(1). ``displaced``: the bound for sampling without replacement (rdp only)."""


def losses(steps: Counts, grid: float) -> Callable[[float], float]:
    """Return epsilon as a function of delta, from loss distributions on a grid of this interval."""
    composed: Any = None
    for event, count in steps:
        one = _loss(_step(event, "pld"), count, grid)
        composed = one if composed is None else composed.compose(one)
    return lambda delta: float(composed.get_epsilon_for_delta(delta))


def reach(steps: Counts) -> float:
    """Return the approximate range of one step's losses: those within ten standard deviations."""
    multipliers = [_step(event, "pld").multiplier for event, _ in steps]
    return max(20 / multiplier + 1 / multiplier**2 for multiplier in multipliers)


@functools.lru_cache(maxsize=16)
def _loss(step: _Step, count: int, grid: float) -> Any:
    if step.batch == step.records:
        # Any number of releases without sampling equals one with less noise, exactly.
        return _one(step._replace(multiplier=step.multiplier / math.sqrt(count)), grid)
    return _one(step, grid).self_compose(count)


@functools.lru_cache(maxsize=4)
def _one(step: _Step, grid: float) -> Any:
    """Return the loss of one release, cached: composing it for another number takes milliseconds."""
    from dp_accounting import NeighboringRelation  # noqa: PLC0415 - takes 2 s and is optional
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415 - as above

    if step.batch == step.records:
        return pld.from_gaussian_mechanism(step.multiplier, value_discretization_interval=grid)
    replaced = step.kind == "replaced"
    return pld.from_gaussian_mechanism(
        step.multiplier,
        value_discretization_interval=grid,
        sampling_prob=step.batch / step.records,
        neighboring_relation=(
            NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
    )


def orders_between(found: float, delta: float) -> tuple[int, ...]:
    """Return orders in the library's gaps among which the best may be, given the epsilon that it found.

    Epsilon is nearly A(a) + (ln(1/delta) - ln a) / (a - 1), with A convex and A(1) = 0. At the best order, a
    - 1 is 1 to 2 times that difference over epsilon, itself at least half of ``found``; ln a takes off less
    than three quarters. Any order gives an upper bound.
    """
    most = 4 * math.log(1 / delta) / found
    low, high = max(most / 16, _GAPS_FROM), min(most, 1024)
    count = math.ceil(math.log(max(high / low, 1)) / math.log(_STEP))
    return tuple(sorted({round(low * _STEP**n) for n in range(count + 1)})) if high > low else ()


def divergences(steps: Counts, orders: Sequence[int] | None = None) -> Callable[[float], float]:
    """Return epsilon as a function of delta, from Renyi divergences; default: the library's orders."""
    import dp_accounting as dp  # noqa: PLC0415 - takes 2 s and is optional
    from absl import logging as absl  # noqa: PLC0415 - comes with dp_accounting
    from dp_accounting.rdp import RdpAccountant  # noqa: PLC0415 - as above

    absl.set_verbosity(absl.ERROR)  # It warns of each skipped order, which only loosens the bound.
    accountants: dict[bool, Any] = {}
    for event, count in steps:
        step = _step(event, "rdp")
        displaced = step.kind == "displaced"
        one: Any = dp.GaussianDpEvent(step.multiplier)
        if displaced:
            one = dp.SampledWithoutReplacementDpEvent(step.records, step.batch, one)
        elif step.batch < step.records:
            one = dp.PoissonSampledDpEvent(step.batch / step.records, one)
        if displaced not in accountants:
            own = _DISPLACED_ORDERS if displaced else orders
            related = dp.NeighboringRelation
            relation = related.REPLACE_ONE if displaced else related.ADD_OR_REMOVE_ONE
            accountants[displaced] = RdpAccountant(own, relation)
        accountants[displaced].compose(one, count)
    # The library does not mix the two kinds: if both occur, basic composition adds them up.
    share = len(accountants)
    return lambda delta: math.fsum(float(one.get_epsilon(delta / share)) for one in accountants.values())


def _step(event: release.ReleaseEvent, accountant: Accountant) -> _Step:
    """Return the step by the table in the module's docstring."""
    replaced = event.relation == "replace-one"
    doubled = event.multiplier / release.SENSITIVITY[event.relation]
    if event.batch == event.records or event.sampler in {"none", "shuffle"}:
        return _Step(doubled, 1, 1, "gaussian")
    if event.sampler == "poisson":
        if replaced and accountant == "pld":
            return _Step(event.multiplier, event.batch, event.records, "replaced")
        return _Step(doubled, event.batch, event.records, "gaussian")
    other: Literal["replaced", "displaced"] = "replaced" if accountant == "pld" else "displaced"
    return _Step(event.multiplier / 2, event.batch, event.records, other if replaced else "gaussian")
