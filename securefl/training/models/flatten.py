"""Models as vectors of trained parameters, in the order of ``named_parameters`` (step 2)."""

import hashlib

import numpy as np
import torch

from securefl.base import crypto
from securefl.base.arrays import F32, F64, expect
from securefl.base.errors import ConfigError
from securefl.training.models.tensors import Tensors


def check_averageable(module: torch.nn.Module) -> None:
    """Check that a model consists of f32 parameters only.

    Running statistics (BatchNorm) would drift apart unnoticed.

    Raises:
        ConfigError: no trainable parameters, parameters that are not f32, or floating-point buffers.
    """
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ConfigError("model", "has no parameters", "give a model that can be trained")
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            raise ConfigError(
                "model",
                f"parameter {name} has dtype {parameter.dtype}, expected torch.float32",
                "convert the model with .float()",
            )
    if not any(parameter.requires_grad for parameter in parameters.values()):
        raise ConfigError("model", "has no trainable parameter", "set requires_grad of some parameters")
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point() or buffer.is_complex():
            raise ConfigError(
                "model",
                f"buffer {name} holds floating-point state, which the server cannot average",
                "replace BatchNorm by GroupNorm, or keep constants out of buffers",
            )


def trained_parameters(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Return the parameters that training may change, in the order of the vector; tied ones once.

    Only they are sent, noised and weighted. Frozen parameters are the same at all parties
    (:func:`frozen_digest`).
    """
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


def dimension(module: torch.nn.Module) -> int:
    """Return d, the number of trained parameters."""
    return sum(weight.numel() for weight in trained_parameters(module).values())


def frozen_digest(module: torch.nn.Module) -> bytes:
    """Return the digest of frozen parameters: names, shapes and values. It must agree at all parties.

    It also covers names and shapes of the trained parameters. Empty without frozen parameters, except for a
    module of named arrays.
    """
    frozen: list[str | bytes | int] = []
    trained: list[str | int] = []
    for name, weight in module.named_parameters():
        if weight.requires_grad:
            trained += [name, weight.dim(), *weight.shape]
        else:
            values = weight.detach().cpu().contiguous().numpy().astype("<f4", copy=False)
            frozen += [name, weight.dim(), *weight.shape, hashlib.sha256(values.tobytes()).digest()]
    return (
        crypto.digest("frozen parameters", len(frozen), *frozen, *trained)
        if frozen or isinstance(module, Tensors)
        else b""
    )


def to_vector(module: torch.nn.Module) -> F32:
    """Return a copy of the trained parameters as one f32 ``(d,)`` array in main memory.

    Raises:
        ConfigError: the model cannot be averaged (:func:`check_averageable`).
    """
    check_averageable(module)
    weights = trained_parameters(module).values()
    flat = torch.cat([weight.detach().reshape(-1) for weight in weights])
    vector: F32 = flat.cpu().numpy()
    return vector


def change(before: F32, after: F32) -> F64:
    """Return the update of a training: the exact difference of f32 ``(d,)`` parameters, in f64 (step 2)."""
    difference: F64 = after.astype(np.float64)
    difference -= before
    return difference


def load_vector(module: torch.nn.Module, vector: F32) -> None:
    """Overwrite the trained parameters with ``vector``, f32 ``(d,)``; change nothing if it does not fit.

    Raises:
        ConfigError: the model cannot be averaged (:func:`check_averageable`).
        UsageError: wrong dtype or length.
    """
    check_averageable(module)
    expect(vector, "vector", np.float32, (dimension(module),))
    weights = trained_parameters(module).values()
    # A copy, since torch tensors share the memory even of read-only arrays; one transfer, since each waits
    # for the GPU.
    flat = torch.from_numpy(vector.copy()).to(next(iter(weights)).device)
    start = 0
    with torch.no_grad():
        for parameter in weights:
            stop = start + parameter.numel()
            parameter.copy_(flat[start:stop].view_as(parameter))
            start = stop
