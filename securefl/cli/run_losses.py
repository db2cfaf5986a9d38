"""Declared counts of a run's parties, and losses of its model on their data. Imports torch."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from securefl.base.arrays import F32
from securefl.base.errors import ConfigError
from securefl.cli.counts import Declared
from securefl.methods import attacks
from securefl.protocol.round import likeliest_group
from securefl.runtime import misbehaviour, report
from securefl.scenario import Scenario
from securefl.training import sgd
from securefl.training.data import Shard, load_data, shards_of, split
from securefl.training.models import load_model, model_of, model_path, trained_parameters


def declared_in_run(
    directory: report.RunDirectory, scenario: Scenario, data_dir: Path | None
) -> tuple[Declared, ...]:
    """Return each party's declared count and the final model's loss on its samples.

    With task groups, the loss is that of the party's best model. All data must be on this machine.

    Raises:
        ConfigError: no recorded seed, no model or one of another shape, or no data set.
    """
    seed = _seed_of(directory)
    names, cast_as = attacks.party_names(scenario.parties), attacks.behaviours_of(scenario, seed)
    dataset = load_data(scenario.data, data_dir)
    shards = shards_of(dataset, split(dataset, scenario.data, names, seed, cast_as.keys()))
    shape, classes = shards.test.input_shape, shards.test.classes
    module = model_of(scenario, shape, classes, seed, tokens=shards.test.tokens)
    models = [
        _parameters(model_path(directory.model_file, number), module)
        for number in range(scenario.groups.count)
    ]
    cpu = torch.device("cpu")

    def loss(shard: Shard) -> float:
        evaluator = sgd.Evaluator(module, shard, cpu)
        losses = np.array([evaluator.evaluate(params).loss for params in models])
        chosen = likeliest_group(losses)
        return math.nan if chosen is None else float(losses[chosen])

    return tuple(
        Declared(
            name,
            misbehaviour.party_behaviour(cast_as.get(name, ()), name).declared_samples(
                len(shards.parties[name].y)
            ),
            loss(shards.parties[name]),
        )
        for name in names
    )


def _seed_of(directory: report.RunDirectory) -> int:
    seed = directory.read_summary().get("seed")
    if not isinstance(seed, int):
        raise ConfigError(
            str(directory.summary_file),
            "has no seed, so the data split is unknown",
            "use a run of this securefl version",
        )
    return seed


def _parameters(path: Path, module: torch.nn.Module) -> F32:
    saved = load_model(path)
    named = dict(module.named_parameters())
    shapes = {name: tuple(parameter.shape) for name, parameter in named.items()}
    for name in sorted(shapes.keys() | saved.keys()):
        if name not in saved or name not in shapes or saved[name].shape != shapes[name]:
            there = f"is of shape {saved[name].shape}" if name in saved else "is missing"
            wanted = f"shape {shapes[name]}" if name in shapes else "none of this name"
            raise ConfigError(f"{path}[{name}]", f"{there}, and the scenario's model has {wanted}")
    for name, parameter in named.items():
        if not parameter.requires_grad and not np.array_equal(saved[name], parameter.detach().numpy()):
            raise ConfigError(
                f"{path}[{name}]",
                "is a frozen parameter with other values than the scenario's model",
                "use the same model factory",
            )
    return np.concatenate([saved[name].ravel() for name in trained_parameters(module)])
