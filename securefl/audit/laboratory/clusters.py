"""What the server holds after a round: the mean update of each cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from securefl.arrays import F64
from securefl.config.scenario import Scenario, Stop
from securefl.encoding.ring import from_ring
from securefl.ids import PartyId
from securefl.learning.outcomes import Evaluation
from securefl.rounds.reports import SumOpened
from securefl.rounds.stacking import ClusterSum
from securefl.simulation.course import Course
from securefl.simulation.federation import Federation
from securefl.weighting.weights import public_weights


class ClusterMean(NamedTuple):
    """One opened sum over the weights that it counts."""

    survivors: tuple[PartyId, ...]
    update: F64
    """Parameters' own unit, f64 ``(d,)``, noise included."""


def cluster_means(
    scenario: Scenario, sums: Sequence[ClusterSum], weights: Mapping[PartyId, float]
) -> tuple[ClusterMean, ...]:
    """The means of opened sums, in their order.

    Args:
        scenario: for the scale.
        sums: of one round.
        weights: public weights of all survivors.
    """
    unit = float(1 << scenario.encoding.scale_bits)
    return tuple(
        ClusterMean(
            one.survivors,
            from_ring(one.ring) / (unit * math.fsum(weights[party] for party in one.survivors)),
        )
        for one in sums
    )


def opened_in_a_round(federation: Federation) -> tuple[ClusterMean, ...]:
    """Simulate one round, whatever the scenario says, and return what the server opens."""
    plan = federation.plan
    short = replace(plan, scenario=msgspec.structs.replace(plan.scenario, stop=Stop(rounds=1)))
    heard = _Sums()
    Course(replace(federation, plan=short), (heard,)).run(lambda _params: Evaluation(0.0, 0.0))
    counts = {name: party.samples for name, party in federation.parties.items()}
    weighting = plan.scenario.weighting
    return cluster_means(plan.scenario, heard.sums, public_weights(counts, weighting.mode, weighting.cap))


class _Sums:
    """Keeps all opened sums."""

    def __init__(self) -> None:
        self.sums: list[ClusterSum] = []

    def on_report(self, _now: float, report: object) -> None:
        """See :class:`securefl.simulation.course.Listener`."""
        if isinstance(report, SumOpened):
            self.sums.append(report.opened)

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """See :class:`securefl.simulation.course.Listener`."""
