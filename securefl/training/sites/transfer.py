"""Named arrays to and from a device; steps of DP-SGD at a site."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError
from securefl.training import dpsgd, models
from securefl.training.sites.layout import SiteError
from securefl.training.sites.site import Arrays


def read_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Return copies of the tensors as arrays of their shapes: f64 of f64, f32 of f32 and half precision.

    Tensors of one GPU are copied at once.
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
    """Overwrite each tensor with the array of its name and shape, rounded to the tensor's dtype.

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
                # This also takes read-only arrays, which from_numpy does not accept.
                np.copyto(tensor.detach().numpy(), arrays[name])
            else:
                tensor.copy_(torch.from_numpy(np.array(arrays[name])))


def _check_fits(name: str, dtype: torch.dtype, array: Any) -> None:
    largest = float(np.abs(array).max(initial=0.0))
    if torch.finfo(dtype).max < largest < np.inf:
        kind = str(dtype).removeprefix("torch.")
        raise SiteError(f"{name} came with {largest:.4g}, beyond the range of {kind}")


def all_finite(tensors: Mapping[str, torch.Tensor]) -> dict[str, bool]:
    """Return for each tensor True if all its numbers are finite; reads a GPU once."""
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
    """Return the end of each tensor but the last in their concatenation."""
    ends: list[int] = np.cumsum([tensor.numel() for tensor in tensors.values()])[:-1].tolist()
    return ends


class RecordSteps:
    """One step a round on bounded gradients of single examples, like ``DpSgdTrainer`` on a shard.

    Args:
        model: each call overwrites it.
        dataset: map-style; each item is a record (input, target).
        loss: called with one example at a time.
        batch: expected size of a batch.

    Raises:
        ConfigError: fewer records than a batch, no examples by number, or a model that mixes them.
    """

    def __init__(
        self, model: nn.Module, dataset: Any, loss: Any, batch: int, dp: scenario.DpSgd, device: torch.device
    ) -> None:
        self._dp, self._batch, self._device = dp, batch, device
        source = dpsgd.DatasetSource(dataset, loss, device)
        self._records = len(dataset)
        dpsgd.check_batch(batch, self._records)
        self._step = dpsgd.DpStep(model, source, batch, dp)
        self._shapes = {
            name: tuple(weight.shape) for name, weight in models.trained_parameters(model).items()
        }

    @property
    def failed(self) -> int:
        """Examples of the last batch on which data set, model or loss raised an exception."""
        return self._step.failed

    def step(
        self, parameters: Mapping[str, F32], carry: Mapping[str, F64] | None, entropy: Entropy
    ) -> dict[str, F64]:
        """Return minus the sum of bounded gradients over the expected size of the batch, by parameter.

        ``carry`` starts per-example momentum; None for zeros. Values drawn from ``entropy`` must stay secret.

        Raises:
            TrainingDivergedError: training has diverged at the parameters, independently of the records.
        """
        rows = dpsgd.draw_batch(self._dp.sampler, self._records, self._batch, dpsgd.batch_entropy(entropy))
        with models.seed_torch(int.from_bytes(entropy.child("module").draw(8), "big"), self._device):
            self._step.load(self._vector(parameters).astype(np.float32))
            carried = None if carry is None else self._vector(carry).astype(np.float64)
            slots = dpsgd.draw_slots(self._step.slots, len(rows), dpsgd.slot_entropy(entropy))
            update = self._step.update(dpsgd.DrawnBatch(rows, rows, carried), slots)
        return self._named_arrays(update)

    def _vector(self, arrays: Mapping[str, Any]) -> Any:
        """Return a vector in the order of the model's parameters, not of the federation's."""
        return np.concatenate([np.ravel(arrays[name]) for name in self._shapes])

    def _named_arrays(self, vector: F64) -> dict[str, F64]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes.values()])
        parts = np.split(vector, ends[:-1])
        return {
            name: part.reshape(shape) for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }


def record_steps(site: object, batch: int, dp: scenario.DpSgd) -> RecordSteps:
    """Return the steps of a site with record-level privacy.

    Raises:
        ConfigError: the site has its own training.
    """
    make = getattr(site, "record_steps", None)
    if make is None:
        raise ConfigError(
            "--site",
            f"{type(site).__name__} has its own training loop, and privacy of records needs bounded "
            "gradients",
            'use securefl.TorchSite without train=, or set privacy.unit = "party"',
        )
    steps: RecordSteps = make(batch, dp)
    return steps
