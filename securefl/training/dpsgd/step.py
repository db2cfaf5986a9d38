"""One step of DP-SGD at one party or many, all from the same parameters (docs/dataflow.md, steps 1 to 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
import torch

from securefl.base.arrays import F32, F64, I64, expect
from securefl.base.errors import UsageError
from securefl.base.foreign import pass_interrupt
from securefl.scenario import DpSgd
from securefl.training.dpsgd.bounded import BoundedSums, PartyRows
from securefl.training.dpsgd.examples import Examples
from securefl.training.dpsgd.source import ExampleSource
from securefl.training.dpsgd.ways import way_for
from securefl.training.models import dimension, load_vector, pass_bytes, seeded
from securefl.training.sgd import TrainingDivergedError

_CPU_PASS_BYTES: Final = 64 << 20
"""Memory of the examples of one pass on a CPU. More examples share the overhead of Python and small
operations."""

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
        each = 4 * self.way.floats_each(sample)
        self.chunk = max(1, pass_bytes(source.device, _CPU_PASS_BYTES) // each)
        """Examples of one pass."""

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
        sums = BoundedSums(
            self._dp,
            self._batch,
            [self._checked(party.carry) for party in parties],
            self._length,
            self._source.device,
        )
        x, y = (np.concatenate([party[i] for party in parties]) for i in (0, 1))
        bounds = list(pairwise([0, *accumulate(len(party.x) for party in parties)]))
        for first in range(0, len(x), self.chunk):
            last = min(first + self.chunk, len(x))
            for examples, begun, ended in self._examples(x[first:last], y[first:last]):
                with torch.inference_mode():
                    sums.add(examples, _spans(bounds, first + begun, first + ended))
        return sums.results()

    def _examples(self, x: I64, y: I64) -> Iterator[tuple[Examples, int, int]]:
        """Gradients of examples, and the first one's place and that behind the last.

        One on which data set, model or loss raise an exception of any class counts as zero. To let it end the
        update would make that depend on one example by its whole length; some classes would even end the
        party, or stop its rounds.
        """
        samples, labels, there, odd = self._source.take(x, y)
        there = np.ones(len(x), dtype=bool) if there is None else there
        singles = dict(odd)
        try:
            # Copies: what a model did in place before one raised would be done to all others twice.
            examples = self.way.examples(samples.clone(), labels.clone())
        except BaseException as error:
            pass_interrupt(error)
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
            except BaseException as error:
                pass_interrupt(error)
                self.failed += 1
            else:
                yield alone, one, one + 1

    def _checked(self, carry: F64 | None) -> F64 | None:
        if carry is not None:
            expect(carry, "carry", np.float64, (self._length,))
            if self._dp.carry == "off":
                raise UsageError("a carry, but training.dp_sgd.carry is off")
            # Its square has to be finite, and not only just.
            if not -_LARGEST < carry.min() <= carry.max() < _LARGEST:
                raise UsageError("the carry has a coordinate that is not finite, or nearly so")
        return carry


def _spans(bounds: Sequence[tuple[int, int]], begun: int, ended: int) -> list[PartyRows]:
    """Return each party's rows of a block that holds the examples ``begun`` to ``ended`` of all."""
    return [
        PartyRows(party, slice(max(start, begun) - begun, min(end, ended) - begun))
        for party, (start, end) in enumerate(bounds)
        if max(start, begun) < min(end, ended)
    ]
