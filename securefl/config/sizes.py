"""Numbers that follow directly from a scenario: participants, cluster sizes, quorum, encoding steps."""

from __future__ import annotations

import math

from securefl.config.scenario import Scenario
from securefl.errors import UsageError


def cluster_sizes(participants: int, size: int) -> tuple[int, ...]:
    """Planned sizes: floor(participants / size) clusters, as even as can be, none smaller than ``size``.

    Raises:
        UsageError: fewer participants than one cluster needs.
    """
    if not 1 <= size <= participants:
        raise UsageError(f"{participants} participants do not fill a cluster of {size}")
    clusters = participants // size
    base, larger = divmod(participants, clusters)
    return (base + 1,) * larger + (base,) * (clusters - larger)


def participants_of(scenario: Scenario) -> int:
    """How many parties take part in a round: all, the count, or the fraction rounded to a whole number."""
    drawn = scenario.participation
    if drawn.count is not None:
        return drawn.count
    if drawn.fraction is not None:
        return max(1, math.floor(drawn.fraction * scenario.parties + 0.5))
    return scenario.parties


def quorum_of(parties: int, colluders: int) -> int:
    """Signatures of distinct roster identities that make a certificate: the least above (N + q) / 2."""
    return (parties + colluders) // 2 + 1


def steps_of(scenario: Scenario) -> int:
    """Largest magnitude of an encoded coordinate, floor(range * 2^scale_bits), computed exactly."""
    numerator, denominator = scenario.encoding.range.as_integer_ratio()
    return (numerator << scenario.encoding.scale_bits) // denominator
