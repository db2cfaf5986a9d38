"""The server of the older client, with Flower's older strategies."""

import json
from pathlib import Path

import numpy as np
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg

from flower_app.task import Net


def server_fn(context: Context) -> ServerAppComponents:
    out = Path(context.run_config["out"])
    accuracies: list[float] = []
    model: dict[str, list[float]] = {}

    def mean(metrics: list[tuple[int, dict[str, float]]]) -> dict[str, float]:
        total = sum(count for count, _ in metrics)
        accuracies.append(sum(count * one["accuracy"] for count, one in metrics) / total)
        out.write_text(json.dumps({"accuracy": accuracies, "model": model}))
        return {"accuracy": accuracies[-1]}

    def keep(number: int, arrays: list[np.ndarray], _config: object) -> tuple[float, dict[str, float]]:
        model.update(zip(Net().state_dict(), [array.tolist() for array in arrays], strict=True))
        return 0.0, {}

    strategy = FedAvg(
        min_fit_clients=5,
        min_available_clients=5,
        min_evaluate_clients=5,
        initial_parameters=ndarrays_to_parameters([a.numpy() for a in Net().state_dict().values()]),
        on_fit_config_fn=lambda number: {"lr": 0.1, "server_round": number},
        evaluate_metrics_aggregation_fn=mean,
        evaluate_fn=keep,
    )
    return ServerAppComponents(
        strategy=strategy, config=ServerConfig(num_rounds=context.run_config["num-server-rounds"])
    )


app = ServerApp(server_fn=server_fn)
