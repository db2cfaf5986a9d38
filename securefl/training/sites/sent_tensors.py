"""Tensors of a site's module that are sent, looked up anew at each use.

User code may replace the objects, as ``load_state_dict(..., assign=True)`` does, and train the new ones.
"""

import fnmatch
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from securefl.base.errors import ConfigError
from securefl.training import models
from securefl.training.sites.layout import SiteError

_REAL = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class HeldTensors:
    """Parameters and buffers of one module that are sent, by name.

    Parameters that match ``personal`` are not sent. ``buffers`` is ``average`` to send floating-point
    buffers, ``refuse`` to allow none, or ``local``.

    Raises:
        ConfigError: no parameter is sent, a pattern matches none, a dtype is not real, or the model has
            refused buffers.
    """

    def __init__(self, model: nn.Module, personal: tuple[str, ...], buffers: str) -> None:
        self._model = model
        self._parameters = {name: _form(one) for name, one in _travelling(model, personal).items()}
        self._buffers = {name: _form(one) for name, one in _averaged_buffers(model, buffers).items()}

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the parameters that are sent.

        Raises:
            SiteError: a parameter is missing, or its shape or dtype has changed.
        """
        return self._same(self._parameters, _named_parameters(self._model))

    def buffers(self) -> dict[str, torch.Tensor]:
        """Return the buffers that are sent.

        Raises:
            SiteError: as for :meth:`parameters`.
        """
        return self._same(self._buffers, _named_buffers(self._model))

    def changing(self) -> dict[str, torch.Tensor]:
        """Return all tensors that training changes: parameters and floating-point buffers."""
        trained = {n: w for n, w in _named_parameters(self._model).items() if w.requires_grad}
        return {**trained, **_named_buffers(self._model)}

    @staticmethod
    def _same(forms: Mapping[str, tuple[object, ...]], there: Mapping[str, Any]) -> dict[str, Any]:
        for name, form in forms.items():
            if name not in there:
                raise SiteError(f"{name} is no longer in the model")
            if _form(there[name]) != form:
                shape, dtype = there[name].shape, there[name].dtype
                raise SiteError(f"{name} has become {tuple(shape)} {dtype}, it was {form[0]} {form[1]}")
        return {name: there[name] for name in forms}


def _named_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    return {models.plain_name(model, name): one for name, one in model.named_parameters()}


def _named_buffers(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the buffers of floating-point numbers."""
    return {
        models.plain_name(model, name): one for name, one in model.named_buffers() if one.is_floating_point()
    }


def _form(tensor: torch.Tensor) -> tuple[object, ...]:
    return tuple(tensor.shape), tensor.dtype


def _travelling(model: nn.Module, personal: tuple[str, ...]) -> dict[str, nn.Parameter]:
    trained = {name: weight for name, weight in _named_parameters(model).items() if weight.requires_grad}
    for pattern in personal:
        if not any(_fits(name, pattern) for name in trained):
            have = ", ".join(list(trained)[:4])
            raise ConfigError(
                "personal", f"{pattern!r} matches no trained parameter", f"trained parameters: {have}"
            )
    for name, weight in trained.items():
        if weight.dtype not in _REAL:
            reason = f"{name} has dtype {str(weight.dtype).removeprefix('torch.')}"
            raise ConfigError("model", reason, "use real numbers of 16, 32 or 64 bits")
    left = {n: w for n, w in trained.items() if not any(_fits(n, p) for p in personal)}
    if not left:
        raise ConfigError(
            "TorchSite", "shares no parameter: all are frozen or personal", "share at least one"
        )
    return left


def _fits(name: str, pattern: str) -> bool:
    """Return True if a name equals the pattern, even with brackets, or matches it."""
    return name == pattern or fnmatch.fnmatchcase(name, pattern)


def _averaged_buffers(model: nn.Module, buffers: str) -> dict[str, torch.Tensor]:
    if buffers not in {"local", "average", "refuse"}:
        raise ConfigError("buffers", f"{buffers!r} is not a choice", "one of local, average, refuse")
    for name, one in model.named_buffers():
        if one.is_complex() and buffers != "local":
            raise ConfigError("buffers", f"{name} holds complex numbers", 'set buffers="local"')
    found = _named_buffers(model)
    if found and buffers == "refuse":
        remedy = 'use GroupNorm in place of BatchNorm, or buffers="local"'
        raise ConfigError("buffers", f"the model has {next(iter(found))}, which cannot be averaged", remedy)
    return found if buffers == "average" else {}
