"""Cluster means of a round, as the server knows them."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from securefl import scenario
from securefl.base.arrays import F64
from securefl.base.ids import PartyId
from securefl.methods.encoding import from_ring
from securefl.protocol.round import ClusterSum


class ClusterMean(NamedTuple):
    """Opened sum divided by its survivors' weights."""

    survivors: tuple[PartyId, ...]
    update: F64
    """Unit of the parameters, f64 ``(d,)``, with noise."""


def cluster_means(
    encoding: scenario.Encoding, sums: Sequence[ClusterSum], weights: Mapping[PartyId, float]
) -> tuple[ClusterMean, ...]:
    """Return the means of opened sums, in order; ``weights`` are public weights of all survivors."""
    unit = float(1 << encoding.scale_bits)
    return tuple(
        ClusterMean(
            one.survivors,
            from_ring(one.ring) / (unit * math.fsum(weights[party] for party in one.survivors)),
        )
        for one in sums
    )
