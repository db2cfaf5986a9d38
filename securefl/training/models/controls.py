"""Control variates (SCAFFOLD) as further parameters of a model, which no sample meets.

Arrays of a model that the server averages, by name.
"""

import torch
from torch import nn

from securefl.methods import server_optimisers
from securefl.training.models.flatten import trained_parameters

_PREFIX = "control/"
CONTROLS = f"{_PREFIX}*"
"""Pattern of the names of all control variates."""


def control_name(weight: str) -> str:
    """The name of a weight's control variate, without the dots that torch allows in no parameter's name."""
    return _PREFIX + weight.replace(".", "/")


def is_control(name: str) -> bool:
    """Whether an array of a model is a control variate."""
    return name.startswith(_PREFIX)


def add_controls(module: nn.Module) -> nn.Module:
    """Add a control variate, zeros, for each parameter that is trained: d doubles. Returns ``module``.

    They are the module's own: one that runs its children in order, as a ``Sequential``, does not meet them.
    """
    for name, weight in trained_parameters(module).items():
        module.register_parameter(control_name(name), nn.Parameter(torch.zeros_like(weight)))
    return module


def controls_of(module: nn.Module) -> list[nn.Parameter]:
    """The control variates that :func:`add_controls` has added; empty without."""
    return [weight for name, weight in trained_parameters(module).items() if is_control(name)]


def without_controls(module: nn.Module) -> list[nn.Parameter]:
    """The parameters that samples meet and training changes, in the order of the vector."""
    return [weight for name, weight in trained_parameters(module).items() if not is_control(name)]


def averaged_names(module: nn.Module) -> tuple[str, ...]:
    """Return patterns of the names that the server averages: control variates, and those of the scenario."""
    return CONTROLS, *getattr(module, "averaged", ())


def averaged_state(module: nn.Module) -> server_optimisers.AveragedState:
    """Return the coordinates of the module's vector that the server averages, whatever its optimiser."""
    sizes = [(name, weight.numel()) for name, weight in trained_parameters(module).items()]
    return server_optimisers.AveragedState.of(sizes, averaged_names(module))
