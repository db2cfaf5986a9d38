"""One step of DP-SGD at one party or many, from the same parameters (docs/dataflow.md, steps 1 to 3).

The kernel of a matrix product, and so an example's last bits, depend on the number of rows and on its row. In
a *fixed* pass neither depends on the other examples. Each tensor has the same number of rows, each example a
randomly drawn row, and each hole a public sample.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
import torch

from securefl import scenario
from securefl.base import foreign
from securefl.base.arrays import F32, F64, I64, BoolArray, expect
from securefl.base.errors import UsageError
from securefl.methods import privacy
from securefl.training import models, sgd
from securefl.training.dpsgd.bounded import BoundedSums, PartyRows
from securefl.training.dpsgd.examples import Examples
from securefl.training.dpsgd.source import ExampleSource
from securefl.training.dpsgd.ways import way_for


class Pass(NamedTuple):
    """Examples of one tensor."""

    picks: I64
    """Positions of the examples in the batch, i64 (k,), k >= 1."""
    places: I64
    """Row of each example, i64 (k,), all different."""
    rows: int
    """Number of rows of the tensor, at least k."""

    def present(self, there: BoolArray) -> BoolArray:
        """Return a mask of the rows that count, bool ``(rows,)``: those of the examples in ``there``."""
        mask = np.zeros(self.rows, dtype=bool)
        mask[self.places[there]] = True
        return mask


def dense_passes(examples: int, rows: int) -> list[Pass]:
    """Return passes without holes, in the order of the batch; the last one may be smaller."""
    bounds = [(first, min(first + rows, examples)) for first in range(0, examples, rows)]
    return [Pass(np.arange(first, last), np.arange(last - first), last - first) for first, last in bounds]


def fixed_passes(slots: I64, rows: int) -> list[Pass]:
    """Return passes of ``rows`` >= 1 rows each, with the example of slot s in row s mod ``rows``.

    ``slots`` are those of the batch's examples, i64 ``(k,)``. Examples of one row are in successive passes:
    the pass of an example depends on the others, its row does not.
    """
    places = slots % rows
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], places[order], side="left")
    passes = np.empty_like(places)
    passes[order] = np.arange(len(places)) - starts
    count = int(passes.max(initial=-1)) + 1
    members = [np.flatnonzero(passes == number) for number in range(count)]
    return [Pass(picks, places[picks], rows) for picks in members]


_CPU_PASS_BYTES: Final = 64 << 20
"""Memory of the examples of one pass on a CPU."""

_CPU_FIXED_BYTES: Final = 8 << 20
"""The same with holes, each of which takes as long as an example."""

_LARGEST: Final = 2.0**64
"""Square root of the largest number in single precision."""


class DrawnBatch(NamedTuple):
    """One party's batch and its carry."""

    x: I64
    """Rows of the pool, i64 (k,), k >= 0."""
    y: I64
    """Indices of the pool's labels, i64 (k,)."""
    carry: F64 | None
    """f64 (d,), or None for zeros."""


class _Computed(NamedTuple):
    """Gradients of one pass."""

    examples: Examples
    picks: I64
    """Positions in the batch."""
    present: BoolArray
    """Mask of the rows that hold an example."""


