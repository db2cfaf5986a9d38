"""Folder that hands a model over: weights, card, scenario and digests."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from securefl.base import files
from securefl.base.errors import ConfigError
from securefl.lab import new_folder
from securefl.lab.handover.card import model_card
from securefl.lab.handover.validation import arrays_digest, read_validations
from securefl.lab.run_page import read_run
from securefl.runtime.report import RunDirectory

_TYPES_OF_NUMPY: Final = frozenset(
    ("BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "I64", "U64", "F64", "C64")
)


def export_run(path: Path, out: Path, validations: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Write the final model of a run (the best one by ``stop.metric``) with its card, and return the files.

    ``validations`` are files of sites, which the card shows by site.

    Raises:
        ConfigError: the run has not ended or has no model, ``out`` exists and is not empty, or a validation
            is not of this model.
        RunAbortedError: a file cannot be written.
    """
    run, directory = read_run(path), RunDirectory(path)
    if run.summary is None:
        raise ConfigError(str(path), "has not ended: it has no summary", "export the run when it has ended")
    new_folder.check_new(out, "--out")
    content = _weights(directory, run.scenario.groups.count)
    described = {name: _describe(data, name) for name, data in content.items()}
    validated = read_validations(validations, described["model.safetensors"].pop("digest"))
    content["README.md"] = model_card(run, run.summary, described, validated).encode()
    content["scenario.toml"] = run.toml.encode()
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(content.items()))
    content["SHA256SUMS"] = sums.encode()
    return new_folder.fill_folder(out, content)


def _weights(directory: RunDirectory, groups: int) -> dict[str, bytes]:
    """Return the files of the models by their names in the new folder."""
    first = directory.best_file if directory.best_file.exists() else directory.model_file
    found = {"model.safetensors": first}
    found |= {f"model-{n}.safetensors": first.with_stem(f"{first.stem}-{n}") for n in range(1, groups)}
    content = {}
    for name, file in found.items():
        data = files.read_if_there(file)
        if data is None:
            raise ConfigError(str(file), "does not exist", "a run writes its model after its first round")
        content[name] = data
    return content


def _describe(data: bytes, name: str) -> dict[str, Any]:
    """Return the figures of a file by its header, for all types of numbers, also those that numpy lacks."""
    from safetensors import SafetensorError, deserialize  # noqa: PLC0415 - for this alone

    from securefl.training.models import is_control  # noqa: PLC0415 - torch

    try:
        found: list[tuple[str, dict[str, Any]]] = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ConfigError(name, f"is damaged: {error}", "restore it from a backup") from error
    arrays = [array for key, array in found if not is_control(key)]
    for_numpy = {array["dtype"] for array in arrays} <= _TYPES_OF_NUMPY
    return {
        # Sites validate models that numpy can read.
        "digest": arrays_digest(_for_digest(data)) if for_numpy else "",
        "sha256": hashlib.sha256(data).hexdigest(),
        "arrays": len(arrays),
        "parameters": sum(math.prod(array["shape"]) for array in arrays),
        "for_numpy": for_numpy,
    }


def _for_digest(data: bytes) -> dict[str, np.ndarray[Any, Any]]:
    from safetensors.numpy import load  # noqa: PLC0415 - for this alone

    from securefl.training.models import is_control  # noqa: PLC0415 - torch

    return {key: array for key, array in load(data).items() if not is_control(key)}
