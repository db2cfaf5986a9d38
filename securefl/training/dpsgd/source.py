"""Sources of examples for a step of DP-SGD: samples in memory, or a torch dataset."""

from collections.abc import Mapping, Sized
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import torch
from torch.utils.data import default_collate

from securefl.base import foreign
from securefl.base.arrays import I64, BoolArray
from securefl.base.errors import ConfigError
from securefl.training import data
from securefl.training.dpsgd import examples

_TRIES: Final = 100
"""Items to try for one that collates to a batch."""


class TakenExamples(NamedTuple):
    """Examples of a batch. A missing example must not affect the rest of its batch, which would reveal it."""

    samples: torch.Tensor
    """(n, ...)."""
    labels: torch.Tensor
    """(n, ...)."""
    there: BoolArray | None = None
    """Mask of the rows that are examples; None: all are."""
    odd: Mapping[int, tuple[torch.Tensor, torch.Tensor]] = MappingProxyType({})
    """Rows of another shape or dtype, by index, (1, ...) each, to be processed alone."""


class ExampleSource(Protocol):
    """Examples by number, on the computing device."""

    losses: examples.Losses
    device: torch.device

    def public(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a sample (1, ...) and a label (1, ...) that do not depend on the data's values."""
        ...

    def take(self, x: I64, y: I64) -> TakenExamples:
        """Return samples and labels by their numbers, i64 (n,) each."""
        ...


class PoolSource:
    """Samples of a pool, of shape ``input_shape`` each, with cross-entropy losses."""

    def __init__(self, pool: data.SamplePool, input_shape: tuple[int, ...]) -> None:
        self.losses: examples.Losses = examples.example_losses
        self.device = pool.x.device
        self._pool, self._shape = pool, input_shape

    def public(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ones, or token 0 for a text."""
        numbers = self._pool.x.is_floating_point()
        sample = (
            torch.ones(1, *self._shape, device=self.device)
            if numbers
            else torch.zeros(1, *self._shape, dtype=torch.int64, device=self.device)
        )
        return sample, torch.zeros_like(self._pool.y[:1])

    def take(self, x: I64, y: I64) -> TakenExamples:
        """Return samples of the pool."""
        rows, labels = torch.from_numpy(x), torch.from_numpy(y)
        samples = self._pool.x[rows.to(self.device)].view(-1, *self._shape)
        return TakenExamples(samples, self._pool.y[labels.to(self.device)])


class DatasetSource:
    """Examples of a map-style ``torch.utils.data.Dataset`` of pairs (input, target), with its own loss.

    Args:
        dataset: with a length and items by number.
        loss: mean loss of a batch's outputs and targets. It is called with one example at a time, so that no
            example's loss can depend on another.
        device: for the computation.

    Raises:
        ConfigError: it has no length, no items by number, or items that are not pairs of tensors or numbers.
    """

    def __init__(self, dataset: Any, loss: Any, device: torch.device) -> None:
        self.losses: examples.Losses = lambda scores, labels: torch.stack(
            [loss(scores[one : one + 1], labels[one : one + 1]) for one in range(len(scores))]
        )
        self.device = device
        self._dataset = dataset
        if not isinstance(dataset, Sized) or not hasattr(dataset, "__getitem__") or not len(dataset):
            reason = f"{type(dataset).__name__} cannot be indexed, which drawing of batches needs"
            raise ConfigError("TorchSite", reason, "pass a map-style dataset, with __len__ and __getitem__")
        self._public = self._usual()

    def public(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ones, or zeros for integers, which are valid tokens."""
        sample, label = self._template()
        return sample.to(self.device), label.to(self.device)

    def take(self, x: I64, y: I64) -> TakenExamples:
        """Return items of the dataset; an example's sample and label have one number.

        Items of other shapes and dtypes than the first count, too.
        """
        del y
        sample, label = self._template()
        samples, labels = sample.repeat_interleave(len(x), 0), label.repeat_interleave(len(x), 0)
        there, odd = np.zeros(len(x), dtype=bool), {}
        for at, row in enumerate(x.tolist()):
            try:
                one, target = self._collate([row])
            except BaseException as error:  # of any class: see DpStep
                foreign.pass_interrupt(error)
                continue
            if _alike(one, sample) and _alike(target, label):
                samples[at], labels[at], there[at] = one[0], target[0], True
            else:
                odd[at] = (one.to(self.device), target.to(self.device))
        # One transfer is faster than one for each example.
        return TakenExamples(samples.to(self.device), labels.to(self.device), there, odd)

    def _template(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a public sample and label on the dataset's device."""
        x, y = self._public
        return torch.ones_like(x) if x.is_floating_point() else torch.zeros_like(x), torch.zeros_like(y)

    def _usual(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the first item that collates to a batch."""
        first: BaseException | None = None
        for row in range(min(len(self._dataset), _TRIES)):
            try:
                return self._collate([row])
            except BaseException as error:
                foreign.pass_interrupt(error)
                first = first or error
        reason = f"the first items of the dataset make no batch: {type(first).__name__}: {first}"
        raise ConfigError(
            "TorchSite", reason, "return items (input, target) of tensors or numbers"
        ) from first

    def _collate(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = default_collate([self._dataset[row] for row in rows])
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            raise TypeError(f"an item collates to {type(x).__name__} and {type(y).__name__}, not to tensors")
        return x, y


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype
