"""Site around a torch module and a data loader, with the usual loop or the user's own."""

import hashlib
import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any, Literal

import torch
from safetensors.numpy import save
from torch import nn

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.training import local_methods
from securefl.training.models import control_name, pick_device, plain_name, seed_torch, state_head
from securefl.training.sites import loaders, site, transfer
from securefl.training.sites.layout import SiteError
from securefl.training.sites.sent_tensors import HeldTensors
from securefl.training.sites.transfer import RecordSteps

Loss = Callable[[Any, Any], torch.Tensor]
OptimiserOf = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
Train = Callable[[nn.Module, site.RoundContext], site.Metrics | None]
Evaluate = Callable[[nn.Module], site.Judged]
PLAIN = local_methods.LocalSgd()


class TorchSite:
    """Site that trains a torch module on the batches of a loader, which are pairs (inputs, targets).

    Trainable parameters are sent, except those in ``personal``. Personal and frozen parameters stay at the
    site and keep their values from round to round; so do buffers, unless they are averaged.

    Args:
        model: overwritten in each round, and trained in training mode. If it is in training mode as a whole,
            its modules in evaluation mode, such as a frozen BatchNorm, stay in that mode.
        loader: iterated once an epoch. A run is repeatable if the loader draws from torch's default
            generator. A sampler with ``set_epoch`` receives the number of the epoch within the run.
        loss: function of the model's outputs and targets that returns a mean.
        optimiser: function of the parameters; called each round unless ``keep_optimiser``. Not used if
            ``privacy.unit = "record"``: then the server's optimiser makes the step.
        epochs: passes over ``loader`` per round.
        personal: names, or patterns such as ``"head.*"``, of parameters that are not sent.
        buffers: floating-point buffers such as BatchNorm's running statistics: ``local`` (Li et al. 2021,
            FedBN), ``average`` to send them, or ``refuse`` a model that has any. Integer buffers, such as
            counts of batches, always stay.
        method: ``securefl.FedProx(mu=...)`` or ``securefl.Scaffold()``, whose control variates are also sent.
        train: replaces the loop: a function that trains the model and may return metrics.
        evaluate: function of the received model that returns the number of samples and metrics.
        samples: number of samples; the length of ``loader.dataset`` by default.
        keep_optimiser: keep momentum and other state from round to round.
        device: ``cpu``, ``auto`` (a GPU if there is one), ``cuda``, or another device of torch. A GPU
            computes in full single precision; your own training loop may allow TF32.

    Raises:
        ConfigError: no parameter to train or to send, an unknown number of samples, a pattern without a
            parameter, refused buffers, or no such device.

    >>> import securefl, torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(torch.randn(40, 3), torch.randint(2, (40,)))
    >>> site = securefl.TorchSite(torch.nn.Linear(3, 2), DataLoader(data, batch_size=8),
    ...     torch.nn.functional.cross_entropy, lambda weights: torch.optim.SGD(weights, lr=0.1))
    >>> site.samples, {name: array.shape for name, array in site.parameters().items()}
    (40, {'weight': (2, 3), 'bias': (2,)})
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
        buffers: Literal["local", "average", "refuse"] = "local",
        method: scenario.LocalMethod = PLAIN,
        train: Train | None = None,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
        keep_optimiser: bool = False,
        device: str | torch.device = "cpu",
    ) -> None:
        if train is None and (loader is None or loss is None or optimiser is None):
            raise ConfigError("TorchSite", "cannot train", "pass loader, loss and optimiser, or train")
        if not isinstance(model, nn.Module):
            raise ConfigError(
                "model", f"{type(model).__name__} is not a torch.nn.Module", "pass the module itself"
            )
        if not isinstance(method, scenario.LocalMethod):
            raise ConfigError(
                "method", f"{method!r} is not a local method", "pass one, such as securefl.FedProx(mu=0.01)"
            )
        if train is not None and not method.plain:
            raise ConfigError(
                "method", f"{method.name} cannot be combined with train=", "leave one of them out"
            )
        trained = [one for one in model.parameters() if one.requires_grad]
        first = None if optimiser is None else optimiser(trained)
        if first is not None:
            _check_optimiser(first, method)
        if evaluate is not None:
            self.evaluate = self._evaluate
        self._device = pick_device(device)
        self._model = model.to(self._device)
        self._loader, self._loss, self._make = loader, loss, optimiser
        self._epochs, self._train, self._judge = epochs, train, evaluate
        self._evaluating = _kept_in_evaluation(self._model)
        self._keep = keep_optimiser
        self._optimiser = first if keep_optimiser else None
        self._method, self._kept = method, local_methods.KeptControls()
        self._held = HeldTensors(self._model, tuple(personal), buffers)
        self._controls = (
            {control_name(name): _control(weight) for name, weight in self._trained.items()}
            if method.controls
            else {}
        )
        self.samples = loaders.samples_of(loader, samples)
        self.frozen_sha256 = _frozen_reason(self._model)
        """SHA-256 of the untrained parameters, by name, shape and value, as hex; empty without any."""
        self.averaged = tuple(self._buffers)
        """Names of buffers that are sent; ``model.averaged`` has to cover them."""

    @property
    def _trained(self) -> Mapping[str, nn.Parameter]:
        return self._held.parameters()

    @property
    def _buffers(self) -> Mapping[str, torch.Tensor]:
        return self._held.buffers()

    @property
    def rows(self) -> int | None:
        """Number of rows of the loader's dataset, or None. A sampler may yield fewer."""
        dataset = getattr(self._loader, "dataset", None)
        return len(dataset) if isinstance(dataset, Sized) else None

    @property
    def state_head(self) -> dict[str, Any]:
        """Entries of the module's ``state_dict`` that are not sent, for the file of the initial model."""
        return state_head(self._model, [*self._trained, *self._buffers])

    @property
    def keeps_nothing(self) -> bool:
        """True if the received arrays are copied at once and never written to."""
        # A subclass may have another fit.
        return type(self) is TorchSite

    def parameters(self) -> site.Arrays:
        """Return the arrays that are sent."""
        return transfer.read_arrays(self._travelling())

    def fit(
        self, parameters: site.Arrays, context: site.RoundContext
    ) -> tuple[site.Arrays, int, site.Metrics]:
        """Train the model from ``parameters``; return parameters, samples and metrics."""
        self._load(parameters)
        before = {name: tensor.detach().clone() for name, tensor in self._staying().items()}
        try:
            with seed_torch(context.seed, self._device):
                self._model.train()
                for module in self._evaluating:
                    module.eval()
                metrics = self._train(self._model, context) if self._train else self._descend(context)
        finally:
            self._mend(before)
        return self.parameters(), self.samples, metrics or {}

    def record_steps(self, batch: int, dp: scenario.DpSgd) -> RecordSteps:
        """Return steps on bounded gradients of single examples, in place of ``fit``.

        Raises:
            ConfigError: an option of this site conflicts with them, or an example has no gradient of its own.
        """
        others = {
            "train": self._train is not None,
            "personal": len(self._trained) < sum(w.requires_grad for w in self._model.parameters()),
            "buffers": bool(self._buffers),
            "method": not self._method.plain,
            "keep_optimiser": self._keep,
        }
        for name, given in others.items():
            if given:
                raise ConfigError(
                    f"TorchSite({name}=)",
                    "cannot be used with privacy.unit = record, where the server steps",
                    f'leave {name} out, or privacy.unit = "party"',
                )
        dataset = getattr(self._loader, "dataset", None)
        return RecordSteps(self._model, dataset, self._loss, batch, dp, self._device)

    def _evaluate(self, parameters: site.Arrays, context: site.RoundContext) -> site.Judged:
        del context
        self._load(parameters)
        self._model.eval()
        with torch.no_grad():
            return self._judge(self._model) if self._judge else (0, {})

    def _travelling(self) -> Mapping[str, torch.Tensor]:
        return {**self._trained, **self._buffers, **self._controls}

    def _staying(self) -> Mapping[str, torch.Tensor]:
        """Return the tensors that training changes and the next training begins with."""
        travelling = self._travelling()
        return {name: tensor for name, tensor in self._held.changing().items() if name not in travelling}

    def _mend(self, before: Mapping[str, torch.Tensor]) -> None:
        """Restore the local state after a training that diverged."""
        if not before and not self._keep:
            return
        staying = self._staying()
        were, are = transfer.all_finite(before), transfer.all_finite(staying)
        if all(are[name] for name in before if were[name]) and all(
            transfer.all_finite(self._travelling()).values()
        ):
            return
        self._optimiser = None
        with torch.no_grad():
            for name, tensor in before.items():
                staying[name].copy_(tensor)

    def _load(self, parameters: site.Arrays) -> None:
        transfer.write_arrays(self._travelling(), parameters)

    def _descend(self, context: site.RoundContext) -> site.Metrics:
        """Train epochs over the loader; return the mean loss of the last one over its samples."""
        if self._loader is None or self._loss is None or self._make is None:
            raise ConfigError("TorchSite", "cannot train", "pass loader, loss and optimiser")
        steps = [weight for weight in self._model.parameters() if weight.requires_grad]
        if self._optimiser is not None and not _optimises(self._optimiser, steps):
            # User code may have replaced parameters.
            self._optimiser = None
        optimiser = self._optimiser or self._make(steps)
        self._optimiser = optimiser if self._keep else None
        correction = self._correction()
        mean, away = float("nan"), self._device.type != "cpu"
        for epoch in range(self._epochs):
            losses: list[torch.Tensor] = []
            sizes: list[int] = []
            loaders.set_epoch(self._loader, context.number * self._epochs + epoch)
            for batch in self._loader:
                inputs, targets = loaders.pair_of(batch)
                if away:
                    inputs, targets = (
                        loaders.to_device(inputs, self._device),
                        loaders.to_device(targets, self._device),
                    )
                optimiser.zero_grad()
                loss = self._loss_of(inputs, targets)
                loss.backward()  # type: ignore[no-untyped-call]
                if correction is not None:
                    self._correct(correction)
                optimiser.step()
                losses.append(loss.detach().reshape(()))
                sizes.append(loaders.batch_size(targets))
            if not losses:
                raise SiteError(
                    "the loader gave no batch: it has fewer samples than one batch holds, and drop_last"
                )
            # One read per epoch suffices; each waits for a GPU.
            values = torch.stack(losses).to("cpu", torch.float64).tolist()
            weighted = (loss * size for loss, size in zip(values, sizes, strict=True))
            mean = math.fsum(weighted) / max(1, sum(sizes))
        if correction is not None:
            for control, value in zip(self._controls.values(), correction.end(), strict=True):
                control.copy_(value)
        return {"loss": mean}

    def _loss_of(self, inputs: Any, targets: Any) -> torch.Tensor:
        """Return the loss of a batch.

        Raises:
            SiteError: outputs and targets have different shapes, which torch broadcasts with a warning only.
        """
        outputs = self._model(inputs)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Using a target size", UserWarning)
            try:
                return self._loss(outputs, targets)  # type: ignore[misc]
            except UserWarning as error:
                shapes = f"outputs of shape {tuple(outputs.shape)} and targets of {tuple(targets.shape)}"
                raise SiteError(f"the loss pairs {shapes} by broadcasting: give both one shape") from error

    def _correction(self) -> local_methods.Correction | None:
        if self._method.plain:
            return None
        weights, controls = list(self._trained.values()), list(self._controls.values())
        return local_methods.Correction(self._method, weights, controls, self._kept)

    def _correct(self, correction: local_methods.Correction) -> None:
        with torch.no_grad():
            slopes = correction.correct([weight.grad for weight in self._trained.values()])
        for weight, slope in zip(self._trained.values(), slopes, strict=True):
            weight.grad = slope


