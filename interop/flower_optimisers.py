"""Write ``tests/vectors/flower_optimisers.json``: 20 rounds of Flower's server optimisers, by Flower itself.

    .venv-flower/bin/python interop/flower_optimisers.py tests/vectors/flower_optimisers.json

Clients add given numbers to the model that they receive, so that a round's mean change follows from the file.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import flwr
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvgM, FedYogi
from flwr.supercore.task_identity import TaskIdentity

SEED, ROUNDS, CLIENTS, LENGTH = 19, 20, 4, 7
SETTINGS: list[tuple[type, dict[str, float]]] = [
    (FedAvgM, {"server_learning_rate": 1.0, "server_momentum": 0.9}),
    (FedAvgM, {"server_learning_rate": 0.3, "server_momentum": 0.5}),
    (FedAvgM, {"server_learning_rate": 0.5, "server_momentum": 0.0}),
    (FedAdam, {"eta": 0.1, "beta_1": 0.9, "beta_2": 0.99, "tau": 1e-3}),
    (FedAdam, {"eta": 0.01, "beta_1": 0.5, "beta_2": 0.9, "tau": 1e-9}),
    (FedAdam, {"eta": 1.0, "beta_1": 0.0, "beta_2": 0.999, "tau": 0.1}),
    (FedYogi, {"eta": 0.01, "beta_1": 0.9, "beta_2": 0.99, "tau": 1e-3}),
    (FedYogi, {"eta": 0.1, "beta_1": 0.5, "beta_2": 0.9, "tau": 1e-9}),
    (FedYogi, {"eta": 1.0, "beta_1": 0.0, "beta_2": 0.999, "tau": 0.1}),
    (FedAdagrad, {"eta": 0.1, "tau": 1e-3}),
    (FedAdagrad, {"eta": 0.01, "tau": 1e-9}),
    (FedAdagrad, {"eta": 1.0, "tau": 0.1}),
]
RULES = {
    "delta": "sum_c samples[c] changes[round][c] / sum(samples); t counts rounds from 1; m and v begin at 0",
    "FedAvgM": "m = -delta in round 1, then server_momentum m - delta; x -= server_learning_rate m. "
    "No dampening, no Nesterov. With server_momentum 0: x += server_learning_rate delta",
    "FedAdam": "m = beta_1 m + (1 - beta_1) delta; v = beta_2 v + (1 - beta_2) delta^2; "
    "x += eta sqrt(1 - beta_2^(t + 1)) / (1 - beta_1^(t + 1)) m / (sqrt(v) + tau). "
    "The exponent is t + 1, so 2 in round 1: one more than in Kingma and Ba",
    "FedYogi": "m as FedAdam; v = v - (1 - beta_2) delta^2 sign(v - delta^2); x += eta m / (sqrt(v) + tau). "
    "No correction of bias",
    "FedAdagrad": "m = delta; v = v + delta^2; x += eta m / (sqrt(v) + tau)",
    "eta_l": "the clients' rate is stored by Flower and used nowhere",
}


class Clients(Grid):
    """Every client adds its change of the round to the model that comes."""

    def __init__(self, changes: np.ndarray, samples: list[int]) -> None:
        self._changes, self._samples = changes, samples
        self.models: list[np.ndarray] = []

    def set_run(self, run: object) -> None:
        """Nothing to do."""

    @property
    def run(self) -> object:
        """None that anybody asks for."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """Flower's numbers of nodes begin at 1 here."""
        return range(1, len(self._samples) + 1)

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """Strategies make their own."""
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Strategies wait for replies."""
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As above."""
        raise NotImplementedError

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Return the replies of all clients."""
        del timeout
        return list(self._replies(messages))

    def _replies(self, messages: Iterable[Message]) -> Iterator[Message]:
        for message in sorted(messages, key=lambda sent: sent.metadata.dst_node_id):
            client = message.metadata.dst_node_id - 1
            number = int(message.content["config"]["server-round"]) - 1
            model = message.content["arrays"]["x"].numpy()
            if client == 0 and number:
                self.models.append(model)
            arrays = ArrayRecord({"x": Array(model + self._changes[number][client])})
            metrics = MetricRecord({"num-examples": self._samples[client]})
            yield Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def models(strategy: Any, first: np.ndarray, changes: np.ndarray, samples: list[int]) -> list[np.ndarray]:
    """Return the model after each round."""
    clients = Clients(changes, samples)
    record = ArrayRecord({"x": Array(first)})
    result = strategy.start(clients, record, num_rounds=len(changes))
    return [*clients.models, result.arrays["x"].numpy()]


def main(out: Path) -> None:
    """Write the file."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    # What messages say of their sender.
    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
    random = np.random.default_rng(SEED)
    first = random.normal(size=LENGTH)
    # Coordinates of several sizes; the last never changes.
    sizes = np.array([1.0, 1.0, 0.3, 0.1, 0.01, 1e-4, 0.0])
    drift = random.normal(size=LENGTH)
    changes = sizes * (drift + random.normal(size=(ROUNDS, CLIENTS, LENGTH)))
    samples = [int(count) for count in random.integers(10, 200, CLIENTS)]
    cases = []
    for kind, settings in SETTINGS:
        strategy = kind(fraction_evaluate=0.0, **settings)
        after = models(strategy, first, changes, samples)
        cases.append({"strategy": kind.__name__, **settings, "models": [model.tolist() for model in after]})
    told = {
        "source": f"Written by interop/flower_optimisers.py with flwr {flwr.__version__}, "
        f"flwr.serverapp.strategy, numpy {np.__version__}, float64, default_rng({SEED})",
        "rules": RULES,
        "first": first.tolist(),
        "samples": samples,
        "changes": changes.tolist(),
        "cases": cases,
    }
    out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