class DpStep:
    """Bounded sums of per-example gradients.

    Args:
        module: overwritten by :meth:`load`; others may use it in turn.
        batch: b_c, the expected size of a batch.

    Raises:
        ConfigError: the model has no per-example gradients (:func:`securefl.training.dpsgd.ways.way_for`).
    """

    def __init__(
        self, module: torch.nn.Module, source: ExampleSource, batch: int, dp: scenario.DpSgd
    ) -> None:
        self._module = module.to(source.device)
        self._source = source
        self._batch = batch
        self._dp = dp
        self._length = models.dimension(module)
        self.failed = 0
        """Examples of the last updates that raised an exception, and count as zero."""
        sample, label = source.public()
        self._module.train()
        with models.seed_torch(0, source.device):
            self.way = way_for(self._module, sample, label, source.losses)
        """Way of computing gradients."""
        each = 4 * self.way.floats_each(sample)
        self.chunk = max(1, models.pass_bytes(source.device, _CPU_PASS_BYTES) // each)
        """Examples of one pass without holes."""
        self.slots = privacy.batch_capacity(dp.sampler, batch)
        """Slots of a batch; larger batches are rarer than the accounting must allow for."""
        self.rows = self._rows_of(sample)
        """Rows of a fixed pass."""

    def load(self, params: F32) -> None:
        """Set the parameters of the next updates to ``params``, f32 ``(d,)``.

        Raises:
            TrainingDivergedError: a parameter is not finite, or the product of two is not. The reply of a
                party must not depend on its records.
            UsageError: ``params`` does not fit.
        """
        models.load_vector(self._module, params)
        self._module.train()
        if not -_LARGEST < params.min() <= params.max() < _LARGEST:
            raise sgd.TrainingDivergedError(
                "the model's parameters are no longer finite numbers, or nearly so;"
                " lower server_optimiser.learning_rate"
            )

    def update(self, batch: DrawnBatch, slots: I64) -> F64:
        """Return one party's update, f64 ``(d,)``; no gradient depends on the other examples of the batch.

        The slot of an example (:func:`securefl.training.dpsgd.draw_slots`) determines its row in tensors of
        ``rows`` rows. Without one example, and with the same slots for the others, their gradients are the
        same to the last bit.

        Raises:
            UsageError: as for :meth:`updates`, or the numbers of slots and examples differ.
        """
        if len(slots) != len(batch.x):
            raise UsageError(f"slots must have one entry per example, {len(batch.x)}, found {len(slots)}")
        sums = self._sums([batch])
        for each in fixed_passes(slots, self.rows):
            for computed in self._compute_gradients(batch.x, batch.y, each, slots):
                rows = PartyRows(0, slice(0, len(computed.present)), computed.present)
                with torch.inference_mode():
                    sums.add(computed.examples, [rows])
        (update,) = sums.results()
        return update

    def updates(self, parties: Sequence[DrawnBatch]) -> list[F64]:
        """Return the update of each party of a simulation, f64 ``(d,)``, in their order.

        Other examples of a call may change the last bits of a gradient, in single precision.

        Raises:
            UsageError: a carry is not finite, has the wrong dtype or shape, or is not configured.
        """
        sums = self._sums(parties)
        x, y = (np.concatenate([party[i] for party in parties]) for i in (0, 1))
        bounds = list(pairwise([0, *accumulate(len(party.x) for party in parties)]))
        for each in dense_passes(len(x), self.chunk):
            for computed in self._compute_gradients(x, y, each, None):
                with torch.inference_mode():
                    sums.add(computed.examples, _spans(bounds, int(computed.picks[0]), computed.present))
        return sums.results()

    def _sums(self, parties: Sequence[DrawnBatch]) -> BoundedSums:
        self.failed = 0
        carries = [self._check_carry(party.carry) for party in parties]
        return BoundedSums(self._dp, self._batch, carries, self._length, self._source.device)

    def _compute_gradients(self, x: I64, y: I64, each: Pass, slots: I64 | None) -> Iterator[_Computed]:
        """Yield the gradients of one pass; ``slots`` is None for a pass without holes.

        ``x``, ``y`` and ``slots`` are of the whole batch. An example counts as zero if data set, model or
        loss raise any exception: it must not end the update, the party or its rounds.
        """
        samples, labels, there, odd = self._source.take(x[each.picks], y[each.picks])
        there = np.ones(len(each.picks), dtype=bool) if there is None else there
        singles = dict(odd)
        present = each.present(there)
        try:
            # Copies are safe from in-place changes before an exception.
            examples = self.way.examples(*self._place_examples(samples, labels, each), present)
        except BaseException as error:
            foreign.pass_interrupt(error)
            singles |= {
                one: (samples[one : one + 1], labels[one : one + 1]) for one in np.flatnonzero(there).tolist()
            }
        else:
            yield _Computed(examples, each.picks, present)
        self.failed += int(np.count_nonzero(~there)) - len(odd)
        for one, (sample, label) in singles.items():
            slot = None if slots is None else int(slots[each.picks[one]])
            try:
                examples, present = self._alone(sample, label, slot)
            except BaseException as error:
                foreign.pass_interrupt(error)
                self.failed += 1
            else:
                yield _Computed(examples, each.picks[one : one + 1], present)

    def _place_examples(
        self, samples: torch.Tensor, labels: torch.Tensor, each: Pass
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return new tensors with a pass's examples in their rows, and a public example in each hole."""
        x = samples.new_empty(each.rows, *samples.shape[1:])
        y = labels.new_empty(each.rows, *labels.shape[1:])
        if len(each.picks) < each.rows:
            x.copy_(_filler(samples[:1]))
            y.zero_()
        places = torch.from_numpy(each.places).to(samples.device)
        return x.index_copy_(0, places, samples), y.index_copy_(0, places, labels)

    def _alone(
        self, sample: torch.Tensor, label: torch.Tensor, slot: int | None
    ) -> tuple[Examples, BoolArray]:
        """Return the gradient of one example, with holes in place of others."""
        rows = 1 if slot is None else self._rows_of(_filler(sample))
        place = np.array([0 if slot is None else slot % rows])
        each = Pass(np.zeros(1, dtype=np.int64), place, rows)
        present = each.present(np.ones(1, dtype=bool))
        return self.way.examples(*self._place_examples(sample, label, each), present), present

    def _rows_of(self, sample: torch.Tensor) -> int:
        """Return the rows of fixed passes of samples like ``sample``, (1, ...)."""
        each = 4 * self.way.floats_each(sample)
        return max(1, min(self.slots, models.pass_bytes(self._source.device, _CPU_FIXED_BYTES) // each))

    def _check_carry(self, carry: F64 | None) -> F64 | None:
        if carry is not None:
            expect(carry, "carry", np.float64, (self._length,))
            if self._dp.carry == "off":
                raise UsageError('carry must be None when training.dp_sgd.carry is "off"')
            # Its square has to be finite, with a margin.
            if not -_LARGEST < carry.min() <= carry.max() < _LARGEST:
                raise UsageError(
                    f"carry must be finite and below {_LARGEST:.1g} in each coordinate; found a larger one,"
                    " NaN or infinity"
                )
        return carry


def _filler(sample: torch.Tensor) -> torch.Tensor:
    """Return a sample for holes: ones, or zeros for integers."""
    return torch.ones_like(sample) if sample.is_floating_point() else torch.zeros_like(sample)


def _spans(bounds: Sequence[tuple[int, int]], begun: int, present: BoolArray) -> list[PartyRows]:
    """Return each party's present rows in a tensor with the examples from ``begun`` on."""
    ended = begun + len(present)
    spans = [
        (party, slice(max(start, begun) - begun, min(end, ended) - begun))
        for party, (start, end) in enumerate(bounds)
        if max(start, begun) < min(end, ended)
    ]
    return [PartyRows(party, rows, present[rows]) for party, rows in spans]
