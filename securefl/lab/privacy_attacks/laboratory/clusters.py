"""Cluster means of a round, as the server holds them after it."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.methods.encoding import from_ring
from securefl.protocol.round import ClusterSum


class ClusterMean(NamedTuple):
    """One opened sum over the weights that it counts."""

    survivors: tuple[PartyId, ...]
    update: F64
    """Parameters' own unit, f64 ``(d,)``, noise included."""


def cluster_means(
    encoding: scenario.Encoding, sums: Sequence[ClusterSum], weights: Mapping[PartyId, float]
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
