"""Declared counts of a former run's parties, and the losses of its model on their data. Imports torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from securefl.behaviours.cast import party_behaviour
from securefl.cli.counts import Declared
from securefl.config.cast import behaviours_of, party_names
from securefl.errors import ConfigError
from securefl.learning.checkpoint import load_model
from securefl.learning.datasets import load_data
from securefl.learning.evaluation import Evaluator
from securefl.learning.flatten import dimension
from securefl.learning.models import build_model
from securefl.learning.shards import shards_of
from securefl.learning.split import split
from securefl.report.rundir import RunDirectory


def declared_in_run(path: Path, seed: int, data_dir: Path | None) -> tuple[Declared, ...]:
    """What each party of a run declared, and the loss of the final model on its samples.

    It takes everybody's data, which are in one place in local runs and simulations only.

    Args:
        path: the run's directory.
        seed: the public seed of the run, which split the data.
        data_dir: where data sets are.

    Raises:
        ConfigError: no run, no model in it or one of another shape, or the data set is not there.
    """
    directory = RunDirectory.open(path)
    scenario = directory.read_scenario()
    names, cast_as = party_names(scenario.parties), behaviours_of(scenario, seed)
    dataset = load_data(scenario.data, data_dir)
    shards = shards_of(dataset, split(dataset, scenario.data, names, seed, cast_as.keys()))
    shape, classes = shards.test.input_shape, shards.test.classes
    module = build_model(scenario.model, shape, classes, seed, tokens=shards.test.tokens)
    saved = load_model(directory.model_file)
    if sum(array.size for array in saved.values()) != dimension(module):
        raise ConfigError(str(directory.model_file), "is not of the scenario's shape")
    params = np.concatenate([saved[name].ravel() for name, _ in module.named_parameters()])
    cpu = torch.device("cpu")

    return tuple(
        Declared(
            name,
            party_behaviour(cast_as.get(name, ()), name).declared(len(shards.parties[name].y)),
            Evaluator(module, shards.parties[name], cpu).evaluate(params).loss,
        )
        for name in names
    )
