"""Gradients of the server's own data, for rules that need one (before step 13)."""

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
"""Samples per pass, which fit into memory even as large images."""


class ServerGradient:
    """Gradients of the server's own data, for a rule that needs them.

    Zeno++ gets, for every reclustering, the gradient of the mean loss on ``rule.batch`` samples drawn anew
    without replacement, or on all if there are fewer (SHARE, algorithm 2), without weight decay. The
    inner-product rule gets the gradient of the mean loss on all samples, once a round (Xiang et al. 2023,
    algorithm 3, line 5). FLTrust gets minus the update of local training on all samples, with the parties'
    configuration and once a round (Cao et al. 2021, algorithm 2), neither clipped nor weighted.

    Args:
        module: each call overwrites it; others may use it in turn.
        shard: the server's samples, copied to ``device``.
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
        """Return a finite uphill vector f64 ``(d,)`` for each reclustering, at ``params`` f32 ``(d,)``.

        On the CPU equal arguments and equal seeded entropy give equal bits.

        Raises:
            GradientNotFiniteError: the gradient at ``params`` is not finite.
            TrainingDivergedError: the server's own training ends in parameters that are not finite.
            UsageError: ``params`` does not fit.
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
                raise UsageError(
                    f"cannot compute a server gradient: rule {self._rule.name} uses no server data"
                )

    def _on_batch(self, params: F32, batch: int, entropy: Entropy) -> F64:
        # No privacy claim depends on these samples.
        seed = int.from_bytes(entropy.draw(8), "big")
        order = torch.randperm(len(self._y), generator=torch.Generator().manual_seed(seed))
        return self._on(params, order[:batch], seed)

    def _on(self, params: F32, rows: torch.Tensor, seed: int) -> F64:
        """Return the gradient of the mean loss on ``rows``; models may draw from ``seed``."""
        models.load_vector(self._module, params)
        weights = list(models.trained_parameters(self._module).values())
        total = torch.zeros(len(params), dtype=torch.float64, device=self._device)
        with models.seed_torch(seed, self._device):
            # Recurrent layers have no gradient in evaluation mode on a GPU.
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
