"""Gradients of single examples in compact form.

Lengths, products with a vector and weighted sums are computed in double precision from the same numbers, so
lengths match the summed gradients up to 1e-12.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from securefl.base.arrays import F64, BoolArray

Losses = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Function from scores and labels of n examples to their losses (n,), each of its own example alone."""


class ExampleBlock(Protocol):
    """Gradients of n examples for one range of the parameter vector."""

    @property
    def start(self) -> int:
        """First index of the range."""
        ...

    @property
    def size(self) -> int:
        """Length of the range."""
        ...

    def squares(self) -> torch.Tensor:
        """Return the squared lengths, f64 (n,)."""
        ...

    def dots(self, other: torch.Tensor, rows: slice) -> torch.Tensor:
        """Return the products with ``other``, f64 (size,), of the examples in ``rows``: f64 (k,)."""
        ...

    def add(self, factors: torch.Tensor, rows: slice, total: torch.Tensor) -> None:
        """Add the examples in ``rows``, times ``factors`` f64 (k,), to ``total`` f64 (size,)."""
        ...

    def forget(self, which: torch.Tensor) -> None:
        """Set the examples of a mask, bool (n,), to zero."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class OuterProducts:
    """Dense layer: gradients are slope times input, never materialised."""

    start: int
    inputs: torch.Tensor
    """f64 (n, i)."""
    slopes: torch.Tensor
    """Slopes of the loss by the layer's outputs, f64 (n, o)."""
    bias: bool
    """True if a bias follows the weights (o, i)."""

    @property
    def size(self) -> int:
        """Length of the range."""
        return self._weights + self.slopes.shape[1] * self.bias

    @property
    def _weights(self) -> int:
        return self.inputs.shape[1] * self.slopes.shape[1]

    def squares(self) -> torch.Tensor:
        """Return |slope|^2 (|input|^2 + 1), where 1 stands for the bias."""
        lengths = _squares(self.inputs)
        return (lengths + 1 if self.bias else lengths) * _squares(self.slopes)

    def dots(self, other: torch.Tensor, rows: slice) -> torch.Tensor:
        """Return products of examples with a vector."""
        inputs, slopes = self.inputs[rows], self.slopes[rows]
        weight = other[: self._weights].view(slopes.shape[1], inputs.shape[1])
        images = inputs @ weight.T
        if self.bias:
            images += other[self._weights :]
        return (images * slopes).sum(dim=1)

    def add(self, factors: torch.Tensor, rows: slice, total: torch.Tensor) -> None:
        """Add weighted examples to ``total`` by one matrix product."""
        inputs, slopes = self.inputs[rows], self.slopes[rows] * factors[:, None]
        total[: self._weights].view(slopes.shape[1], inputs.shape[1]).addmm_(slopes.T, inputs)
        if self.bias:
            total[self._weights :] += slopes.sum(dim=0)

    def forget(self, which: torch.Tensor) -> None:
        """Set examples to zero."""
        self.inputs[which] = 0
        self.slopes[which] = 0


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Any layer, with one row for each example."""

    start: int
    rows: torch.Tensor
    """f64 (n, size)."""

    @property
    def size(self) -> int:
        """Length of the range."""
        return self.rows.shape[1]

    def squares(self) -> torch.Tensor:
        """Return the squared lengths."""
        return _squares(self.rows)

    def dots(self, other: torch.Tensor, rows: slice) -> torch.Tensor:
        """Return products of examples with a vector."""
        return self.rows[rows] @ other

    def add(self, factors: torch.Tensor, rows: slice, total: torch.Tensor) -> None:
        """Add weighted examples to ``total``."""
        total += factors @ self.rows[rows]

    def forget(self, which: torch.Tensor) -> None:
        """Set examples to zero."""
        self.rows[which] = 0


def _squares(rows: torch.Tensor) -> torch.Tensor:
    squares: torch.Tensor = torch.linalg.vecdot(rows, rows)
    return squares


class Examples:
    """Gradients of n examples; a gradient that is not finite counts as zero.

    A failure would reveal a record on which the gradient overflows, which the sender of the model can choose.
    """

    def __init__(self, blocks: Sequence[ExampleBlock]) -> None:
        self._blocks = blocks
        lengths = torch.stack([block.squares() for block in blocks]).sum(dim=0)
        self._device = lengths.device
        squares: F64 = lengths.cpu().numpy()
        lost = ~np.isfinite(squares)
        self.squares = squares
        """Squared lengths, f64 (n,), finite."""
        if lost.any():
            self.forget(lost)

    def forget(self, which: BoolArray) -> None:
        """Set the gradients of a mask, bool (n,), to zero."""
        for block in self._blocks:
            block.forget(torch.from_numpy(which).to(self._device))
        self.squares[which] = 0

    def dots(self, other: torch.Tensor, rows: slice) -> torch.Tensor:
        """Return the products of the gradients in ``rows`` with ``other``, f64 (d,): f64 (k,)."""
        parts = [block.dots(other[block.start : block.start + block.size], rows) for block in self._blocks]
        return torch.stack(parts).sum(dim=0)

    def add(self, factors: torch.Tensor, rows: slice, total: torch.Tensor) -> None:
        """Add the gradients in ``rows``, times ``factors`` f64 (k,), to ``total`` f64 (d,)."""
        for block in self._blocks:
            block.add(factors, rows, total[block.start : block.start + block.size])


def example_losses(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of each example, f32 (n,), a text's mean over positions."""
    losses = cross_entropy(scores, labels, reduction="none")
    return losses if losses.dim() == 1 else losses.flatten(1).mean(dim=1)
