"""Committee that repeats the server's step: drawn by a round's certified seed; its failure probability.

A committee fails if colluders are a quorum of it and can attest any model. It is drawn from all participants,
not survivors, since the server can choose whose input is lost.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from securefl.base.ids import PartyId
from securefl.methods.clustering import sizes
from securefl.methods.clustering.assignment import shuffle
from securefl.methods.clustering.odds import tail
from securefl.methods.clustering.presence import fewest_participants
from securefl.scenario import Scenario

ACCEPTED = 1e-6
"""Largest probability that some committee of a whole run fails."""


def committee_of(scenario: Scenario, seed: bytes, participants: Sequence[PartyId]) -> tuple[PartyId, ...]:
    """Return the parties that repeat the step of a round, sorted.

    ``seed`` is the round's certified seed, 32 bytes.
    """
    if scenario.secure_sum.verification == "all":
        return tuple(sorted(participants))
    return tuple(sorted(shuffle(sorted(participants), seed, "committee")[: committee_size(scenario)]))


def attests_needed(scenario: Scenario, members: int) -> int:
    """Return the number of attestations of a step that a committee of ``members`` needs."""
    sums = scenario.secure_sum
    if sums.verification == "all":
        return sizes.quorum_of(scenario.parties, sums.colluders)
    return members // 2 + 1


def committee_size(scenario: Scenario) -> int:
    """Return the number of parties that repeat a step: as few as :data:`ACCEPTED` allows.

    Twice the colluders plus one never fail.
    """
    sums = scenario.secure_sum
    if sums.verification == "all":
        return scenario.parties
    return _size(fewest_participants(scenario), sums.colluders, sizes.MAX_DRAWS * scenario.stop.rounds)


def committee_failure(scenario: Scenario) -> float:
    """Return the probability that colluders are a quorum of some committee of a run, redraws included.

    For the presence that is best for the server: as few parties as a round needs, with all colluders.
    """
    sums, size = scenario.secure_sum, committee_size(scenario)
    if sums.verification == "all":
        return 0.0 if sums.colluders < attests_needed(scenario, size) else 1.0
    return failure_of(
        fewest_participants(scenario), sums.colluders, size, sizes.MAX_DRAWS * scenario.stop.rounds
    )


@lru_cache(maxsize=64)
def _size(present: int, colluders: int, draws: int) -> int:
    size = 1
    while size < min(present, 2 * colluders + 1) and failure_of(present, colluders, size, draws) > ACCEPTED:
        size += 2
    return min(size, present)


def failure_of(present: int, colluders: int, size: int, draws: int) -> float:
    """Return the probability that colluders are a quorum of some of ``draws`` committees of ``size``."""
    size = min(size, present)
    once = tail(present, min(colluders, present), size, size // 2 + 1)
    return 1.0 if once >= 1.0 else -math.expm1(draws * math.log1p(-once))
