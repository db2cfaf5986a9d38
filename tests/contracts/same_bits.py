"""Digests of what every rule and pre-aggregation makes of stacks on which last bits decide, as JSON.

Run by test_same_bits.py once for every machine that one processor can pretend to be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F64
from securefl.base.stack import ClusterMeans
from securefl.lab.bench.robust import rules_for, steps_for
from securefl.methods.robust.catalogue import aggregate, prepare
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus
from securefl.methods.task_groups.halving import spread
from securefl.scenario.aggregation import PreAggregation, Rule

SEED = bytes(range(32))
FURTHER: tuple[Rule, ...] = (
    TrimmedMean(trim="weight", beta=0.2),
    ZenoPlusPlus(scale="sum", eps=0.1),
    InnerProduct(gamma=0.5, normalised="both"),
    InnerProduct(gamma=0.3, normalised="gradient", divide_by="all"),
)


def stacks() -> Iterator[tuple[str, ClusterMeans]]:
    """By name. Widths that are no multiple of anything, and of more than one block."""
    rng = np.random.default_rng(18)
    yield "random", stack(rng.normal(size=(20, 3001)) + 0.5)
    yield "wide", stack(rng.normal(size=(23, 20_011)))
    yield "many", stack(rng.normal(size=(61, 1499)))
    yield "one column", stack(rng.normal(size=(20, 1)))
    # All rows are one row, turned: all scores of Krum are equal but for rounding.
    row = rng.normal(size=24 * 125)
    turned = np.stack([np.roll(row, 125 * k) for k in range(24)])
    yield "near ties", stack(turned, equal=True)
    yield "near ties, far off", stack(turned + 100.0, equal=True)
    few = rng.normal(size=(7, 1003))
    yield "identical rows", stack(few[rng.integers(0, 7, 25)])
    yield "identical clusters", stack(few[rng.integers(0, 7, 25)], equal=True)
    huge = rng.normal(size=(21, 999))
    huge[:5] *= np.array([1e300, -1e300, 1e160, 1e155, 1e12])[:, np.newaxis]
    yield "huge", stack(huge)
    yield "tiny", stack(rng.normal(size=(20, 999)) * 1e-310)
    yield "small", stack(rng.normal(size=(20, 999)) * 1e-170)
    lattice = rng.integers(-(2**12), 2**12, (22, 2003)) / 2.0**20
    yield "lattice", stack(lattice / rng.integers(1, 9, 22)[:, np.newaxis])
    zeros: F64 = rng.choice([-1.0, 0.0, 1.0], (20, 1001)) * np.where(rng.random((20, 1001)) < 0.5, -0.0, 1.0)
    yield "zeros", stack(zeros)


def stack(means: F64, equal: bool = False) -> ClusterMeans:
    """Of unequal weights unless ``equal``, with a reference and a gradient of the server's."""
    rng = np.random.default_rng(len(means))
    clusters, dimension = means.shape
    weights: F64 = np.ones(clusters)
    if not equal:
        weights *= rng.uniform(0.5, 1.0, clusters)
    return ClusterMeans(
        means,
        weights,
        np.full(clusters, 3),
        reference=0.1 * means[-1],
        server_gradient=rng.normal(size=dimension) - means[-1],
    )


def measured(clusters: int) -> list[Rule | PreAggregation]:
    return [
        *(rule for rule, _ in rules_for(clusters)),
        *FURTHER,
        *(step for step, _ in steps_for(clusters)),
    ]


def digest(*arrays: npt.NDArray[Any]) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def result(what: Rule | PreAggregation, on: ClusterMeans) -> str:
    if isinstance(what, Rule):
        got = aggregate(what, on)
        return digest(got.vector, got.kept)
    after, place = prepare(what, on, SEED)
    return digest(after.means, after.weights, np.array(after.noise_std), place)


def halving(on: ClusterMeans) -> str:
    """Of what parts a model of which several groups have learned."""
    with np.errstate(all="ignore"):
        found = spread(on.means, np.arange(1, on.clusters + 1))
    return digest(np.array([found.ratio, found.length]), found.direction)


if __name__ == "__main__":
    print(
        json.dumps(
            {
                f"{what} on {name}": result(what, one)
                for name, one in stacks()
                for what in measured(one.clusters)
            }
            | {f"halving on {name}": halving(one) for name, one in stacks()}
        )
    )
