"""ContinualAI/avalanche PR#772, pytorch/pytorch#66073: train() puts a frozen BatchNorm in training mode."""

from __future__ import annotations

import torch

import securefl
from tests.cases.users.common import play, verdict
from tests.cases.users.play import MSE, loader, sgd

models: dict[str, torch.nn.Module] = {}


def site(name: str) -> securefl.TorchSite:
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(4).eval().requires_grad_(requires_grad=False)
    models[name] = torch.nn.Sequential(torch.nn.Linear(4, 4), norm, torch.nn.Linear(4, 1))

    def evaluate(model: torch.nn.Module) -> tuple[int, dict[str, float]]:
        assert not any(module.training for module in model.modules())
        return 32, {}

    return securefl.TorchSite(models[name], loader(), MSE, sgd(0.05), evaluate=evaluate)


play(site, 3)
means = [model.get_buffer("1.running_mean") for model in models.values()]
first = models["p00"]
trained = first.get_submodule("0").training and not first.get_submodule("1").training
verdict(
    ok=all(bool((mean == 0).all()) for mean in means) and trained,
    got=f"running means {[mean.tolist() for mean in means]}; other layers in training mode: {trained}",
    right="zeros, as given",
)
