"""Local DP-SGD at one party: one step a round, before the noise of step 5."""

from __future__ import annotations

import contextlib
import copy

import torch

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import ConfigError, UsageError
from securefl.training import data, models
from securefl.training.dpsgd import sampling, step
from securefl.training.dpsgd.layers import Layers
from securefl.training.dpsgd.source import PoolSource


class DpSgdTrainer:
    """One party's steps. Several trainers may use one module in turn, but not at the same time.

    Args:
        module: each call overwrites it.
        shard: the party's records, copied to ``device``. A record of a text is one sequence.
        config: only ``batch_size`` is used, b_c, the expected size of a batch.

    Raises:
        ConfigError: b_c exceeds the number of records, or the model mixes the examples of a batch.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        shard: data.Shard,
        config: scenario.Training,
        dp: scenario.DpSgd,
        device: torch.device,
    ) -> None:
        self._records = len(shard.y)
        check_batch(config.batch_size, self._records)
        x = torch.from_numpy(shard.x.reshape(self._records, -1)).to(device)
        pool = data.SamplePool(x, torch.from_numpy(shard.y).to(device))
        self._source = PoolSource(pool, shard.input_shape)
        self._batch = config.batch_size
        self._dp = dp
        self._device = device
        self._step = self._step_of(module)

    def with_module(self, module: torch.nn.Module) -> DpSgdTrainer:
        """Return the same training on its own module, for another thread; samples are not copied."""
        twin = copy.copy(self)
        twin._step = self._step_of(module)
        return twin

    def update(self, params: F32, carry: F64 | None, entropy: Entropy, samples: int | None = None) -> F64:
        """Return minus the sum of bounded gradients over b_c, f64 ``(d,)``, at most drawn * norm / b_c long.

        Each drawn record j adds bound((1 - beta) g_j + beta ``carry``), where g_j is the gradient of its loss
        and bound makes a length 1, or at most the norm. On the CPU equal arguments give equal bits (same
        torch, same number of threads).

        Args:
            params: f32 ``(d,)``.
            carry: f64 ``(d,)``, uphill like gradients: minus the last upload, or minus the last step of the
                global model. None: zeros.
            entropy: of this one update. Values drawn from it must stay secret.
            samples: None, as the accounting assumes a draw from all records.

        Raises:
            TrainingDivergedError: training has diverged at ``params`` (:meth:`DpStep.load`), independently of
                records.
            UsageError: ``params`` or ``carry`` does not fit, or ``samples`` is given.
        """
        if samples is not None:
            raise UsageError(
                "cannot train on chosen samples with DP-SGD: it draws from all records; leave samples unset"
            )
        rows = sampling.draw_batch(self._dp.sampler, self._records, self._batch, batch_entropy(entropy))
        with self._seed_torch(entropy):
            self._step.load(params)
            slots = sampling.draw_slots(self._step.slots, len(rows), slot_entropy(entropy))
            return self._step.update(step.DrawnBatch(rows, rows, carry), slots)

    def _seed_torch(self, entropy: Entropy) -> contextlib.AbstractContextManager[None]:
        """Seed torch's generator for models that draw from it."""
        if isinstance(self._step.way, Layers):
            return contextlib.nullcontext()
        return models.seed_torch(int.from_bytes(entropy.child("module").draw(8), "big"), self._device)

    def _step_of(self, module: torch.nn.Module) -> step.DpStep:
        return step.DpStep(module, self._source, self._batch, self._dp)


def batch_entropy(entropy: Entropy) -> Entropy:
    """Return the entropy of an update's batch."""
    return entropy.child("batch")


def slot_entropy(entropy: Entropy) -> Entropy:
    """Return the entropy of the slots of an update's batch."""
    return entropy.child("slots")


def check_batch(batch: int, records: int) -> None:
    """Raise a ConfigError if a party has fewer records than a batch."""
    if batch > records:
        raise ConfigError(
            "training.batch_size",
            f"DP-SGD draws {batch} records, more than the {records} of a party",
            f"at most {records}, or more records for each party",
        )
