"""Requirements of attacks, and choice of attackers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from securefl import scenario
from securefl.base import sums
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId

if TYPE_CHECKING:
    from securefl.base.arrays import I64, Inputs

ONLY_IN_SIMULATIONS = "omniscient attackers exist only in simulate"


def first_round(behaviour: scenario.Poisoning, rounds: int) -> int:
    """Return the first of ``rounds`` rounds in which an attack that is honest at first may act."""
    return math.ceil(behaviour.honest_until * rounds)


def is_omniscient(behaviour: scenario.Behaviour) -> bool:
    """Return True if the attacker knows the updates of honest parties."""
    return isinstance(behaviour, scenario.InformedAttack) and behaviour.knowledge == "omniscient"


def backdoor_of(behaviours: Sequence[scenario.Behaviour]) -> scenario.DataAttack | None:
    """Return the backdoor whose success is measured."""
    return next((b for b in behaviours if isinstance(b, scenario.DataAttack) and b.trigger), None)


def trigger_of(
    behaviours: Sequence[scenario.Behaviour],
) -> Callable[[Inputs, I64], tuple[Inputs, I64]] | None:
    """Return the trigger of the scenario's backdoor for test samples; None without a backdoor."""
    backdoor = backdoor_of(behaviours)
    return None if backdoor is None else backdoor.trigger_samples


def differing_backdoors(behaviours: Sequence[scenario.Behaviour]) -> Iterator[str]:
    """Yield the paths of backdoors whose trigger differs from the first one's."""
    first = backdoor_of(behaviours)
    for index, behaviour in enumerate(behaviours):
        if first is None or not isinstance(behaviour, scenario.DataAttack) or not behaviour.trigger:
            continue
        if type(behaviour) is not type(first):
            yield f"behaviours.{index}.kind"
            continue
        for field in first.trigger:
            if getattr(behaviour, field) != getattr(first, field):
                yield f"behaviours.{index}.{field}"


def check_on_data(behaviours: Sequence[scenario.Behaviour], classes: int, shape: tuple[int, ...]) -> None:
    """Reject attacks on labels and images that a data set does not have.

    ``shape`` is that of one sample; images have (channels, height, width).

    Raises:
        ConfigError: naming ``behaviours.<index>.<field>``.
    """
    for index, behaviour in enumerate(behaviours):
        if isinstance(behaviour, scenario.DataAttack):
            behaviour.check_on_data(f"behaviours.{index}", classes, shape)


def check_runnable(behaviours: Sequence[scenario.Behaviour]) -> None:
    """Raise a ConfigError for an omniscient attack, which no real attacker can make."""
    for index, behaviour in enumerate(behaviours):
        if is_omniscient(behaviour):
            raise ConfigError(
                f"behaviours.{index}.knowledge",
                ONLY_IN_SIMULATIONS,
                'set knowledge = "coalition", or use securefl simulate',
            )


def shares_updates(behaviour: scenario.Behaviour) -> bool:
    """Return True if the attackers exchange their trained updates."""
    return isinstance(behaviour, scenario.CoalitionAttack)


def same_poison(first: scenario.Poisoning, second: scenario.Poisoning) -> bool:
    """Return True if two tables have the same effect, for any parties and rounds."""
    return _bare(first) == _bare(second)


def _bare(attack: scenario.Poisoning) -> scenario.Poisoning:
    return replace(attack, parties=(), count=0, rounds=(), honest_until=0.0)


Clusters = Sequence[Sequence[Sequence[PartyId]]]
"""Members, by reclustering and cluster."""
Placement = Literal["concentrate", "spread"]

EXACT_UP_TO = 20_000
"""Largest number of choices for exhaustive search."""


def acting(
    coalition: Iterable[PartyId], clusters: Clusters, actors: int, placement: Placement
) -> frozenset[PartyId]:
    """Choose ``actors`` of the coalition's members in the clusters; all if there are no more.

    ``concentrate`` hits the fewest clusters (the attack dominates them). ``spread`` hits the most (few
    clusters stay clean), as SHARE (Velicheti et al. 2021), section 4, assumes at worst.

    The choice is optimal for R = 1, or with at most :data:`EXACT_UP_TO` choices. Beyond, spreading is greedy
    and hits at least 1 - 1/e of the possible clusters (Nemhauser, Wolsey and Fisher 1978); greedy
    concentration has no such bound. All parties compute the same actors.

    Knows: the round's clusters and its coalition.
    """
    hits = _hits(coalition, clusters)
    if actors >= len(hits):
        return frozenset(hits)
    if len(clusters) == 1 or comb(len(hits), actors) > EXACT_UP_TO:
        return _greedily(hits, actors, placement)
    best = min if placement == "concentrate" else max
    bits = {party: sums.exact_sum(1 << cluster for cluster in own) for party, own in hits.items()}
    return frozenset(best(combinations(sorted(hits), actors), key=lambda chosen: _bits_set(bits, chosen)))


def hit(actors: Iterable[PartyId], clusters: Clusters) -> int:
    """Return the number of clusters that contain an actor, over all reclusterings."""
    return len(set().union(*_hits(actors, clusters).values()))


def _hits(parties: Iterable[PartyId], clusters: Clusters) -> dict[PartyId, frozenset[int]]:
    """Return the indices of each party's clusters; parties without any are absent."""
    wanted, hits = set(parties), dict[PartyId, frozenset[int]]()
    numbered = enumerate(members for reclustering in clusters for members in reclustering)
    for number, members in numbered:
        for party in wanted.intersection(members):
            hits[party] = hits.get(party, frozenset()) | {number}
    return hits


def _bits_set(bits: Mapping[PartyId, int], chosen: Iterable[PartyId]) -> int:
    union = 0
    for party in chosen:
        union |= bits[party]
    return union.bit_count()


def _greedily(
    hits: Mapping[PartyId, frozenset[int]], actors: int, placement: Placement
) -> frozenset[PartyId]:
    """Return actors chosen one by one, each adding the fewest or most clusters.

    Ties to concentrate go to a party whose clusters have many mates left, which is optimal for R = 1.
    """
    sign = 1 if placement == "concentrate" else -1
    left = Counter(cluster for own in hits.values() for cluster in own)
    waiting, covered, chosen = set(hits), set[int](), set[PartyId]()

    def rank(party: PartyId) -> tuple[int, int, PartyId]:
        own = hits[party]
        return sign * len(own - covered), -sign * sums.exact_sum(left[cluster] for cluster in own), party

    while len(chosen) < actors:
        best = min(waiting, key=rank)
        waiting.remove(best)
        chosen.add(best)
        covered |= hits[best]
        left.subtract(hits[best])
    return frozenset(chosen)
