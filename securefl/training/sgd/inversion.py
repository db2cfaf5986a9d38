"""Gradient inversion: pictures of the samples in a sum of updates.

An attacker who knows less than these functions does no better.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from securefl.base.arrays import F32, F64, I64, expect
from securefl.base.errors import UsageError
from securefl.training import models

_QUIET = 1e-3
"""Least movement of a neuron's bias over the largest; below it a candidate is mostly noise."""


_MEMORY = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Settings of the search of :func:`match_gradient`."""

    steps: int = 300
    rate: float = 0.1
    """Length of steps along the signs of the gradient, in standardised units; ends at a hundredth."""
    smoothness: float = 1e-3
    """Weight of the total variation, which prefers smooth pictures."""


def from_neurons(module: torch.nn.Module, gradient: F64) -> F64:
    """Return one candidate per neuron of the first layer, f64 ``(k, features)``, in the inputs' units.

    If one sample alone activates a neuron, the gradient of its weights over that of its bias *is* the sample
    (Phong et al. 2018, IEEE TIFS 13(5), section III; Boenisch et al. 2023, arXiv 2112.02918).

    ``gradient`` is that of the loss, or any multiple, f64 ``(d,)``. Neurons whose bias did not move have no
    candidate. For updates of several steps a candidate is a mixture of samples.

    Raises:
        UsageError: the model does not begin with a dense layer, or the gradient does not fit.
    """
    expect(gradient, "gradient", np.float64, (models.dimension(module),))
    layers = [m for m in module.modules() if list(m.parameters(recurse=False))]
    first = layers[0] if layers else None
    if not isinstance(first, torch.nn.Linear) or first.bias is None:
        raise UsageError(
            "cannot invert gradients: the first layer of the model must be dense (torch.nn.Linear)"
            " with biases"
        )
    if not all(weight.requires_grad for weight in first.parameters()):
        raise UsageError(
            "cannot invert gradients: the first layer of the model must be trainable; set requires_grad"
        )
    neurons, features = first.weight.shape
    weights = gradient[: neurons * features].reshape(neurons, features)
    biases = gradient[neurons * features : neurons * (features + 1)]
    moved = np.abs(biases) > _QUIET * max(float(np.abs(biases).max()), 1e-300)
    candidates: F64 = weights[moved] / biases[moved, None]
    return candidates


def match_gradient(
    module: torch.nn.Module,
    params: F32,
    gradient: F64,
    labels: I64,
    input_shape: tuple[int, ...],
    *,
    seed: int,
    search: Search | None = None,
) -> F64:
    """Search for samples whose mean gradient at ``params`` has the direction of ``gradient``.

    ``params`` and ``gradient`` are f32 and f64 ``(d,)``, ``labels`` i64 ``(n,)``, the result f64 ``(n,
    *input_shape)``; ``input_shape`` is (height, width) or (channels, height, width).

    Source: Geiping et al. 2020 (arXiv 2003.14053). Costs about three times as much as ``steps`` trainings on
    a batch of n.

    Raises:
        UsageError: the arguments do not fit.
    """
    expect(gradient, "gradient", np.float64, (models.dimension(module),))
    expect(labels, "labels", np.int64, (None,))
    how = search or Search()
    models.load_vector(module, params)
    module.train()
    weights = list(models.trained_parameters(module).values())
    wanted = torch.from_numpy(gradient.astype(np.float32))
    y = torch.from_numpy(labels)
    with models.seed_torch(seed):
        x = torch.randn((len(labels), *input_shape)).requires_grad_()
        moving = torch.zeros_like(x)
        for step in range(how.steps):
            loss = cross_entropy(module(x), y)
            slopes = torch.autograd.grad(loss, weights, create_graph=True)
            found = torch.cat([slope.reshape(-1) for slope in slopes])
            far = 1 - torch.cosine_similarity(found, wanted, dim=0) + how.smoothness * _variation(x)
            (slope,) = torch.autograd.grad(far, [x])
            # The squares of signs are 1, so only Adam's mean remains.
            moving.mul_(_MEMORY).add_(slope.sign(), alpha=1 - _MEMORY)
            rate = how.rate * 0.1 ** sum(step >= share * how.steps for share in (0.5, 0.8))
            with torch.no_grad():
                x -= rate / (1 - _MEMORY ** (step + 1)) * moving
    samples: F64 = x.detach().double().numpy()
    return samples


def _variation(x: torch.Tensor) -> torch.Tensor:
    """Return the mean absolute difference of neighbouring pixels."""
    return x.diff(dim=-1).abs().mean() + x.diff(dim=-2).abs().mean()
