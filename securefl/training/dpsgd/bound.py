"""How one example's influence is bounded (Xiang et al. 2023, algorithm 1, lines 9 and 11)."""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np
import torch

from securefl.base.arrays import F64
from securefl.scenario import ClipEach, DpSgd, Normalise
from securefl.training.dpsgd.examples import Examples


def factors(bound: Normalise | ClipEach, squares: F64, errors: F64) -> F64:
    """What each vector is multiplied by: 1 / length, or min(1, norm / length); 0 for a vector of zeros.

    A length is taken for the largest that it may be, so that no result is longer than it should be. Without
    that, a carry that nearly cancels an example's gradient would leave a length that is mostly error, and
    its reciprocal no bound at all.

    Args:
        bound: which of the two.
        squares: squared lengths as computed, f64 ``(n,)``.
        errors: how far they may be off, f64 ``(n,)``.
    """
    lengths = np.sqrt(np.maximum(squares, 0) + errors)
    with np.errstate(divide="ignore"):
        match bound:
            case Normalise():
                return np.where(lengths > 0, 1 / lengths, 0.0)
            case ClipEach(norm=norm):
                return np.minimum(1.0, norm / lengths)
            case _:
                assert_never(bound)


class BoundedSum:
    """Minus the sum of one party's bounded gradients over the expected size of its batch.

    Args:
        dp: the bound, and how much the carry counts.
        batch: the expected size; the divisor, however many are drawn.
        carry: f64 ``(d,)``, or None for zeros.
        length: d.
        device: where gradients are.
    """

    def __init__(self, dp: DpSgd, batch: int, carry: F64 | None, length: int, device: torch.device) -> None:
        self._dp = dp
        self._batch = batch
        self._total = torch.zeros(length, dtype=torch.float64, device=device)
        self._carry = None
        self._carry_square = 0.0
        if carry is not None and dp.momentum:
            self._carry = torch.from_numpy(carry).to(device)
            self._carry_square = float(self._carry @ self._carry)
        # The error of an inner product of vectors u, v of d numbers is at most d 2^-53 |u| |v| but for terms
        # of a higher order (Higham 2002, section 3.1), and there are two roundings besides.
        self._error = (length + 4) * 2.0**-52

    def add(self, examples: Examples, rows: slice) -> None:
        """Bound the gradients in ``rows``, each mixed with the carry, and add them."""
        beta = self._dp.momentum
        squares = (1 - beta) ** 2 * examples.squares[rows]
        largest = squares
        if self._carry is not None:
            carried = beta**2 * self._carry_square
            largest = (np.sqrt(squares) + math.sqrt(carried)) ** 2
            squares = squares + carried + 2 * beta * (1 - beta) * examples.dots(self._carry, rows)
        share = factors(self._dp.bound, squares, self._error * largest)
        share /= -self._batch
        examples.add((1 - beta) * share, rows, self._total)
        if self._carry is not None:
            self._total.add_(self._carry, alpha=beta * float(share.sum()))

    def result(self) -> F64:
        """The update, f64 ``(d,)``: what is to be added to the parameters, times a learning rate."""
        update: F64 = self._total.cpu().numpy()
        return update
