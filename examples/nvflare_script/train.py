"""A client script as NVFlare runs it: breast cancer data, a small torch network."""

import argparse

import nvflare.client as flare
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

SITES = 5


class Net(nn.Sequential):
    """From 30 measurements to one score."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(nn.Linear(30, 8), nn.Tanh(), nn.Linear(8, 1))


def load_data(site: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Every fifth patient, from the number in the site's name on."""
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    own = slice(int(site.removeprefix("p")), None, SITES)
    return torch.tensor(x[own], dtype=torch.float32), torch.tensor(y[own], dtype=torch.float32)


def samples(site: str) -> int:
    """How many patients a site has: NVFlare does not ask, securefl does before training."""
    return len(load_data(site)[1])


def main() -> None:
    """Train whatever comes, with the optimiser that the script began with."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--diff", action="store_true", help="send differences")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    flare.init()
    x, y = load_data(flare.get_site_name())
    net = Net()
    # It lives as long as the script: its momentum goes on from round to round.
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    while flare.is_running():
        received = flare.receive()
        net.load_state_dict(received.params)
        with torch.no_grad():
            right = ((net(x)[:, 0] > 0) == (y > 0.5)).float().mean().item()
        for _ in range(asked.epochs):
            optimiser.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(net(x)[:, 0], y)
            loss.backward()
            optimiser.step()
        print(f"round {received.current_round}: accuracy of the model received {right:.4f}")
        params = net.state_dict()
        if asked.diff:
            params = {name: after - received.params[name] for name, after in params.items()}
        flare.send(
            flare.FLModel(
                params=params,
                params_type=flare.ParamsType.DIFF if asked.diff else flare.ParamsType.FULL,
                metrics={"accuracy": right},
                meta={"NUM_STEPS_CURRENT_ROUND": asked.epochs},
            )
        )


if __name__ == "__main__":
    main()
