"""A site around a torch module and a data loader: the usual loop, or one of your own."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sized
from typing import Any

import numpy as np
import torch
from torch import nn

from securefl.base.errors import ConfigError
from securefl.training.models import seeded
from securefl.training.sites.site import Arrays, Judged, Metrics, Round

Loss = Callable[[Any, Any], torch.Tensor]
OptimiserOf = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
Train = Callable[[nn.Module, Round], Metrics | None]
Evaluate = Callable[[nn.Module], Judged]


class TorchSite:
    """Trains ``model`` on the batches of ``loader``, which are pairs (inputs, targets).

    Trainable parameters travel, but for those that ``personal`` names. They, frozen parameters and all
    buffers, as BatchNorm's running statistics, stay at the site and keep their values from round to round
    (Li et al. 2021, FedBN).

    Args:
        model: overwritten in each round.
        loader: iterated once an epoch. Draw from torch's default generator and a run can be repeated.
        loss: of the model's outputs and targets, a mean.
        optimiser: made of the parameters, anew each round unless ``keep_optimiser``.
        epochs: passes over ``loader`` a round.
        personal: names, or patterns as in ``"head.*"``, of parameters that do not travel.
        train: in place of the loop: trains the model and may return metrics.
        evaluate: samples and metrics of the model as it came.
        samples: how many there are; those of ``loader.dataset`` unless given.
        keep_optimiser: let momentum and the like go on from round to round.
        device: where the model computes.

    Raises:
        ConfigError: nothing to train or to travel, nobody says how many samples there are, or a pattern
            fits no parameter.
    """

    def __init__(
        self,
        model: nn.Module,
        loader: Iterable[Any] | None = None,
        loss: Loss | None = None,
        optimiser: OptimiserOf | None = None,
        *,
        epochs: int = 1,
        personal: Iterable[str] = (),
        train: Train | None = None,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
        keep_optimiser: bool = False,
        device: str | torch.device = "cpu",
    ) -> None:
        if train is None and (loader is None or loss is None or optimiser is None):
            raise ConfigError(
                "TorchSite", "has nothing to train with", "loader, loss and optimiser, or train"
            )
        if evaluate is not None:
            self.evaluate = self._evaluate
        self._model = model.to(device)
        self._loader, self._loss, self._make = loader, loss, optimiser
        self._epochs, self._train, self._judge = epochs, train, evaluate
        self._keep, self._device = keep_optimiser, torch.device(device)
        self._optimiser: torch.optim.Optimizer | None = None
        self._travelling = _travelling(model, tuple(personal))
        self.samples = _count(loader) if samples is None else samples

    def parameters(self) -> Arrays:
        """See :class:`securefl.training.sites.site.Site`."""
        return {name: _array(weight) for name, weight in self._travelling.items()}

    def fit(self, parameters: Arrays, told: Round) -> tuple[Arrays, int, Metrics]:
        """See :class:`securefl.training.sites.site.Site`."""
        self._load(parameters)
        with seeded(told.seed, self._device):
            self._model.train()
            metrics = self._train(self._model, told) if self._train else self._descend()
        return self.parameters(), self.samples, metrics or {}

    def _evaluate(self, parameters: Arrays, told: Round) -> Judged:
        del told
        self._load(parameters)
        self._model.eval()
        with torch.no_grad():
            return self._judge(self._model) if self._judge else (0, {})

    def _load(self, parameters: Arrays) -> None:
        with torch.no_grad():
            for name, weight in self._travelling.items():
                weight.copy_(torch.from_numpy(np.array(parameters[name])))

    def _descend(self) -> Metrics:
        """Epochs over the loader; the mean loss of the last one."""
        if self._loader is None or self._loss is None or self._make is None:
            raise ConfigError("TorchSite", "has nothing to train with")
        optimiser = self._optimiser or self._make(w for w in self._model.parameters() if w.requires_grad)
        self._optimiser = optimiser if self._keep else None
        mean = float("nan")
        for _ in range(self._epochs):
            losses = []
            for inputs, targets in self._loader:
                optimiser.zero_grad()
                loss = self._loss(self._model(inputs.to(self._device)), targets.to(self._device))
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                losses.append(loss.item())
            mean = sum(losses) / len(losses)
        return {"loss": mean}


def _travelling(model: nn.Module, personal: tuple[str, ...]) -> dict[str, nn.Parameter]:
    trained = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    for pattern in personal:
        if not fnmatch.filter(trained, pattern):
            have = ", ".join(list(trained)[:4])
            raise ConfigError(
                "personal", f"{pattern!r} fits no parameter that is trained", f"there is {have}"
            )
    left = {n: w for n, w in trained.items() if not any(fnmatch.fnmatch(n, p) for p in personal)}
    if not left:
        raise ConfigError("TorchSite", "has no parameter that travels")
    return left


def _count(loader: object) -> int:
    dataset = getattr(loader, "dataset", None)
    if not isinstance(dataset, Sized):
        raise ConfigError("samples", "the loader has no dataset of known length", "give samples=")
    return len(dataset)


def _array(weight: nn.Parameter) -> Any:
    return weight.detach().to("cpu", torch.float32).numpy().copy()
