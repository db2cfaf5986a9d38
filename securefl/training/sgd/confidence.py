"""Confidence of a model in records' labels: what attacks on membership go by."""

from __future__ import annotations

import numpy as np
import torch

from securefl.base.arrays import F32, F64
from securefl.base.errors import UsageError
from securefl.training import data, models
from securefl.training.sgd.evaluation import BATCH


class Confidences:
    """Confidences in one set of records, under any parameters. Overwrites ``module``'s parameters.

    Args:
        module: the model, on the CPU.
        shard: the records; no text.

    Raises:
        UsageError: tokens, which have a label at each position.
    """

    def __init__(self, module: torch.nn.Module, shard: data.Shard) -> None:
        if shard.tokens:
            raise UsageError("a text has many labels, and no one confidence")
        self._module = module
        self._x = torch.from_numpy(shard.x)
        self._y = torch.from_numpy(shard.y)

    def of(self, params: F32) -> F64:
        """log(p / (1 - p)) of each record's label, f64 ``(n,)``: its loss is log(1 + e^-this).

        The logit is nearly Gaussian over trainings, which p and the loss are not (Carlini et al. 2022, arXiv
        2112.03570, figure 4). Scores that are not finite count as complete ignorance of the label.

        Raises:
            UsageError: ``params`` has the wrong dtype or length.
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
        # Beyond it e^-x is 0 in double precision anyway.
        return np.clip(np.nan_to_num(logits, nan=-700.0), -700.0, 700.0)
