"""Sums of bounded per-example gradients (docs/dataflow.md, step 2)."""

import math
from collections.abc import Sequence
from typing import NamedTuple, assert_never

import numpy as np
import torch

from securefl import scenario
from securefl.base.arrays import F64, BoolArray
from securefl.training.dpsgd.examples import Examples


def factors(bound: scenario.Normalise | scenario.ClipEach, squares: F64, errors: F64) -> F64:
    """Return the factor of each vector: 1 / length, or min(1, norm / length); 0 for a vector of zeros.

    From squared lengths and bounds on their errors, f64 ``(n,)`` each. The length is the largest that the
    error allows, so that no result exceeds the bound: a carry may nearly cancel a gradient.
    """
    lengths = np.sqrt(np.maximum(squares, 0) + errors)
    with np.errstate(divide="ignore"):
        match bound:
            case scenario.Normalise():
                return np.where(lengths > 0, 1 / lengths, 0.0)
            case scenario.ClipEach(norm=norm):
                return np.minimum(1.0, norm / lengths)
            case _:
                assert_never(bound)


class PartyRows(NamedTuple):
    """Rows of one party in a block of examples."""

    party: int
    rows: slice
    present: BoolArray | None = None
    """Mask of the rows that hold an example; None if all do."""


class BoundedSums:
    """Minus the sum of each party's bounded gradients over the expected size of its batch.

    Args:
        dp: the bound, and the weight of a carry.
        batch: expected size; the divisor, however many examples are drawn.
        carries: of each party, f64 ``(d,)``, or None for zeros.
        length: d.
        device: of the gradients; one read of it returns the lengths for all parties of a block.
    """

    def __init__(
        self, dp: scenario.DpSgd, batch: int, carries: Sequence[F64 | None], length: int, device: torch.device
    ) -> None:
        self._dp = dp
        self._batch = batch
        self._totals = torch.zeros(len(carries), length, dtype=torch.float64, device=device)
        self._carries = {
            party: torch.from_numpy(carry).to(device)
            for party, carry in enumerate(carries)
            if carry is not None and dp.momentum
        }
        squares = [carry @ carry for carry in self._carries.values()]
        found = torch.stack(squares).cpu().tolist() if squares else []
        self._carry_squares: dict[int, float] = dict(zip(self._carries, found, strict=True))
        # The error of an inner product of vectors u, v of d numbers is at most d 2^-53 |u| |v|, up to terms
        # of a higher order (Higham 2002, section 3.1), plus two roundings.
        self._error = (length + 4) * 2.0**-52

    def add(self, examples: Examples, spans: Sequence[PartyRows]) -> None:
        """Bound the gradients of each span, mixed with its party's carry, and add them."""
        beta = self._dp.momentum
        dots = self._dots(examples, spans)
        shares = [self._shares(examples.squares[span.rows], span, dots.get(span.party)) for span in spans]
        there = torch.from_numpy((1 - beta) * np.concatenate(shares)).to(self._totals.device)
        pieces = torch.split(there, [len(share) for share in shares])
        for (party, rows, _), share, piece in zip(spans, shares, pieces, strict=True):
            examples.add(piece, rows, self._totals[party])
            if party in self._carries:
                self._totals[party].add_(self._carries[party], alpha=beta * float(share.sum()))

    def results(self) -> list[F64]:
        """Return the updates, f64 ``(d,)`` each: directions of descent."""
        return list(self._totals.cpu().numpy())

    def _dots(self, examples: Examples, spans: Sequence[PartyRows]) -> dict[int, F64]:
        """Return the products of each span's gradients with its carry, by party."""
        mixed = [(party, rows) for party, rows, _ in spans if party in self._carries]
        if not mixed:
            return {}
        products = [examples.dots(self._carries[party], rows) for party, rows in mixed]
        found: F64 = torch.cat(products).cpu().numpy()
        ends = np.cumsum([len(product) for product in products])[:-1]
        return {party: part for (party, _), part in zip(mixed, np.split(found, ends), strict=True)}

    def _shares(self, squares: F64, span: PartyRows, dots: F64 | None) -> F64:
        """Return minus the factors of one party's examples over the batch size; 0 for a hole."""
        beta = self._dp.momentum
        squares = (1 - beta) ** 2 * squares
        largest = squares
        if dots is not None:
            carried = beta**2 * self._carry_squares[span.party]
            largest = (np.sqrt(squares) + math.sqrt(carried)) ** 2
            squares = squares + carried + 2 * beta * (1 - beta) * dots
        shares = factors(self._dp.bound, squares, self._error * largest) / -self._batch
        return shares if span.present is None else np.where(span.present, shares, 0.0)
