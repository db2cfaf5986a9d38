"""What the server holds after a round: the mean update of each cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.methods.encoding import from_ring
from securefl.methods.weighting import public_weights
from securefl.protocol.round import ClustersDrawn, ClusterSum, SumOpened
from securefl.runtime.simulation import SimulatedFederation, SimulatedRounds
from securefl.scenario import Encoding, Stop, Weighting
from securefl.training.sgd import Evaluation


class ClusterMean(NamedTuple):
    """One opened sum over the weights that it counts."""

    survivors: tuple[PartyId, ...]
    update: F64
    """Parameters' own unit, f64 ``(d,)``, noise included."""


def cluster_means(
    encoding: Encoding, sums: Sequence[ClusterSum], weights: Mapping[PartyId, float]
) -> tuple[ClusterMean, ...]:
    """The means of opened sums, in their order.

    Args:
        encoding: for the scale.
        sums: of one round.
        weights: public weights of all survivors.
    """
    unit = float(1 << encoding.scale_bits)
    return tuple(
        ClusterMean(
            one.survivors,
            from_ring(one.ring) / (unit * math.fsum(weights[party] for party in one.survivors)),
        )
        for one in sums
    )


def opened_in_a_round(federation: SimulatedFederation) -> tuple[ClusterMean, ...]:
    """Simulate one round, whatever the scenario says, and return what the server opens."""
    plan = federation.plan
    short = replace(plan, scenario=msgspec.structs.replace(plan.scenario, stop=Stop(rounds=1)))
    heard = _Sums(plan.scenario.weighting)
    SimulatedRounds(replace(federation, plan=short), (heard,)).run(lambda _params: Evaluation(0.0, 0.0))
    return cluster_means(plan.scenario.encoding, heard.sums, heard.weights)


class _Sums:
    """Keeps all opened sums, and the weights in them."""

    def __init__(self, weighting: Weighting) -> None:
        self._weighting = weighting
        self.sums: list[ClusterSum] = []
        self.weights: Mapping[PartyId, float] = {}

    def on_report(self, _now: float, report: object) -> None:
        """See :class:`securefl.runtime.simulation.rounds.Listener`."""
        match report:
            case ClustersDrawn(clusters=clusters, counts=counts):
                drawn = {party for cluster in clusters[0] for party in cluster}
                self.weights = public_weights(self._weighting, dict(counts), drawn)
            case SumOpened(opened=opened):
                self.sums.append(opened)
            case _:
                pass

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        """See :class:`securefl.runtime.simulation.rounds.Listener`."""
