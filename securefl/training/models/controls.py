"""Control variates (SCAFFOLD) as further parameters of a model."""

import torch
from torch import nn

from securefl.methods import server_optimisers
from securefl.training.models.flatten import trained_parameters

_PREFIX = "control/"
CONTROLS = f"{_PREFIX}*"
"""Pattern of control variates' names."""


def control_name(weight: str) -> str:
    """Return the name of a weight's control variate, without dots."""
    return _PREFIX + weight.replace(".", "/")


def is_control(name: str) -> bool:
    """Return True if an array of a model is a control variate."""
    return name.startswith(_PREFIX)


def add_controls(module: nn.Module) -> nn.Module:
    """Add a control variate, zeros, for each trained parameter, which doubles d; return ``module``.

    No sample passes through them.
    """
    for name, weight in trained_parameters(module).items():
        module.register_parameter(control_name(name), nn.Parameter(torch.zeros_like(weight)))
    return module


def controls_of(module: nn.Module) -> list[nn.Parameter]:
    """Return the control variates of :func:`add_controls`."""
    return [weight for name, weight in trained_parameters(module).items() if is_control(name)]


def without_controls(module: nn.Module) -> list[nn.Parameter]:
    """Return the trained parameters without control variates, in the order of the vector."""
    return [weight for name, weight in trained_parameters(module).items() if not is_control(name)]


def averaged_names(module: nn.Module) -> tuple[str, ...]:
    """Return patterns of the names that the server averages."""
    return CONTROLS, *getattr(module, "averaged", ())


def averaged_state(module: nn.Module) -> server_optimisers.AveragedState:
    """Return the coordinates of the vector that the server averages with any optimiser."""
    sizes = [(name, weight.numel()) for name, weight in trained_parameters(module).items()]
    return server_optimisers.AveragedState.of(sizes, averaged_names(module))
