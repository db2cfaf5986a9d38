"""Whole ``state_dict`` of a module from the arrays that are sent.

The head of a model's file lists the entries that are not sent (tied, integer, local, personal, frozen), with
their first values if they are few.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from securefl.base.errors import ConfigError

MOST_LOCAL = 100_000
"""Most values in a head, which is text."""
_DAMAGED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError, MemoryError)
"""Exceptions of heads that :func:`state_head` has not made."""
_WRAPPERS = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def plain_name(model: nn.Module, name: str) -> str:
    """Return a tensor's name without prefixes of ``torch.compile`` and ``DataParallel``."""
    found, module = list[str](), model
    for part in name.split("."):
        wrapped = part == "_orig_mod" or (part == "module" and isinstance(module, _WRAPPERS))
        if not wrapped:
            found.append(part)
        module = getattr(module, part, module)
    return ".".join(found)


def state_head(model: nn.Module, travelling: Collection[str]) -> dict[str, Any]:
    """Return the entries of a module's ``state_dict`` that are not sent, for JSON.

    ``travelling`` has the plain names of the arrays that are sent.

    Returns:
        ``order``, the names of all arrays; ``local``, dtype, shape and values of those that stay, without
        complex, sparse and quantised ones and those beyond :data:`MOST_LOCAL` numbers; ``tied``, further
        names of arrays. Empty if all entries are sent.
    """
    order, local, tied, count = list[str](), dict[str, Any](), dict[str, str](), 0
    for name, tensor, first in _entries(model):
        if first != name:
            tied[name] = first
        elif name in travelling:
            order.append(name)
        elif count + tensor.numel() <= MOST_LOCAL and (values := _numbers(tensor)) is not None:
            count += tensor.numel()
            order.append(name)
            local[name] = [str(values.dtype), list(values.shape), values.reshape(-1).tolist()]
    tied = {name: first for name, first in tied.items() if first in order}
    return {"order": order, "local": local, "tied": tied} if local or tied else {}


def complete_state(arrays: Mapping[str, torch.Tensor], head: str) -> dict[str, torch.Tensor]:
    """Return arrays that were sent, by plain name, with the other entries of a file's head.

    ``head`` is JSON of :func:`state_head`; empty for none.

    Raises:
        ConfigError: the head is damaged.
    """
    found = dict(arrays)
    if not head:
        return found
    try:
        kept = json.loads(head)
        for name, (dtype, shape, values) in kept.get("local", {}).items():
            found.setdefault(name, torch.from_numpy(np.array(values, dtype).reshape(shape)))
        for name, first in kept.get("tied", {}).items():
            found.setdefault(name, found[first])
    except _DAMAGED as error:
        reason = f"the head of the file cannot be read: {type(error).__name__}: {error}"
        raise ConfigError("model", reason, "pass the module: state_dict(module)") from error
    return found


def completed_by(model: nn.Module, arrays: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a module's own ``state_dict`` with the arrays that were sent, given by plain name.

    Names are the module's, including the prefixes of wrappers. Local entries keep their values.

    Raises:
        ConfigError: the module lacks an array, or has another shape of it.
    """
    found, state = dict[str, torch.Tensor](), model.state_dict()
    plain = {name: first for name, _, first in _entries(model)}
    for name in sorted(arrays):
        if name not in plain:
            raise ConfigError("module", f"has no {name}, which the model has", "pass the module of the sites")
    for raw, own in state.items():
        name = plain_name(model, raw)
        array = arrays.get(name, arrays.get(plain.get(name, name)))
        if array is not None and array.shape != own.shape:
            reason = f"{raw} has shape {tuple(own.shape)}, the model has {tuple(array.shape)}"
            raise ConfigError("module", reason, "pass the module of the sites")
        found[raw] = own if array is None else array
    return found


def _entries(model: nn.Module) -> list[tuple[str, torch.Tensor, str]]:
    """Return plain name, tensor and first plain name of each tensor in the module's ``state_dict``.

    The first of a tied tensor's names is that of ``named_parameters``.
    """
    first = {id(one): plain_name(model, name) for name, one in model.named_parameters()}
    found = list[tuple[str, torch.Tensor, str]]()
    # A module's get_extra_state may return anything.
    for raw, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor):
            name = plain_name(model, raw)
            found.append((name, tensor, first.setdefault(id(tensor), name)))
    return found


def _numbers(tensor: torch.Tensor) -> np.ndarray[Any, Any] | None:
    """Return a tensor as an array, bfloat16 as f32; None if complex, sparse, quantised or without data."""
    if tensor.is_complex() or tensor.is_quantized or tensor.is_meta or tensor.layout != torch.strided:
        return None
    held = tensor.detach().cpu()
    narrow = held.dtype.is_floating_point and held.dtype.itemsize < 4 and held.dtype != torch.float16
    return (held.float() if narrow else held).numpy()