def _control(weight: torch.Tensor) -> torch.Tensor:
    """Return a control variate of zeros for a weight: a mean of gradients takes single precision at least."""
    dtype = torch.float32 if weight.dtype.itemsize < torch.float32.itemsize else weight.dtype
    return torch.zeros_like(weight, dtype=dtype)


def _check_optimiser(optimiser: torch.optim.Optimizer, method: scenario.LocalMethod) -> None:
    """Check that the usual loop can step an optimiser.

    Raises:
        ConfigError: its step needs a closure, or takes sparse gradients only while the method's are dense.
    """
    step = inspect.signature(optimiser.step).parameters.get("closure")
    if step is not None and step.default is step.empty:
        reason = f"{type(optimiser).__name__} needs a closure, which computes the loss several times per step"
        raise ConfigError("optimiser", reason, "use another one, or your own loop as train=")
    if not method.plain and isinstance(optimiser, torch.optim.SparseAdam):
        reason = f"{method.name} makes gradients dense, and SparseAdam takes sparse ones only"
        raise ConfigError("method", reason, "use another optimiser, or leave out method=")


def _optimises(optimiser: torch.optim.Optimizer, weights: Iterable[nn.Parameter]) -> bool:
    """Return True if an optimiser steps no other parameters than these."""
    held = {id(weight) for group in optimiser.param_groups for weight in group["params"]}
    return held <= {id(weight) for weight in weights}


def _kept_in_evaluation(model: nn.Module) -> tuple[nn.Module, ...]:
    """Return the modules in evaluation mode within a model in training mode."""
    # A whole model in evaluation mode was loaded so, as by from_pretrained.
    return tuple(module for module in model.modules() if not module.training) if model.training else ()


def _frozen_reason(model: nn.Module) -> str:
    frozen = transfer.read_arrays(
        {plain_name(model, n): weight for n, weight in model.named_parameters() if not weight.requires_grad}
    )
    return hashlib.sha256(save(frozen)).hexdigest() if frozen else ""
