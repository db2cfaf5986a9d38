"""The server that Flower runs; securefl has its own."""

import json
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from flower_app.task import Net

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(min_available_nodes=5, min_train_nodes=5, min_evaluate_nodes=5)
    result = strategy.start(
        grid,
        ArrayRecord(Net().state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
        train_config=ConfigRecord({"lr": 0.1}),
    )
    told = {
        "accuracy": [record["accuracy"] for record in result.evaluate_metrics_clientapp.values()],
        "model": {name: array.numpy().tolist() for name, array in result.arrays.items()},
    }
    Path(context.run_config["out"]).write_text(json.dumps(told))
