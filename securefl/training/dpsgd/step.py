"""One step of DP-SGD at one party or many, all from the same parameters (docs/dataflow.md, steps 1 to 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, assert_never

import numpy as np
import torch

from securefl.base.arrays import F32, F64, I64, expect
from securefl.base.errors import UsageError
from securefl.scenario import ClipEach, DpSgd, Normalise
from securefl.training.dpsgd.examples import Examples
from securefl.training.dpsgd.source import RAISED, ExampleSource
from securefl.training.dpsgd.ways import way_for
from securefl.training.models import dimension, load_vector, seeded
from securefl.training.sgd import TrainingDivergedError


def factors(bound: Normalise | ClipEach, squares: F64, errors: F64) -> F64:
    """The factor of each vector: 1 / length, or min(1, norm / length); 0 for a vector of zeros.

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


_CHUNK_BYTES: Final = {"cpu": 64 << 20, "cuda": 1 << 30}
"""Of what is kept for the examples of one pass. More examples share what Python and small operations take."""


_LARGEST: Final = 2.0**64
"""The square root of the largest number in single precision."""


class DrawnBatch(NamedTuple):
    """One party's batch, and its carry."""

    x: I64
    """Rows of the pool, i64 (k,), k >= 0."""
    y: I64
    """Indices of the pool's labels, i64 (k,)."""
    carry: F64 | None
    """f64 (d,), or None for zeros."""


class DpStep:
    """Bounded sums of per-example gradients.

    Args:
        module: overwritten by :meth:`load`; others may take turns with it.
        source: of examples, on the device that computes.
        batch: b_c, the expected size of a batch.
        dp: the bound and the momentum.

    Raises:
        ConfigError: the model has no per-example gradients (:func:`securefl.training.dpsgd.ways.way_for`).
    """

    def __init__(self, module: torch.nn.Module, source: ExampleSource, batch: int, dp: DpSgd) -> None:
        self._module = module.to(source.device)
        self._source = source
        self._batch = batch
        self._dp = dp
        self._length = dimension(module)
        self.failed = 0
        """Examples of the last updates that raised, and count as zero."""
        sample, label = source.public()
        self._module.train()
        with seeded(0, source.device):
            self.way = way_for(self._module, sample, label, source.losses)
        """How gradients are computed."""
        self._chunk = max(1, _CHUNK_BYTES[source.device.type] // (4 * self.way.floats_each(sample)))

    def load(self, params: F32) -> None:
        """Make the next updates start from ``params``, f32 ``(d,)``.

        Raises:
            TrainingDivergedError: a parameter is not finite, or so large that the product of two is not.
                Whether a party answers must not depend on its records, so their gradients are not asked.
            UsageError: ``params`` has the wrong dtype or length.
        """
        load_vector(self._module, params)
        self._module.train()
        if not -_LARGEST < params.min() <= params.max() < _LARGEST:
            raise TrainingDivergedError(
                "the model's parameters are no longer finite numbers, or nearly so;"
                " lower server_optimiser.learning_rate"
            )

    def updates(self, parties: Sequence[DrawnBatch]) -> list[F64]:
        """Each party's update, f64 ``(d,)``, in their order.

        Which parties share a call may change the last bits of the gradients, in single precision.

        Raises:
            UsageError: a carry that is not finite, has the wrong dtype or shape, or is not configured.
        """
        self.failed = 0
        sums = [self._sum(party.carry) for party in parties]
        x, y = (np.concatenate([party[i] for party in parties]) for i in (0, 1))
        bounds = list(pairwise([0, *accumulate(len(party.x) for party in parties)]))
        for first in range(0, len(x), self._chunk):
            last = min(first + self._chunk, len(x))
            for examples, begun, ended in self._examples(x[first:last], y[first:last]):
                with torch.inference_mode():
                    for bounded, (start, end) in zip(sums, bounds, strict=True):
                        low, high = max(start, first + begun), min(end, first + ended)
                        if low < high:
                            bounded.add(examples, slice(low - first - begun, high - first - begun))
        return [bounded.result() for bounded in sums]

    def _examples(self, x: I64, y: I64) -> Iterator[tuple[Examples, int, int]]:
        """Gradients of examples, and the first one's place and that behind the last.

        One on which data set, model or loss raise counts as zero. To let it end the update would make that
        depend on one example by its whole length.
        """
        samples, labels, there, odd = self._source.take(x, y)
        there = np.ones(len(x), dtype=bool) if there is None else there
        singles = dict(odd)
        try:
            # Copies: what a model did in place before one raised would be done to all others twice.
            examples = self.way.examples(samples.clone(), labels.clone())
        except RAISED:
            singles |= {
                one: (samples[one : one + 1], labels[one : one + 1]) for one in np.flatnonzero(there).tolist()
            }
        else:
            if not there.all():
                with torch.inference_mode():
                    examples.forget(~there)
            yield examples, 0, len(x)
        self.failed += int(np.count_nonzero(~there)) - len(odd)
        for one, (sample, label) in singles.items():
            try:
                alone = self.way.examples(sample, label)
            except RAISED:
                self.failed += 1
            else:
                yield alone, one, one + 1

    def _sum(self, carry: F64 | None) -> BoundedSum:
        if carry is not None:
            expect(carry, "carry", np.float64, (self._length,))
            if self._dp.carry == "off":
                raise UsageError("a carry, but training.dp_sgd.carry is off")
            # Its square has to be finite, and not only just.
            if not -_LARGEST < carry.min() <= carry.max() < _LARGEST:
                raise UsageError("the carry has a coordinate that is not finite, or nearly so")
        return BoundedSum(self._dp, self._batch, carry, self._length, self._source.device)
