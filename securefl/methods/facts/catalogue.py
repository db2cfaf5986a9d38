"""All header sentences that follow from a scenario alone, in the order of the header's lines."""

from collections.abc import Iterator
from typing import Final

from securefl.base import header
from securefl.methods import feasibility
from securefl.methods.facts import aggregation, clusters, noise, secure_sums
from securefl.scenario import Scenario

TABLES: Final = (
    clusters.on_clusters,
    clusters.on_groups,
    secure_sums.on_collusion,
    clusters.on_leakage,
    secure_sums.on_crypten,
    secure_sums.on_verification,
    secure_sums.on_validation,
    aggregation.on_rule,
    aggregation.on_weights,
    aggregation.on_server_data,
    aggregation.on_behaviours,
    noise.on_noise,
)


def scenario_sentences(scenario: Scenario, limits: feasibility.DerivedLimits) -> Iterator[header.Sentence]:
    """Yield the sentences of all tables on a feasible scenario and its derived limits."""
    for table in TABLES:
        yield from table(scenario, limits)
