"""Derived fields of ``[secure_sum]``: f from server and verification, q from f, then t and ``min_survivors``.

t and ``min_survivors`` depend on the planned clusters. Each field is the least value that protocol.md
(Parameters) allows; a secure sum needs at least 2 members. :mod:`securefl.methods.feasibility.secure_sum`
refuses contradicting values.
"""

from collections.abc import Collection
from itertools import chain, combinations
from typing import Final

from msgspec.structs import replace

from securefl.base.errors import UsageError
from securefl.scenario.scenario import Scenario
from securefl.scenario.sizes import (
    hides_groups,
    leakage_colluders,
    majority_of,
    participants_of,
    planned_sizes,
    tells_groups,
)

DERIVED: Final = ("colluders_per_cluster", "colluders", "threshold", "min_survivors")
"""Derived fields, in order."""


def with_derived_sums(scenario: Scenario, stated: Collection[str]) -> Scenario:
    """Return the scenario with the fields of :data:`DERIVED` derived, except those in ``stated``."""
    sums = scenario.secure_sum
    f = sums.colluders_per_cluster if "colluders_per_cluster" in stated else _f(scenario, stated)
    q = sums.colluders if "colluders" in stated else f
    scenario = replace(scenario, secure_sum=replace(sums, colluders_per_cluster=f, colluders=q))
    sizes = _planned_sizes(scenario)
    two = min(2, *sizes)
    threshold = sums.threshold
    if "threshold" not in stated:
        threshold = max(two, least_threshold(scenario, max(sizes)))
    survivors = sums.min_survivors
    if "min_survivors" not in stated:
        survivors = max(two, threshold, least_survivors(scenario, sizes))
    if sums.kind == "crypten" and "threshold" not in stated:
        threshold = survivors
    derived = replace(scenario.secure_sum, threshold=threshold, min_survivors=survivors)
    return replace(scenario, secure_sum=derived)


def stated_sums(scenario: Scenario) -> tuple[str, ...]:
    """Return the fewest fields of :data:`DERIVED` from which the others follow.

    A scenario does not record which fields its file stated.
    """
    subsets = chain.from_iterable(combinations(DERIVED, count) for count in range(len(DERIVED)))
    return next((one for one in subsets if with_derived_sums(scenario, one) == scenario), DERIVED)


def least_threshold(scenario: Scenario, largest: int) -> int:
    """Return the least t for f, q and the ``largest`` planned cluster."""
    sums = scenario.secure_sum
    f = sums.colluders_per_cluster
    least = majority_of(largest, f) if sums.server == "active" else f + 1
    if _meets_all_colluders(scenario):
        least = max(least, sums.colluders + 1)
    return max(least, scenario.clustering.size) if hides_groups(scenario.groups) else least


def least_honest(scenario: Scenario) -> int:
    """Return the least number of survivors with k honest ones at any threshold: f + k."""
    sums = scenario.secure_sum
    colluders = sums.colluders if _meets_all_colluders(scenario) else sums.colluders_per_cluster
    return colluders + sums.k_anonymity


def least_survivors(scenario: Scenario, sizes: tuple[int, ...]) -> int:
    """Return the least ``min_survivors`` at any threshold for clusters of ``sizes`` members.

    Parties release no sum in which ``leakage.colluders`` leave fewer than k honest members. If some cluster
    is too small for that, the limits of ``[leakage]`` refuse the scenario.
    """
    least = least_honest(scenario)
    released = leakage_colluders(scenario) + scenario.secure_sum.k_anonymity
    vetoed = scenario.leakage.mode == "veto" and released <= min(sizes)
    return max(least, released) if vetoed else least


def least_colluders(scenario: Scenario) -> int:
    """Return the least f: 1 if members verify, and so learn, the sum of their cluster."""
    sums = scenario.secure_sum
    return int(sums.server == "active" and sums.verified)


def _f(scenario: Scenario, stated: Collection[str]) -> int:
    sums = scenario.secure_sum
    if "colluders" not in stated:
        return least_colluders(scenario)
    if sums.server == "active" and tells_groups(scenario.groups):
        return sums.colluders
    return min(least_colluders(scenario), sums.colluders)


def _meets_all_colluders(scenario: Scenario) -> bool:
    """Return True if all q colluders can choose one cluster, by naming its task group."""
    return tells_groups(scenario.groups) and scenario.leakage.mode == "veto"


def _planned_sizes(scenario: Scenario) -> tuple[int, ...]:
    """Return the planned sizes; for an impossible plan, refused later, those of one cluster."""
    try:
        return planned_sizes(scenario)
    except UsageError:
        return (max(1, min(scenario.clustering.size, participants_of(scenario))),)
