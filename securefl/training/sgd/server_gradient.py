"""Gradients of the server's own data, for rules that compare cluster means with one (before step 13)."""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from securefl import scenario
from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy
from securefl.base.errors import UsageError
from securefl.protocol.round import sampling_entropy, training_entropy
from securefl.training import data, models
from securefl.training.sgd.outcomes import GradientNotFiniteError
from securefl.training.sgd.trainer import LocalTrainer

PIECE = 512
"""Samples at a time where a gradient is taken on all: what fits into memory also with large images."""


class ServerGradient:
    """Gradients of the server's own data, for a rule that asks for them.

    Zeno++ gets, for every reclustering, the gradient of the mean loss on ``rule.batch`` samples drawn anew
    without replacement; on all where there are no more (SHARE, algorithm 2). Weight decay is no part of it.
    The inner-product rule gets the gradient of the mean loss on all samples, once a round (Xiang et al. 2023,
    algorithm 3, line 5). FLTrust gets minus the update that local training on all samples makes, configured
    as the parties' and once a round (Cao et al. 2021, algorithm 2), neither clipped nor weighted.

    Args:
        module: overwritten in each call; others may take turns with it.
        shard: the server's samples, copied to ``device``.
        rule: what asks.
        config: of the parties' training.
        device: where ``module`` computes.
        own: the server's entropy (:func:`securefl.protocol.round.shared.randomness.server_entropy`).
    """

    def __init__(
        self,
        module: torch.nn.Module,
        shard: data.Shard,
        rule: scenario.Rule,
        config: scenario.Training,
        device: torch.device,
        own: Entropy,
    ) -> None:
        self._module = module.to(device)
        self._x = torch.from_numpy(shard.x).to(device)
        self._y = torch.from_numpy(shard.y).to(device)
        self._rule = rule
        self._trainer = LocalTrainer(module, shard, config, device)
        self._device = device
        self._own = own

    def gradients(self, round_: int, params: F32, reclusterings: tuple[int, ...]) -> tuple[F64, ...]:
        """One uphill vector f64 ``(d,)``, finite, for each of ``reclusterings``, at ``params`` f32 ``(d,)``.

        On the CPU the same arguments and the same seeded entropy give the same bits.

        Raises:
            GradientNotFiniteError: the model is beyond what its loss can be computed for.
            TrainingDivergedError: the server's own training ends in parameters that are not finite.
            UsageError: ``params`` has the wrong dtype or length.
        """
        match self._rule.server_data:
            case int(batch):
                return tuple(
                    self._on_batch(params, batch, sampling_entropy(self._own, round_, r))
                    for r in reclusterings
                )
            case "all":
                everything = torch.arange(len(self._y))
                seed = int.from_bytes(sampling_entropy(self._own, round_, 0).draw(8), "big")
                return (self._on(params, everything, seed),) * len(reclusterings)
            case "training":
                after = self._trainer.train(params, training_entropy(self._own, round_))
                uphill = params.astype(np.float64) - after.astype(np.float64)
                return (uphill,) * len(reclusterings)
            case "none":
                raise UsageError(f"the rule {self._rule.name} has no use for the server's data")

    def _on_batch(self, params: F32, batch: int, entropy: Entropy) -> F64:
        # As in local training, torch's generator may draw: no privacy claim rests on which samples these are.
        seed = int.from_bytes(entropy.draw(8), "big")
        order = torch.randperm(len(self._y), generator=torch.Generator().manual_seed(seed))
        return self._on(params, order[:batch], seed)

    def _on(self, params: F32, rows: torch.Tensor, seed: int) -> F64:
        """The gradient of the mean loss on ``rows``; ``seed`` is for models that draw."""
        models.load_vector(self._module, params)
        weights = list(models.trained_parameters(self._module).values())
        total = torch.zeros(len(params), dtype=torch.float64, device=self._device)
        with models.seed_torch(seed, self._device):
            # Training mode, since recurrent layers have no gradient in the other one on a GPU.
            self._module.train()
            for piece in torch.split(rows.to(self._device), PIECE):
                loss = cross_entropy(self._module(self._x[piece]), self._y[piece])
                slopes = torch.autograd.grad(loss, weights, materialize_grads=True)
                flat = torch.cat([slope.reshape(-1) for slope in slopes])
                total += flat.double() * (len(piece) / len(rows))
        gradient: F64 = total.cpu().numpy()
        if not np.isfinite(gradient).all():
            raise GradientNotFiniteError("the gradient of the server's own samples is not finite")
        return gradient
