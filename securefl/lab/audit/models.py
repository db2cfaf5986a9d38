"""First model of a run, made again, and its final model. Imports torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from securefl.base.arrays import F32
from securefl.base.errors import ConfigError
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import report
from securefl.training import data, models, sgd


@dataclass(frozen=True, slots=True)
class FirstModel:
    """First model of a chain, f32 ``(k d,)``."""

    params: F32 = field(repr=False)
    frozen: bytes
    shapes: Mapping[str, tuple[int, ...]]
    """Shapes of trained parameters in the order of updates."""


def first_model(recorded: Recorded, data_dir: Path | None, file: Path | None = None) -> FirstModel:
    """Make the first model again: from ``file`` if given, else by the seed and the data set's shape.

    Raises:
        ConfigError: the data set or the model's code is missing, or the seed is unknown.
    """
    scenario, seed = recorded.scenario, recorded.seed
    if file is not None:
        tensors = models.read_tensors(str(file))
        return FirstModel(
            models.to_vector(tensors),
            models.frozen_digest(tensors),
            _shapes(models.trained_parameters(tensors)),
        )
    if seed is None:
        raise ConfigError("transcripts", "do not state the seed of the run")
    dataset = data.load_data(scenario.data, data_dir)
    sample = dataset.standardise(dataset.x_test[:1])
    one = data.Shard(sample, dataset.y_test[:1], dataset.classes, dataset.input_shape)
    module = models.model_of(scenario, one.input_shape, one.classes, seed, tokens=one.tokens)
    return FirstModel(
        sgd.initial_models(scenario, module, one, seed),
        models.frozen_digest(module),
        _shapes(models.trained_parameters(module)),
    )


def first_file(recorded: Recorded, path: Path) -> Path | None:
    """Return the first model's file, preferably the run's copy; None if the scenario names none.

    Raises:
        ConfigError: both files are missing or differ from the original.
    """
    model = recorded.scenario.model
    if not model.first_file:
        return None
    own = str(getattr(model, "sha256", ""))
    stated = {own} if own else recorded.model_files
    copy = report.RunDirectory.open(path).first_file
    found = {file: report.file_digest(file) for file in (copy, Path(model.first_file))}
    for file, digest in found.items():
        if digest and (digest in stated or not stated):
            return file
    altered = [str(file) for file, digest in found.items() if digest]
    reason = f"{', '.join(altered)} differs from it" if altered else "it is missing"
    which = f" (SHA-256 {', '.join(sorted(stated))})" if stated else ""
    raise ConfigError(
        str(copy),
        f"the run started from the model file {model.first_file}{which}, but {reason}",
        "copy the model file with which the sites started there",
    )


def _shapes(weights: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def final_model(recorded: Recorded, path: Path, first: FirstModel) -> F32 | None:
    """Read the final model of a run, f32 ``(k d,)``; None without a file.

    Raises:
        ConfigError: a file is damaged or of another model.
    """
    model_file = report.RunDirectory.open(path).model_file
    if not model_file.exists():
        return None
    files = [models.model_path(model_file, number) for number in range(recorded.scenario.groups.count)]
    return np.concatenate([_vector(file, first.shapes) for file in files])


def _vector(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> F32:
    """Return the trained parameters in the order of updates."""
    found = models.load_model(file)
    for name, shape in shapes.items():
        if name not in found or found[name].shape != shape:
            raise ConfigError(
                str(file),
                f"is of another model: it has no tensor {name} of shape {shape}",
                "use the model file of this run",
            )
    return np.concatenate([found[name].reshape(-1) for name in shapes])
