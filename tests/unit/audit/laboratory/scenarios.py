"""A small federation on digits for experiments, and pools of records."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import numpy as np

from securefl.base.ids import PartyId
from securefl.lab.privacy_attacks.laboratory.clusters import ClusterMean, cluster_means
from securefl.methods.weighting.weights import public_weights
from securefl.protocol.round import ClustersDrawn, ClusterSum, SumOpened
from securefl.runtime.simulation.federation import SimulatedFederation
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.runtime.simulation.shadows import Pool
from securefl.scenario.data import Data
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario, Stop, Weighting
from securefl.training.data.dataset import Dataset
from securefl.training.data.datasets import load_data
from securefl.training.sgd import Evaluation

SCENARIO = """
name = "members"
parties = 4
[data]
set = "digits"
[model]
type = "mlp"
hidden = [32]
[training]
epochs = 8
batch_size = 8
learning_rate = 0.2
device = "cpu"
[clustering]
size = 2
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 2
"""


def scenario(*overrides: str) -> Scenario:
    return parse_scenario(SCENARIO, overrides)


@functools.cache
def digits(records: int) -> Dataset:
    """The first records of the training half, as a data set of its own."""
    whole = load_data(Data(set="digits"), None)
    rows = np.random.default_rng(1).permutation(len(whole.y_train))[:records]
    return replace(whole, x_train=whole.x_train[rows], y_train=whole.y_train[rows])


def pool(records: int, *overrides: str) -> Pool:
    return Pool(scenario=scenario(*overrides), dataset=digits(records))


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
        match report:
            case ClustersDrawn(clusters=clusters, counts=counts):
                drawn = {party for cluster in clusters[0] for party in cluster}
                self.weights = public_weights(self._weighting, dict(counts), drawn)
            case SumOpened(opened=opened):
                self.sums.append(opened)
            case _:
                pass

    def on_reject(self, vantage: str, culprit: str, reason: str) -> None:
        pass
