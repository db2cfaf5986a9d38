"""Rounds that accounts allow, by dropout rate.

Without noise: rounds without an update before parties wait for another model, from random draws. With noise:
releases of a budget that end in opened sums.
"""

import functools
from collections.abc import Iterator
from statistics import median_low

from securefl.base import crypto, header, text
from securefl.base.ids import PartyId
from securefl.methods import attacks, leakage
from securefl.methods.clustering import (
    draw_assignment,
    odds,
    participants_of,
    planned_atoms,
    survivor_set,
    works_of,
)
from securefl.protocol import messages
from securefl.protocol.round.shared.plan import published_limits
from securefl.scenario import Scenario

DROPOUT_RATES = (0.0, 0.05, 0.2)
MOST_ROUNDS = 50
_TRIES = 3
_LARGEST = 60
"""Largest federation to try: 60 parties in clusters of 12 take 1 s, 100 in clusters of 25 take 6 s."""
_MODEL = bytes(32)


def account_sentences(scenario: Scenario) -> Iterator[header.Sentence]:
    """Yield the sentences on allowed rounds, by :data:`DROPOUT_RATES`."""
    releases = scenario.privacy.releases
    if scenario.privacy.unit != "none" and releases is not None:
        shown = ", ".join(
            f"{releases * least_kept(scenario, rate):.3g} at {text.percent(rate)} dropouts"
            for rate in DROPOUT_RATES
        )
        yield header.end(
            more=f"of {text.count(releases, 'release')} of each party these are in opened sums on average:"
            f" {shown}; lost clusters spend the others unless mates state that they released nothing"
        )
    if not _is_limited(scenario):
        return
    shown = ", ".join(
        f"{rounds}{' or more' if rounds >= MOST_ROUNDS else ''} at {text.percent(rate)} dropouts"
        for rate in DROPOUT_RATES
        for rounds in (allowed_rounds(scenario, rate),)
    )
    yield header.tolerance(
        more=f"accounts allow these rounds without an update before parties wait for another model: {shown}"
    )


def least_kept(scenario: Scenario, rate: float) -> float:
    """Return the least probability, over planned clusters, of keeping ``min_survivors``."""
    fewest = scenario.secure_sum.min_survivors
    return min(odds.cluster_kept_at(atoms, rate, fewest) for atoms in set(planned_atoms(scenario)))


@functools.lru_cache(maxsize=64)
def allowed_rounds(scenario: Scenario, rate: float) -> int:
    """Return the rounds on one model that accounts allow together: the median of a few random draws.

    The scenario is feasible, without noise, atoms or fixed clusters. ``rate`` is that of dropouts before the
    input.
    """
    return median_low(_try_rounds(scenario, rate, number) for number in range(_TRIES))


def _try_rounds(scenario: Scenario, rate: float, number: int) -> int:
    parties, clustering = attacks.party_names(scenario.parties), scenario.clustering
    published = published_limits(scenario)
    limits = leakage.LeakageLimits(
        published.k_anonymity, published.colluders, published.leverage / messages.MILLION
    )
    given: leakage.Given = leakage.NOTHING_GIVEN
    for round_ in range(MOST_ROUNDS):
        seed = crypto.digest("tried round", number, str(rate), round_)
        drawn = draw_assignment(
            seed, parties, participants_of(scenario), clustering.size, clustering.reclusterings
        )
        instances = {(r, j): m for r, row in enumerate(drawn.clusters) for j, m in enumerate(row)}
        there = [party for party in drawn.participants if not _drops_out(seed, party, rate)]
        submitted = {key: [one for one in members if one in there] for key, members in instances.items()}
        alive = survivor_set(instances, submitted, scenario.secure_sum.min_survivors)
        rows = (tuple(sorted(alive.intersection(members))) for members in instances.values())
        now = {_MODEL: tuple(dict.fromkeys(row for row in rows if row))}
        if leakage.crossed_together(given, now, limits, seed):
            return round_
        given = leakage.join_releases(given, now)
    return MOST_ROUNDS


def _drops_out(seed: bytes, party: PartyId, rate: float) -> bool:
    return int.from_bytes(crypto.digest("tried dropout", seed, party)[:8], "big") < rate * 2.0**64


def _is_limited(scenario: Scenario) -> bool:
    clustering = scenario.clustering
    return (
        scenario.privacy.unit == "none"
        and scenario.leakage.mode == "veto"
        and clustering.atoms == 1
        and not clustering.fixed
        and works_of(clustering) == 1
        and scenario.groups.count == 1
        and not scenario.model.by_columns
        and clustering.size > 1
        and scenario.parties <= _LARGEST
    )
