"""Arrays of a model that the server averages, by name."""

from __future__ import annotations

from torch import nn

from securefl.methods import server_optimisers
from securefl.training.models.controls import CONTROLS
from securefl.training.models.flatten import trained_parameters


def averaged_names(module: nn.Module) -> tuple[str, ...]:
    """Return patterns of the names that the server averages: control variates, and those of the scenario."""
    return CONTROLS, *getattr(module, "averaged", ())


def averaged_state(module: nn.Module) -> server_optimisers.AveragedState:
    """Return the coordinates of the module's vector that the server averages, whatever its optimiser."""
    sizes = [(name, weight.numel()) for name, weight in trained_parameters(module).items()]
    return server_optimisers.AveragedState.of(sizes, averaged_names(module))
