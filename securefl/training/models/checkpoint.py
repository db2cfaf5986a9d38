"""Trained models on disk, as safetensors."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load

from securefl.base import files
from securefl.base.arrays import F32, expect
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.methods import server_optimisers
from securefl.training.models import flatten, state_dict, tensors


def save_model(path: Path, module: torch.nn.Module, params: F32) -> None:
    """Write the whole model atomically: ``params``, f32 ``(d,)``, and the frozen parameters of ``module``.

    Arrays are prepared as for sites (:func:`securefl.methods.server_optimisers.prepare_arrays`).

    Raises:
        ConfigError: the file cannot be written.
        UsageError: ``params`` does not fit.
    """
    flatten.check_averageable(module)
    expect(params, "params", np.float32, (flatten.dimension(module),))
    arrays: dict[str, F32] = {}
    start = 0
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            arrays[name] = parameter.detach().cpu().contiguous().numpy()
            continue
        stop = start + parameter.numel()
        arrays[name] = params[start:stop].reshape(tuple(parameter.shape)).copy()
        start = stop
    try:
        files.write_whole(
            path,
            tensors.encode_tensors(
                server_optimisers.prepare_arrays(arrays), {"format": "pt", **_head(module, arrays)}
            ),
        )
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error


def _head(module: torch.nn.Module, arrays: Mapping[str, F32]) -> dict[str, str]:
    """Return metadata: entries of the module's ``state_dict`` besides these arrays."""
    if isinstance(module, tensors.Tensors):
        return {tensors.HEAD: module.state_head} if module.state_head else {}
    head = state_dict.state_head(module, arrays)
    return {tensors.HEAD: json.dumps(head)} if head else {}


def keep_model(path: Path, module: torch.nn.Module, params: F32) -> None:
    """Write the model during a run, like :func:`save_model`; a full disk is then not a configuration error.

    Of several concatenated models (task groups), the second goes to ``model-1.safetensors`` beside ``path``,
    and so on.

    Raises:
        RunAbortedError: a file cannot be written.
        UsageError: ``params`` has the wrong dtype, or a length that is not a multiple of the model's.
    """
    length = flatten.dimension(module)
    try:
        for number in range(max(1, len(params) // length)):
            last = number + 1 == len(params) // length
            save_model(
                model_path(path, number),
                module,
                params[number * length : None if last else (number + 1) * length],
            )
    except ConfigError as error:
        raise RunAbortedError(str(error)) from error


def model_path(path: Path, number: int) -> Path:
    """Return the path of model ``number``; the first is at ``path``."""
    return path.with_stem(f"{path.stem}-{number}") if number else path


def load_model(path: Path) -> dict[str, F32]:
    """Return the arrays of a saved model by parameter name.

    Raises:
        ConfigError: missing, unreadable, damaged, or with arrays that are not f32.
    """
    try:
        arrays = load(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read: {error.strerror}", "name a safetensors file that you may read"
        ) from error
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            str(path), f"is not a safetensors file: {error}", "name a model file that a run wrote"
        ) from error
    named: dict[str, F32] = {}
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise ConfigError(
                f"{path}[{name}]", f"has dtype {array.dtype}, expected float32", "convert it to float32"
            )
        named[name] = array
    return named


def load_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """Return a saved model with the local entries in its file's head, for ``load_state_dict``.

    Raises:
        ConfigError: as for :func:`load_model`, or a damaged head.
    """
    arrays = {name: torch.from_numpy(array) for name, array in load_model(path).items()}
    return state_dict.complete_state(arrays, tensors.head_of(path.read_bytes()))
