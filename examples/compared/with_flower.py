"""Ten sites, one attacker and a trimmed mean in Flower."""

import task
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedTrimmedAvg
from flwr.simulation import run_simulation
from torch import Tensor

client, server = ClientApp(), ServerApp()


def attacked(begun: dict[str, Tensor], trained: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: begun[name] + task.FACTOR * (one - begun[name]) for name, one in trained.items()}


@client.train()
def train(message: Message, context: Context) -> Message:
    site = int(context.node_config["partition-id"])
    begun, model = message.content["arrays"].to_torch_state_dict(), task.new_model()
    model.load_state_dict(begun)
    task.train(model, site)
    trained = attacked(begun, model.state_dict()) if site == task.ATTACKER else model.state_dict()
    metrics = MetricRecord({"num-examples": len(task.site_data(site))})
    return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=message)


rule = FedTrimmedAvg(beta=0.1, fraction_evaluate=0.0, min_train_nodes=10, min_available_nodes=10)


@server.main()
def main(grid: Grid, context: Context) -> None:
    first = ArrayRecord(task.new_model().state_dict())
    rule.start(grid, first, num_rounds=task.ROUNDS, evaluate_fn=evaluate)


def evaluate(round_: int, arrays: ArrayRecord) -> None:
    model = task.new_model()
    model.load_state_dict(arrays.to_torch_state_dict())
    if round_ > 0:
        print(task.accuracy(model))


run_simulation(server, client, num_supernodes=task.SITES)
