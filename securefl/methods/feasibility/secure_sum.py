"""Limits of ``[secure_sum]``: thresholds, survivors and colluders against the planned clusters.

An error names the first contradiction and changes that resolve it without a second one.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from securefl.base.errors import ConfigError, UsageError
from securefl.methods.clustering import (
    hides_groups,
    leakage_colluders,
    participants_of,
    planned_sizes,
    quorum_of,
)
from securefl.scenario import (
    Drop,
    Kill,
    Scenario,
    least_colluders,
    least_honest,
    least_survivors,
    least_threshold,
)

_MOST_WAYS = 2
"""Number of alternatives that an error names."""


@dataclass(frozen=True, slots=True)
class _Contradiction:
    """A contradiction between two fields, and the field to name."""

    path: str
    reason: str


def check_secure_sum(scenario: Scenario, sizes: tuple[int, ...]) -> None:
    """Raise a ConfigError for thresholds, survivors and colluders that do not fit the cluster ``sizes``."""
    found = next(_contradictions(scenario, sizes), None)
    if found is not None:
        raise ConfigError(found.path, found.reason, remedy(scenario, found.path))


def remedy(scenario: Scenario, path: str) -> str:
    """Return the smallest changes that resolve a contradiction at ``path``, as alternatives."""
    ways: list[str] = []
    for way in _ways(scenario):
        text = " and ".join(_changes(scenario, way, path))
        if text and text not in ways:
            ways.append(text)
    if not ways:
        sums = scenario.secure_sum
        wanted = _with_f(scenario, max(sums.colluders_per_cluster, least_colluders(scenario)))
        return f"at least {max(least_honest(wanted), sums.colluders + 1)} participants"
    return ", or ".join(ways[:_MOST_WAYS])


def _contradictions(scenario: Scenario, sizes: tuple[int, ...]) -> Iterator[_Contradiction]:
    sums, smallest, largest = scenario.secure_sum, min(sizes), max(sizes)
    t, f, k = sums.threshold, sums.colluders_per_cluster, sums.k_anonymity
    if k == 1 and scenario.leakage.mode == "veto":
        raise ConfigError(
            "secure_sum.k_anonymity",
            "k = 1 allows sums that reveal the update of a single party",
            'set at least 2, or leakage.mode = "report" for experiments (printed in every header)',
        )
    if smallest == 1 and not (t == k == sums.min_survivors == 1):
        reason = "a cluster of 1 has no secure sum: it needs threshold = min_survivors = k_anonymity = 1"
        yield _Contradiction("clustering.size", reason)
    if sums.colluders >= scenario.parties:
        reason = f"{sums.colluders} of {scenario.parties} parties collude: no party is left to protect"
        yield _Contradiction("secure_sum.colluders", reason)
    if f > sums.colluders:
        reason = f"{f} colluders in a cluster, but only {sums.colluders} in the whole run"
        yield _Contradiction("secure_sum.colluders_per_cluster", reason)
    yield from _of_verifiers(scenario)
    if least_honest(scenario) > smallest:
        grows = _larger_size(scenario) is not None
        path = "clustering.size" if grows else "secure_sum.colluders_per_cluster"
        reason = (
            f"besides f = {f} colluders k = {k} honest members must remain in each sum, but the smallest "
            f"cluster has {smallest} members"
        )
        yield _Contradiction(path, reason)
    if t <= f:
        reason = f"the {f} colluders of a cluster can open its sum by themselves if {t} members suffice"
        yield _Contradiction("secure_sum.threshold", reason)
    if sums.server == "active" and 2 * t - largest <= f:
        reason = (
            f"against an active server two groups of {t} among {largest} members must share more than f = {f}"
            f" members, but 2 x {t} - {largest} = {2 * t - largest}: the server could open two sums of a "
            "cluster"
        )
        yield _Contradiction("secure_sum.threshold", reason)
    if t > smallest:
        reason = f"{t} members must open the sum, but the smallest cluster has {smallest}"
        yield _Contradiction("secure_sum.threshold", reason)
    yield from _of_survivors(scenario, smallest)
    quorum = quorum_of(scenario.parties, sums.colluders)
    if sums.server == "active" and participants_of(scenario) < quorum:
        reason = (
            f"no round could finish: a certificate needs {quorum} signatures, more than"
            f" (N + q) / 2 = ({scenario.parties} + {sums.colluders}) / 2, but only"
            f" {participants_of(scenario)} take part"
        )
        yield _Contradiction("participation", reason)


def _of_verifiers(scenario: Scenario) -> Iterator[_Contradiction]:
    if not least_colluders(scenario) or scenario.secure_sum.kind == "plain":
        return
    reason = (
        "is 0, but members verify the sum of their cluster: of two survivors each would learn the other's "
        "update"
    )
    if not scenario.secure_sum.colluders_per_cluster:
        yield _Contradiction("secure_sum.colluders_per_cluster", reason)
    elif not leakage_colluders(scenario):
        yield _Contradiction("leakage.colluders", reason)


def _of_survivors(scenario: Scenario, smallest: int) -> Iterator[_Contradiction]:
    sums = scenario.secure_sum
    t, f, k, survivors = sums.threshold, sums.colluders_per_cluster, sums.k_anonymity, sums.min_survivors
    needed = max(t, f + k)
    if survivors < needed:
        why = (
            f"opening a sum takes t = {t} members"
            if needed == t
            else f"besides f = {f} colluders k = {k} honest members must remain in every opened sum"
        )
        yield _Contradiction("secure_sum.min_survivors", f"{survivors}, but {why}")
    if survivors > smallest:
        reason = f"{survivors} must survive, but the smallest cluster has {smallest} members"
        yield _Contradiction("secure_sum.min_survivors", reason)


def _ways(scenario: Scenario) -> Iterator[Scenario]:
    """Yield allowed scenarios near this one: with the same f first, then with fewer colluders."""
    sums, least = scenario.secure_sum, least_colluders(scenario)
    filled = _with_full_clusters(scenario)
    wanted = _with_f(filled, max(sums.colluders_per_cluster, least))
    f = wanted.secure_sum.colluders_per_cluster
    if _holds(wanted):
        yield _with_bounded_thresholds(wanted)
    elif (size := _larger_size(wanted)) is not None:
        yield _with_bounded_thresholds(_of_size(wanted, size))
    if f > sums.colluders or not _holds(wanted):
        fewer = range(min(f - 1, sums.colluders), least - 1, -1)
        lowered = filter(_holds, (_with_f(filled, each) for each in fewer))
        yield from (_with_bounded_thresholds(one) for one in islice(lowered, 1))
    if least and (not sums.colluders_per_cluster or not _holds(wanted)):
        without = _with_f(replace(filled, leakage=scenario.leakage), 0)
        without = replace(without, secure_sum=replace(without.secure_sum, verify="off"))
        if _holds(without):
            yield _with_bounded_thresholds(without)


def _with_full_clusters(scenario: Scenario) -> Scenario:
    """Return the scenario with clusters that participants fill, and at least one honest party.

    ``leakage.colluders`` is as large as verification needs it.
    """
    least, given = least_colluders(scenario), scenario.leakage.colluders
    if given is not None and given < least:
        scenario = replace(scenario, leakage=replace(scenario.leakage, colluders=least))
    sums = scenario.secure_sum
    scenario = replace(
        scenario, secure_sum=replace(sums, colluders=min(sums.colluders, scenario.parties - 1))
    )
    return _of_size(scenario, min(scenario.clustering.size, participants_of(scenario)))


def _with_f(scenario: Scenario, f: int) -> Scenario:
    q = max(scenario.secure_sum.colluders, f)
    changed = replace(scenario.secure_sum, colluders_per_cluster=f, colluders=q)
    return _with_certifying_quorum(replace(scenario, secure_sum=changed))


def _with_certifying_quorum(scenario: Scenario) -> Scenario:
    """Return the scenario with enough participants to certify a freeze."""
    drawn, quorum = scenario.participation, quorum_of(scenario.parties, scenario.secure_sum.colluders)
    if scenario.secure_sum.server != "active" or participants_of(scenario) >= quorum:
        return scenario
    if drawn.count is not None:
        return replace(scenario, participation=replace(drawn, count=quorum))
    share = math.ceil(1000 * quorum / scenario.parties) / 1000
    return replace(scenario, participation=replace(drawn, fraction=min(share, 1.0)))


def _of_size(scenario: Scenario, size: int) -> Scenario:
    return replace(scenario, clustering=replace(scenario.clustering, size=size))


def _larger_size(scenario: Scenario) -> int | None:
    """Return the smallest cluster size, from this one on, that fits f colluders and k honest members."""
    clustering = scenario.clustering
    if hides_groups(scenario.groups) or clustering.atoms > 1:
        return None
    sizes = range(max(clustering.size, least_honest(scenario)), participants_of(scenario) + 1)
    return next((size for size in sizes if _holds(_of_size(scenario, size))), None)


def _holds(scenario: Scenario) -> bool:
    """Return True if some t and ``min_survivors`` fit the planned clusters, and not all parties collude."""
    try:
        sizes = planned_sizes(scenario)
    except UsageError:
        # Fewer participants than one atom needs, or clusters smaller than an atom.
        return False
    if scenario.secure_sum.colluders >= scenario.parties:
        return False
    return max(least_threshold(scenario, max(sizes)), least_honest(scenario)) <= min(sizes)


def _with_bounded_thresholds(scenario: Scenario) -> Scenario:
    sums, sizes = scenario.secure_sum, planned_sizes(scenario)
    t = min(max(sums.threshold, least_threshold(scenario, max(sizes))), *sizes)
    survivors = min(max(sums.min_survivors, t, least_survivors(scenario, sizes)), *sizes)
    if sums.kind == "crypten":
        t = survivors
    return replace(scenario, secure_sum=replace(sums, threshold=t, min_survivors=survivors))


_FIELDS = (
    ("clustering", "size"),
    ("secure_sum", "colluders_per_cluster"),
    ("secure_sum", "colluders"),
    ("leakage", "colluders"),
    ("secure_sum", "threshold"),
    ("secure_sum", "min_survivors"),
    ("participation", "count"),
    ("participation", "fraction"),
    ("secure_sum", "verify"),
)
"""Table and field of each possible change of a remedy."""


def _changes(before: Scenario, after: Scenario, path: str) -> Iterator[str]:
    """Yield a bound for each field that differs, first that of ``path``, which the error already names."""
    fields = sorted(_FIELDS, key=lambda field: ".".join(field) != path)
    for table, field in fields:
        old, new = getattr(getattr(before, table), field), getattr(getattr(after, table), field)
        name = f"{table}.{field}"
        if old == new:
            continue
        if isinstance(new, str):
            bound = f"{name} = {new}"
        else:
            bound = f"{'at least' if new > old else 'at most'} {new:g}"
            bound = bound if name == path else f"{name} {bound}"
        yield bound


def check_crypten(scenario: Scenario, smallest: int) -> None:
    """Raise a ConfigError for settings that CrypTen (docs/crypten.md) or plain sums do not support."""
    sums = scenario.secure_sum
    if sums.kind != "crypten":
        if sums.kind == "plain":
            _check_phases(scenario, "plain")
        return
    if min(smallest, sums.min_survivors) < 2:
        raise ConfigError(
            "secure_sum.min_survivors",
            "a CrypTen sum of one member would be its update",
            "at least 2, in clusters of at least 2",
        )
    if sums.threshold != sums.min_survivors:
        raise ConfigError(
            "secure_sum.threshold",
            f"{sums.threshold}, but a CrypTen sum is opened by all members, at least min_survivors = "
            f"{sums.min_survivors} of them",
            f"set threshold = {sums.min_survivors}",
        )
    _check_phases(scenario, "CrypTen")


def _check_phases(scenario: Scenario, kind: str) -> None:
    for index, behaviour in enumerate(scenario.behaviours):
        if isinstance(behaviour, Drop | Kill) and behaviour.phase == "after-shares":
            raise ConfigError(
                f"behaviours.{index}.phase",
                f"sums of kind {kind} have no such step",
                'use "after-keys" or "after-masked-input"',
            )
