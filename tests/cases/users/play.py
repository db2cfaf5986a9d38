"""Federations of three torch sites, as the cases of users have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import securefl

MSE = torch.nn.functional.mse_loss
SCENARIO = """
name = "t"
parties = 3
[model]
type = "weights"
file = "{file}"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = {rounds}
{extra}
"""


def sgd(rate: float) -> Callable[..., torch.optim.Optimizer]:
    return lambda weights: torch.optim.SGD(weights, lr=rate)


def linear() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 1)


def samples(n: int = 32, seed: int = 1, k: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, k, generator=torch.Generator().manual_seed(seed))
    return x, x.sum(1, keepdim=True)


def loader(n: int = 32, seed: int = 1, **more: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*samples(n, seed)), batch_size=8, **more)


def scenario(folder: Path, first: Mapping[str, Any], rounds: int, extra: str = "", name: str = "f") -> Path:
    """A scenario of these first parameters, in ``folder``."""
    file = folder / f"{name}.safetensors"
    securefl.save_weights(file, first)
    toml = folder / f"{name}.toml"
    toml.write_text(SCENARIO.format(file=file, rounds=rounds, extra=extra))
    return toml


def play(
    folder: Path, site: Callable[[str], Any], rounds: int = 2, extra: str = "", name: str = "f"
) -> securefl.RunResult:
    """Simulate a federation that begins with the parameters of p00's site."""
    toml = scenario(folder, site("p00").parameters(), rounds, extra, name)
    return securefl.simulate(toml, site=site, out=folder / f"out-{name}", seed=1)
