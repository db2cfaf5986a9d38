"""A small federation on digits for experiments, and pools of records."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from securefl.runtime.simulation.shadows import Pool
from securefl.scenario.data import Data
from securefl.scenario.load import parse_scenario
from securefl.scenario.scenario import Scenario
from securefl.training.data.dataset import Dataset
from securefl.training.data.datasets import load_data

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
