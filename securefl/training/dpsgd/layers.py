"""Per-example gradients of modules of known layers, from one forward and one backward pass of the batch.

A dense layer's gradients are outer products of slope and input; a convolution's are one product of small
matrices for each example (docs/adr/0013-per-example-gradients.md).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import torch
from torch import nn
from torch.nn import functional

from securefl.base.arrays import BoolArray
from securefl.training import models
from securefl.training.dpsgd.examples import (
    ExampleBlock,
    Examples,
    Losses,
    OuterProducts,
    Rows,
    example_losses,
)

_KNOWN: Final = (
    nn.Sequential, models.Residual, nn.Linear, nn.GroupNorm, models.Images, nn.Identity, nn.ReLU,
    nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.MaxPool2d, nn.AvgPool2d,
    nn.AdaptiveAvgPool2d,
)  # fmt: skip
"""Known layers that process each example alone, besides some convolutions and flattening."""


class _Kept(NamedTuple):
    """Data that a layer with parameters keeps of one pass."""

    layer: nn.Module
    inputs: torch.Tensor
    outputs: torch.Tensor


class Layers:
    """:class:`~securefl.training.dpsgd.ways.Way` for modules that :func:`layers_of` supports.

    ``starts`` has the index of each layer's first parameter in the vector.
    """

    def __init__(
        self, module: nn.Module, starts: Mapping[nn.Module, int], losses: Losses = example_losses
    ) -> None:
        self._module = module
        self._starts = starts
        self._losses = losses

    def examples(self, x: torch.Tensor, y: torch.Tensor, present: BoolArray | None = None) -> Examples:
        """Return the gradients of all examples."""
        del present
        kept: list[_Kept] = []
        losses = self._losses(_forward(self._module, x, kept), y)
        slopes = torch.autograd.grad(losses.sum(), [each.outputs for each in kept])
        with torch.inference_mode():
            return Examples(
                [
                    _block(each.layer, self._starts[each.layer], each.inputs, slope)
                    for each, slope in zip(kept, slopes, strict=True)
                ]
            )

    def floats_each(self, sample: torch.Tensor) -> int:
        """Return the f32 values that one example's passes keep, given ``sample``, (1, ...)."""
        kept: list[_Kept] = []
        with torch.no_grad():
            _forward(self._module, sample, kept)
        floats, patches = sample.numel(), 0
        for layer, inputs, outputs in kept:
            # These are outputs, results of an activation and a norm, and slopes; f64 counts twice.
            floats += 6 * outputs.numel()
            if isinstance(layer, nn.Linear) and inputs.dim() == 2:
                floats += 2 * (inputs.numel() + outputs.numel())
            else:
                floats += 2 * sum(weight.numel() for weight in layer.parameters())
            if isinstance(layer, nn.Conv2d):
                patches = max(patches, layer.weight[0].numel() * outputs[0, 0].numel())
        return floats + patches


def layers_of(module: nn.Module, losses: Losses = example_losses) -> Layers | None:
    """Return the way for known layers; None if one is unknown, shared, partly frozen or has a hook.

    Each parameter must belong to one layer that is called once, so that its gradient follows from that
    layer's inputs and slopes. No layer may work in place.
    """
    parts = [part for _, part in module.named_modules(remove_duplicate=False)]
    if len({id(part) for part in parts}) < len(parts) or not all(_is_known_layer(part) for part in parts):
        return None
    starts, start = {}, 0
    for part in parts:
        starts[part] = start
        start += sum(weight.numel() for weight in part.parameters(recurse=False))
    # Tied parameters count more than once.
    alone = start == sum(weight.numel() for weight in module.parameters())
    moving = all(weight.requires_grad for weight in module.parameters())
    return Layers(module, starts, losses) if alone and moving else None


def _is_known_layer(part: nn.Module) -> bool:
    """Return True for exactly the known classes: subclasses may compute anything."""
    hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    if any(hooks) or getattr(part, "inplace", False) or "forward" in vars(part):
        return False
    match part:
        case nn.Flatten():
            return type(part) is nn.Flatten and part.start_dim >= 1
        case nn.Conv2d():
            plain = part.groups == 1 and part.padding_mode == "zeros" and not isinstance(part.padding, str)
            return type(part) is nn.Conv2d and plain
        case _:
            return type(part) in _KNOWN


def _forward(part: nn.Module, x: torch.Tensor, kept: list[_Kept]) -> torch.Tensor:
    """Return the scores of ``x`` and append the data for :func:`_block` to ``kept``.

    Hooks fail if two threads share a module.
    """
    match part:
        case nn.Sequential():
            for child in part:
                x = _forward(child, x, kept)
            return x
        case models.Residual():
            pooled: torch.Tensor = part.pool(x + _forward(part.layers, x, kept))
            return pooled
        case _:
            scores: torch.Tensor = part(x)
            if part._parameters.get("weight") is not None:
                kept.append(_Kept(part, x.detach(), scores))
            return scores


def _block(layer: nn.Module, start: int, inputs: torch.Tensor, slopes: torch.Tensor) -> ExampleBlock:
    """Return a layer's part of the gradients, from its inputs and slopes."""
    if isinstance(layer, nn.Linear) and inputs.dim() == 2:
        return OuterProducts(start, inputs.double(), slopes.double(), layer.bias is not None)
    sizes = [weight.numel() for weight in layer.parameters()]
    rows = torch.empty(len(inputs), sum(sizes), dtype=torch.float64, device=inputs.device)
    weight, *bias = torch.split(rows, sizes, dim=1)
    match layer:
        case nn.Linear():
            inputs, slopes = inputs.flatten(1, -2), slopes.flatten(1, -2).mT
            weight.view(len(rows), *layer.weight.shape).copy_(slopes @ inputs)
        case nn.Conv2d():
            products = _patches(layer, inputs, slopes.shape) @ slopes.flatten(2).mT
            weight.view(products.mT.shape).copy_(products.mT)
        case nn.GroupNorm():
            normal = functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
            weight.copy_((slopes * normal).reshape(*slopes.shape[:2], -1).sum(dim=2))
    for part in bias:
        part.copy_(slopes.reshape(*slopes.shape[:2], -1).sum(dim=2))
    return Rows(start, rows)


def _patches(layer: nn.Conv2d, inputs: torch.Tensor, outputs: torch.Size) -> torch.Tensor:
    """Return the inputs of each weight at each output position, (n, weights of a kernel, positions).

    Five times as fast as ``unfold``.
    """
    down, across = cast("tuple[int, int]", layer.padding)  # not a string, see _is_known_layer
    padded = functional.pad(inputs, (across, across, down, down))
    example, channel, row, column = padded.stride()
    steps = [by * stride for by, stride in zip(layer.dilation, (row, column), strict=True)]
    places = [by * stride for by, stride in zip(layer.stride, (row, column), strict=True)]
    shape = (*padded.shape[:2], *layer.kernel_size, *outputs[-2:])
    view = padded.as_strided(shape, (example, channel, *steps, *places))
    return view.reshape(len(inputs), layer.weight[0].numel(), -1)
