"""Choice of a way to per-example gradients: by layers, mapped, or one by one."""

import math
from typing import Final, Protocol

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from securefl.base.arrays import BoolArray
from securefl.base.errors import ConfigError
from securefl.training import models
from securefl.training.dpsgd.examples import Examples, Losses, Rows, example_losses
from securefl.training.dpsgd.layers import layers_of

_MIXING: Final = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class Way(Protocol):
    """Computation of per-example gradients at a module's current parameters."""

    def examples(self, x: torch.Tensor, y: torch.Tensor, present: BoolArray | None = None) -> Examples:
        """Return the gradients of the examples ``x`` (n, ...) with labels ``y`` (n, ...), n >= 1.

        ``present`` is a mask of the requested rows, bool (n,); None for all. Other rows have any gradient.
        """
        ...

    def floats_each(self, sample: torch.Tensor) -> int:
        """Return about how many f32 numbers each example takes, given one, (1, ...)."""
        ...


class Mapped:
    """``vmap(grad(loss))``: all examples at once, each alone in the module."""

    def __init__(self, module: nn.Module, losses: Losses = example_losses) -> None:
        self._module = module
        self._losses = losses
        # Each example has its own dropout.
        self._slopes = vmap(grad(self._loss), in_dims=(None, 0, 0), randomness="different")

    def examples(self, x: torch.Tensor, y: torch.Tensor, present: BoolArray | None = None) -> Examples:
        """Return the gradients of all examples."""
        del present
        weights = {name: weight.detach() for name, weight in models.trained_parameters(self._module).items()}
        slopes = self._slopes(weights, x, y)
        with torch.no_grad():
            return Examples(
                [Rows(start, slopes[name].flatten(1).double()) for name, start in _starts(self._module)]
            )

    def floats_each(self, sample: torch.Tensor) -> int:
        """Return the numbers per example."""
        return _floats_each(self._module, sample)

    def _loss(self, weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self._losses(functional_call(self._module, weights, (x[None],)), y[None]).sum()


class OneByOne:
    """One backward pass per example, for modules that cannot be mapped."""

    def __init__(self, module: nn.Module, losses: Losses = example_losses) -> None:
        self._module = module
        self._losses = losses

    def examples(self, x: torch.Tensor, y: torch.Tensor, present: BoolArray | None = None) -> Examples:
        """Return the gradients of the present examples, zeros for others."""
        weights = models.trained_parameters(self._module)
        starts = _starts(self._module)
        chosen = [weights[name] for name, _ in starts]
        blocks = [
            torch.zeros(len(x), weight.numel(), dtype=torch.float64, device=x.device) for weight in chosen
        ]
        for one in range(len(x)) if present is None else np.flatnonzero(present).tolist():
            # A kernel may depend on the memory alignment of a row.
            sample, label = x[one : one + 1].clone(), y[one : one + 1].clone()
            loss = self._losses(self._module(sample), label).sum()
            slopes = torch.autograd.grad(loss, chosen, materialize_grads=True)
            for block, slope in zip(blocks, slopes, strict=True):
                block[one] = slope.reshape(-1)
        return Examples([Rows(start, block) for (_, start), block in zip(starts, blocks, strict=True)])

    def floats_each(self, sample: torch.Tensor) -> int:
        """Return the numbers per example."""
        return _floats_each(self._module, sample)


def way_for(
    module: nn.Module, sample: torch.Tensor, label: torch.Tensor, losses: Losses = example_losses
) -> Way:
    """Return the fastest way that supports ``module``, which is in training mode and not changed.

    ``sample`` and ``label``, (1, ...), are public.

    Raises:
        ConfigError: an example's scores depend on others in its batch, or the model cannot be averaged.
    """
    models.check_averageable(module)
    for name, part in module.named_modules():
        if isinstance(part, _MIXING):
            raise ConfigError(
                "model",
                f"{name or 'it'} is a {type(part).__name__}: DP-SGD needs the gradient of each example by "
                "itself",
                "replace BatchNorm by GroupNorm",
            )
        if getattr(part, "sparse", False) and isinstance(part, nn.Embedding | nn.EmbeddingBag):
            reason = f"{name or 'it'} has sparse gradients, which DP-SGD cannot clip"
            raise ConfigError("model", reason, "sparse=False")
    _check_alone(module, sample)
    _check_forgets(module, sample)
    layers = layers_of(module, losses)
    if layers is not None:
        return layers
    parts = list(module.named_modules(remove_duplicate=False))
    if any(isinstance(part, nn.RNNBase) for _, part in parts) or len({id(p) for _, p in parts}) < len(parts):
        return OneByOne(module, losses)
    mapped = Mapped(module, losses)
    try:
        mapped.examples(sample, label)
    except Exception:
        # Either torch cannot map an operation, or the loss rejects the label.
        return OneByOne(module, losses)
    return mapped


def _check_alone(module: nn.Module, sample: torch.Tensor) -> None:
    """Check that scores of ``sample`` are the same with and without another example, up to rounding."""
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            alone = module(sample.clone())
            together = module(torch.cat([sample, _another(sample)]))[:1]
            size = float(alone.abs().max())
    except Exception as error:  # any exception of a user's model
        raise ConfigError(
            "model", f"fails on a single example: {error}", "make it accept a batch of one example"
        ) from error
    finally:
        module.train(training)
    if math.isfinite(size) and not torch.allclose(alone, together, rtol=1e-3, atol=1e-3 * size):
        raise ConfigError(
            "model",
            "the output of an example depends on others in its batch, which DP-SGD cannot train",
            "use layers that treat examples separately, as GroupNorm does",
        )


def _check_forgets(module: nn.Module, sample: torch.Tensor) -> None:
    """Check that scores of ``sample`` in training do not depend on earlier examples."""
    scores = []
    try:
        for one in (sample, _another(sample), sample):
            with torch.no_grad(), models.seed_torch(0, sample.device):
                scores.append(module(one.clone()))
    except Exception as error:
        raise ConfigError(
            "model",
            f'fails on a single example in training, with {type(error).__name__}: "{error}"',
            "make it accept a batch of one example",
        ) from error
    if not torch.equal(scores[0].nan_to_num(), scores[2].nan_to_num()):
        raise ConfigError(
            "model",
            "the output of an example depends on earlier ones, which DP-SGD cannot train",
            "remove state that is kept between examples",
        )


def _another(sample: torch.Tensor) -> torch.Tensor:
    return ~sample if sample.dtype == torch.bool else sample + 1


def _starts(module: nn.Module) -> list[tuple[str, int]]:
    """Return the trained parameters and their first indices in the vector."""
    starts, start = [], 0
    for name, weight in models.trained_parameters(module).items():
        starts.append((name, start))
        start += weight.numel()
    return starts


def _floats_each(module: nn.Module, sample: torch.Tensor) -> int:
    return 4 * models.dimension(module) + sample.numel()
