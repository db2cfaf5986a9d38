"""pytorch/pytorch PR#102212 and #188166 (assign=True replaces parameter objects).

A train= that puts its best epoch back.
"""

from __future__ import annotations

import torch

import securefl
from tests.cases.users.common import play, verdict
from tests.cases.users.play import MSE, linear, samples

begun: dict[tuple[str, int], torch.Tensor] = {}
SLOPES = {"p00": 1.0, "p01": 5.0, "p02": 9.0}


def site(name: str) -> securefl.TorchSite:
    x, _ = samples()
    y = SLOPES[name] * x.sum(1, keepdim=True)

    def train(model: torch.nn.Module, context: securefl.RoundContext) -> dict[str, float]:
        begun[name, context.number] = model.get_parameter("weight").detach().clone()
        steps, best, kept = torch.optim.SGD(model.parameters(), lr=0.05), 1e9, dict(model.state_dict())
        for _ in range(5):
            steps.zero_grad()
            loss = MSE(model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            steps.step()
            if loss.item() < best:
                best, kept = loss.item(), {key: value.clone() for key, value in model.state_dict().items()}
        model.load_state_dict(kept, assign=True)
        return {"loss": best}

    return securefl.TorchSite(linear(), train=train, samples=32)


try:
    result = play(site, 8)
except securefl.ConfigError as error:
    verdict(ok=True, got=error, right="refused")
same = torch.allclose(begun["p00", 1], begun["p02", 1])
weights = result.arrays()["weight"]
verdict(
    ok=same and abs(weights - 5).max() < 1.5,
    got=f"model {weights.ravel()}; sites begin round 1 at the same model: {same}",
    right="about 5 everywhere, the mean of the sites; or the site fails by name",
)
