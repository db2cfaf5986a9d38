"""Fields of ``[secure_sum]`` that follow from the others if a scenario does not state them.

The order of derivation: f from the server and from verification, q from f, then t and ``min_survivors`` from
the planned clusters. Each is the least value that protocol.md (Parameters) allows, and at least the 2 that a
secure sum needs. :mod:`securefl.methods.feasibility.secure_sum` refuses stated values that contradict it.
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
    """Return the scenario with the missing fields of :data:`DERIVED`.

    Args:
        scenario: with any values in those fields.
        stated: names of fields that keep their values.
    """
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

    A scenario does not remember the fields that its file stated. Values that equal the derived ones count as
    derived.
    """
    subsets = chain.from_iterable(combinations(DERIVED, count) for count in range(len(DERIVED)))
    return next((one for one in subsets if with_derived_sums(scenario, one) == scenario), DERIVED)


def least_threshold(scenario: Scenario, largest: int) -> int:
    """Return the least t that the scenario allows.

    Args:
        scenario: with its f and q.
        largest: members of the largest planned cluster.
    """
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
    """Return the least ``min_survivors`` of any threshold.

    Parties release no sum in which ``leakage.colluders`` leave fewer than k honest members. If no cluster is
    large enough, the limits of ``[leakage]`` refuse the scenario.

    Args:
        scenario: with its f and q.
        sizes: planned members of each cluster.
    """
    least = least_honest(scenario)
    released = leakage_colluders(scenario) + scenario.secure_sum.k_anonymity
    vetoed = scenario.leakage.mode == "veto" and released <= min(sizes)
    return max(least, released) if vetoed else least


def least_colluders(scenario: Scenario) -> int:
    """Return the least f: 1 if members verify the sum of their cluster, since each of them learns it."""
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
    """Return True if all q colluders can choose to be in one cluster, by naming its task group."""
    return tells_groups(scenario.groups) and scenario.leakage.mode == "veto"


def _planned_sizes(scenario: Scenario) -> tuple[int, ...]:
    """Return the planned sizes, or for an impossible plan, which is refused later, those of one cluster."""
    try:
        return planned_sizes(scenario)
    except UsageError:
        return (max(1, min(scenario.clustering.size, participants_of(scenario))),)
