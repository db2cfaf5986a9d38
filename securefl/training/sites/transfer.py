"""Named arrays in main memory, from and to the tensors of a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from securefl.training.sites.layout import SiteError
from securefl.training.sites.site import Arrays


def read_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return copies of the tensors as arrays of their shapes: f64 of f64, f32 of f32 and of half precision.

    Tensors of one GPU travel as one vector: a transfer for each of them would wait for the GPU each time.
    """
    wide = any(tensor.dtype == torch.float64 for tensor in tensors.values())
    if wide or not _are_on_one_gpu(tensors):
        return {name: _read(tensor) for name, tensor in tensors.items()}
    flat = torch.cat([tensor.detach().to(torch.float32).reshape(-1) for tensor in tensors.values()])
    pieces = np.split(flat.cpu().numpy(), _ends(tensors))
    return {
        name: piece.reshape(tensor.shape)
        for (name, tensor), piece in zip(tensors.items(), pieces, strict=True)
    }


def _read(tensor: torch.Tensor) -> Any:
    dtype = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    return tensor.detach().to("cpu", dtype).numpy().copy()


def write_arrays(tensors: Mapping[str, torch.Tensor], arrays: Arrays) -> None:
    """Overwrite each tensor with the array of its name, rounded to the tensor's dtype.

    Args:
        tensors: their names are among those of ``arrays``.
        arrays: of the tensors' shapes; not changed, and not kept.

    Raises:
        SiteError: a number is beyond the range of the tensor's dtype.
    """
    for name, tensor in tensors.items():
        if tensor.dtype.itemsize < torch.float32.itemsize:
            _check_fits(name, tensor.dtype, np.asarray(arrays[name]))
    with torch.no_grad():
        if _are_on_one_gpu(tensors):
            flat = np.concatenate([np.ravel(np.asarray(arrays[name], dtype=np.float32)) for name in tensors])
            there = torch.from_numpy(flat).to(next(iter(tensors.values())).device)
            pieces = torch.tensor_split(there, _ends(tensors))
            for tensor, piece in zip(tensors.values(), pieces, strict=True):
                tensor.copy_(piece.view(tensor.shape))
            return
        for name, tensor in tensors.items():
            if tensor.device.type == "cpu" and tensor.dtype == torch.float32:
                # In one pass, and for read-only arrays too, which from_numpy refuses.
                np.copyto(tensor.detach().numpy(), arrays[name])
            else:
                tensor.copy_(torch.from_numpy(np.array(arrays[name])))


def _check_fits(name: str, dtype: torch.dtype, array: Any) -> None:
    largest = float(np.abs(array).max(initial=0.0))
    if torch.finfo(dtype).max < largest < np.inf:
        kind = str(dtype).removeprefix("torch.")
        raise SiteError(f"{name} came with {largest:.4g}, beyond the range of {kind}")


def all_finite(tensors: Mapping[str, torch.Tensor]) -> dict[str, bool]:
    """Return for each tensor whether all its numbers are finite; reads a GPU once."""
    if not tensors:
        return {}
    found = [tensor.isfinite().all() for tensor in tensors.values()]
    one_device = len({flag.device for flag in found}) == 1
    flags = torch.stack(found).cpu().tolist() if one_device else [bool(flag) for flag in found]
    return dict(zip(tensors, flags, strict=True))


def _are_on_one_gpu(tensors: Mapping[str, torch.Tensor]) -> bool:
    devices = {tensor.device for tensor in tensors.values()}
    return len(devices) == 1 and devices.pop().type != "cpu"


def _ends(tensors: Mapping[str, torch.Tensor]) -> list[int]:
    """Where each tensor but the last ends in their concatenation."""
    ends: list[int] = np.cumsum([tensor.numel() for tensor in tensors.values()])[:-1].tolist()
    return ends
