"""DP-SGD of many parties at once, for simulations."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import torch

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.training import data, dpsgd
from securefl.training.sgd import TrainingDivergedError, ahead

_CPU_EXAMPLES: Final = 512
"""Expected examples that one CPU thread processes at a time."""


class DpJob(NamedTuple):
    """One party's step in one round."""

    portion: data.Portion
    entropy: Entropy
    """Entropy of the update, as for :meth:`securefl.training.dpsgd.trainer.DpSgdTrainer.update`."""
    carry: F64 | None


def fits_fleet(module: torch.nn.Module) -> bool:
    """Return True if a model is a sequence of known layers without random draws."""
    return dpsgd.layers_of(module) is not None


class DpFleet:
    """One step of any number of parties, each on its own records.

    Batches and results are those of :class:`securefl.training.dpsgd.trainer.DpSgdTrainer`, up to the rounding
    of single precision. Memory is that of a few groups of parties. The number of threads changes no bit; the
    members of a group may change the last bits.

    Args:
        module: a model for which :func:`fits_fleet` is true; each call overwrites it.
        pool: all samples, on the computing device.
        config: only ``batch_size`` is used, the expected size of a batch.
        threads: groups computed at the same time on a CPU.

    Raises:
        ConfigError: the model mixes the examples of a batch.
        UsageError: the model cannot train in a fleet.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        pool: data.SamplePool,
        input_shape: tuple[int, ...],
        config: scenario.Training,
        dp: scenario.DpSgd,
        *,
        threads: int = 1,
    ) -> None:
        if not fits_fleet(module):
            raise UsageError(
                "cannot train several parties at once: a layer of this model has no batched form; train"
                " them one by one"
            )
        self._step = dpsgd.DpStep(module, dpsgd.PoolSource(pool, input_shape), config.batch_size, dp)
        self._batch = config.batch_size
        self._dp = dp
        on_cpu = pool.x.device.type == "cpu"
        self._threads = threads if on_cpu else 1
        self._examples = _CPU_EXAMPLES if on_cpu else self._step.chunk

    def updates(self, params: F32, jobs: Sequence[DpJob]) -> Iterator[tuple[int, F64 | None]]:
        """Yield each job's index and its update, f64 ``(d,)``, in order.

        All updates are None if training has diverged at ``params``, f32 ``(d,)`` (:meth:`DpStep.load`).

        Raises:
            ConfigError: a party has fewer records than a batch.
            UsageError: ``params`` or a carry does not fit.
        """
        try:
            self._step.load(params)
        except TrainingDivergedError:
            yield from ((index, None) for index in range(len(jobs)))
            return
        size = max(1, self._examples // self._batch)
        groups = [range(i, min(i + size, len(jobs))) for i in range(0, len(jobs), size)]

        def work(group: range) -> list[F64]:
            return self._step.updates([self._draw(jobs[index]) for index in group])

        for group, updates in ahead(work, groups, min(self._threads, max(1, len(groups)))):
            yield from zip(group, updates, strict=True)

    def _draw(self, job: DpJob) -> dpsgd.DrawnBatch:
        x, y, records = job.portion
        dpsgd.check_batch(self._batch, records)
        rows = dpsgd.draw_batch(self._dp.sampler, records, self._batch, dpsgd.batch_entropy(job.entropy))
        return dpsgd.DrawnBatch(x + rows, y + rows, job.carry)
