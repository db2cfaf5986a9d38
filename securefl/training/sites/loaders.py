"""Samples, batches and epochs of a site's loader."""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
import torch

from securefl.base.errors import ConfigError
from securefl.training.sites.layout import SiteError


def samples_of(loader: object, stated: int | None) -> int:
    """Return the number of samples that a site trains on, which is its weight.

    ``stated`` is the owner's number, or None to count those of ``loader``.

    Raises:
        ConfigError: no number is stated and the loader's is unknown, or more are stated than it has.
    """
    given = _given_by(loader)
    if stated is None:
        if given is None:
            raise ConfigError("samples", "is missing: the loader has no length", "pass samples=")
        return given
    if given is not None and stated > given:
        reason = f"{stated:,} are stated, and the loader gives {given:,}"
        raise ConfigError("samples", reason, "leave samples= out")
    return stated


def _given_by(loader: object) -> int | None:
    """Return the samples that a loader yields in an epoch, each counted once; None if unknown."""
    dataset = getattr(loader, "dataset", None)
    if not isinstance(dataset, Sized):
        return None
    batches = getattr(loader, "batch_sampler", None)
    # A user's batch sampler has a number of batches, but no batch size.
    inner = batches if batches is not None else loader
    sampler = getattr(inner, "sampler", None)
    if sampler is None:
        return len(dataset) if batches is None else None
    if not isinstance(sampler, Sized):
        return None
    drawn, size = len(sampler), getattr(inner, "batch_size", None)
    if getattr(inner, "drop_last", False) and isinstance(size, int) and drawn >= size:
        drawn -= drawn % size
    # Drawing with replacement repeats samples.
    return min(drawn, len(dataset))


def pair_of(batch: Any) -> tuple[Any, Any]:
    """Return inputs and targets of a batch.

    Raises:
        SiteError: the batch is not a pair. Mappings and tensors are not accepted.
    """
    kind = type(batch).__name__
    if not isinstance(batch, Mapping | torch.Tensor | np.ndarray | str):
        try:
            inputs, targets = batch
        except (TypeError, ValueError):
            kind += f" of {len(batch)}" if isinstance(batch, Sized) else ""
        else:
            return inputs, targets
    raise SiteError(f"the loader gives {kind}, expected pairs (inputs, targets): give collate_fn=, or train=")


def to_device(values: Any, device: torch.device) -> Any:
    """Return tensors on a device, also those in mappings, tuples and lists; other values unchanged."""
    if callable(getattr(values, "to", None)):
        return values.to(device, non_blocking=True)
    if isinstance(values, Mapping):
        return {name: to_device(value, device) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return _like(values, [to_device(value, device) for value in values])
    return values


def _like(values: Any, parts: list[Any]) -> Any:
    """Return parts as a list, a tuple or a named tuple, like ``values``."""
    return type(values)(*parts) if hasattr(values, "_fields") else type(values)(parts)


def batch_size(targets: Any) -> int:
    """Return the number of samples of a batch by its targets, also in sequences or mappings."""
    if isinstance(targets, Mapping):
        targets = tuple(targets.values())
    while isinstance(targets, Sequence) and not isinstance(targets, str) and targets:
        targets = targets[0]
    shape: Any = getattr(targets, "shape", ())
    return int(shape[0]) if len(shape) else 1


def set_epoch(loader: object, epoch: int) -> None:
    """Pass an epoch's number to a loader and its samplers, which need it to shuffle."""
    batches = getattr(loader, "batch_sampler", None)
    samplers = (loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None))
    for one in {id(sampler): sampler for sampler in samplers}.values():
        setter = getattr(one, "set_epoch", None)
        if callable(setter):
            setter(epoch)
