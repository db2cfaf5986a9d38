"""Models as vectors: parameters only, in the order of ``named_parameters``, tied ones once (step 2)."""

from __future__ import annotations

import numpy as np
import torch

from securefl.arrays import F32, F64, expect
from securefl.errors import ConfigError


def check_averageable(module: torch.nn.Module) -> None:
    """Refuse a model that is more than its f32 parameters.

    Running statistics (BatchNorm) are state that training changes but a sum of parameters does not carry, so
    parties and server would drift apart without anybody noticing.

    Raises:
        ConfigError: no trainable parameters, parameters that are not f32, or floating-point buffers.
    """
    parameters = dict(module.named_parameters())
    if not parameters:
        raise ConfigError("model", "has no parameters")
    for name, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            raise ConfigError(
                "model", f"parameter {name} has dtype {parameter.dtype}, expected torch.float32"
            )
    if not any(parameter.requires_grad for parameter in parameters.values()):
        raise ConfigError("model", "has no parameter that training may change")
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point() or buffer.is_complex():
            raise ConfigError(
                "model",
                f"buffer {name} holds floating-point state, which is not averaged",
                "replace BatchNorm by GroupNorm, or keep constants out of buffers",
            )


def dimension(module: torch.nn.Module) -> int:
    """d: how many parameters the model has."""
    return sum(parameter.numel() for parameter in module.parameters())


def to_vector(module: torch.nn.Module) -> F32:
    """The parameters as one f32 ``(d,)`` array in main memory; a copy.

    Raises:
        ConfigError: the model cannot be averaged (:func:`check_averageable`).
    """
    check_averageable(module)
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])
    vector: F32 = flat.cpu().numpy()
    return vector


def change(before: F32, after: F32) -> F64:
    """What training added to parameters, f32 ``(d,)``: f64 ``(d,)``, so that nothing is lost (step 2)."""
    difference: F64 = after.astype(np.float64)
    difference -= before
    return difference


def load_vector(module: torch.nn.Module, vector: F32) -> None:
    """Overwrite the parameters with ``vector``, f32 ``(d,)``. Nothing is changed if it does not fit.

    Raises:
        ConfigError: the model cannot be averaged (:func:`check_averageable`).
        UsageError: wrong dtype or length.
    """
    check_averageable(module)
    expect(vector, "vector", np.float32, (dimension(module),))
    # A copy, because torch tensors share memory with the arrays that they are made from, read-only ones too.
    flat = torch.from_numpy(vector.copy())
    start = 0
    with torch.no_grad():
        for parameter in module.parameters():
            stop = start + parameter.numel()
            parameter.copy_(flat[start:stop].view_as(parameter))
            start = stop
