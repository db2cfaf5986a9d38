"""Evaluation of a model on a shard."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from securefl.base.arrays import F32, F64, I64, Inputs
from securefl.base.errors import UsageError
from securefl.training import data, models
from securefl.training.sgd.outcomes import Evaluation

BATCH = 1024
"""Samples per forward pass."""

Trigger = Callable[[Inputs, I64], tuple[Inputs, I64]]

TEXT_BATCH = 128
"""Sequences per forward pass."""


class Evaluator:
    """Accuracy and loss on one shard, copied to ``device`` once. Overwrites ``module``'s parameters.

    The accuracy on samples and labels of ``trigger`` is a backdoor's success.
    """

    def __init__(
        self, module: torch.nn.Module, shard: data.Shard, device: torch.device, trigger: Trigger | None = None
    ) -> None:
        self._module = module.to(device)
        self._test = _Samples(shard, device)
        self._triggered: _Samples | None = None
        if trigger is not None:
            x, y = trigger(shard.x, shard.y)
            self._triggered = _Samples(replace(shard, x=x, y=y), device) if len(y) else None

    def evaluate(self, params: F32) -> Evaluation:
        """Return accuracy and mean cross-entropy of the model with ``params``, f32 ``(d,)``.

        A sample whose scores are not all finite counts as wrong, and makes the loss infinite. In a text each
        position counts as a sample.

        Raises:
            UsageError: ``params`` does not fit.
        """
        models.load_vector(self._module, params)
        self._module.eval()
        accuracy, loss = self._measure(self._test)
        success = None if self._triggered is None else self._measure(self._triggered)[0]
        return Evaluation(accuracy, loss, success)

    def _measure(self, samples: _Samples) -> tuple[float, float]:
        # The sum stays on the device, since each read waits for a GPU.
        totals = torch.zeros(2, dtype=torch.float64, device=samples.device)
        with torch.no_grad():
            for x, y in samples.batches():
                scores = self._module(x)
                sane = scores.isfinite().all(dim=1)
                right = ((scores.argmax(dim=1) == y) & sane).sum()
                loss = cross_entropy(scores, y, reduction="sum")
                totals += torch.stack([right.double(), loss.double()])
        right_labels, total_loss = totals.cpu().tolist()
        mean = total_loss / samples.labels
        return right_labels / samples.labels, mean if math.isfinite(mean) else math.inf


class _Samples:
    """A shard on a device."""

    def __init__(self, shard: data.Shard, device: torch.device) -> None:
        self._x = torch.from_numpy(shard.x).to(device)
        self._y = torch.from_numpy(shard.y).to(device)
        self.labels = self._y.numel()
        self.device = self._y.device

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Return inputs and labels, batch by batch."""
        size = BATCH if self._y.dim() == 1 else TEXT_BATCH
        return zip(torch.split(self._x, size), torch.split(self._y, size), strict=True)


class Confidences:
    """Confidences in the labels of records, for membership attacks. Overwrites ``module``, on the CPU.

    Raises:
        UsageError: tokens, which have a label at each position.
    """

    def __init__(self, module: torch.nn.Module, shard: data.Shard) -> None:
        if shard.tokens:
            raise UsageError(
                "cannot compute confidences: a text has many labels per sample; use records with one"
                " label each"
            )
        self._module = module
        self._x = torch.from_numpy(shard.x)
        self._y = torch.from_numpy(shard.y)

    def of(self, params: F32) -> F64:
        """Return log(p / (1 - p)) of each record's label, f64 ``(n,)``; its loss is log(1 + e^-x) of this x.

        The logit is nearly Gaussian over trainings, unlike p and the loss (Carlini et al. 2022, arXiv
        2112.03570, figure 4). Scores that are not finite count as complete ignorance of the label.

        Raises:
            UsageError: ``params`` does not fit.
        """
        models.load_vector(self._module, params)
        self._module.eval()
        found = []
        with torch.no_grad():
            for x, y in zip(torch.split(self._x, BATCH), torch.split(self._y, BATCH), strict=True):
                scores = self._module(x).double()
                own = scores.gather(1, y.unsqueeze(1)).squeeze(1)
                others = scores.scatter(1, y.unsqueeze(1), -torch.inf).logsumexp(dim=1)
                found.append(own - others)
        logits: F64 = torch.cat(found).numpy()
        # Beyond this e^-x is 0 in f64.
        return np.clip(np.nan_to_num(logits, nan=-700.0), -700.0, 700.0)
