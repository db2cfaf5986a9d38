"""The same client as an older ``NumPyClient``."""

from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context

from flower_app.client import data, samples  # noqa: F401 - securefl asks for samples
from flower_app.task import Net, test, train

Arrays = list[np.ndarray]
Metrics = dict[str, float]


class Client(NumPyClient):
    """Arrays come and go in the order of the state."""

    def __init__(self, context: Context) -> None:
        self.net = Net()
        self.own, self.test = data(context)
        self.batch_size = context.run_config["batch-size"]

    def take(self, parameters: Arrays) -> None:
        state = zip(self.net.state_dict(), parameters, strict=True)
        self.net.load_state_dict(OrderedDict((name, torch.from_numpy(array)) for name, array in state))

    def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, Metrics]:
        self.take(parameters)
        number = config["server_round"]
        loss = train(self.net, self.own, config["lr"] * 0.9 ** (number - 1), self.batch_size, seed=number)
        arrays = [array.numpy() for array in self.net.state_dict().values()]
        return arrays, len(self.own), {"loss": loss}

    def evaluate(self, parameters: Arrays, config: dict[str, Any]) -> tuple[float, int, Metrics]:
        self.take(parameters)
        loss, accuracy = test(self.net, self.test)
        return loss, len(self.test), {"accuracy": accuracy}


def client_fn(context: Context) -> Any:
    return Client(context).to_client()


app = ClientApp(client_fn)
