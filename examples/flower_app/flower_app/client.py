"""The client in Flower's message API."""

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch.utils.data import TensorDataset

from flower_app.task import Net, load_data, test, train

app = ClientApp()


def data(context: Context) -> tuple[TensorDataset, TensorDataset]:
    config = context.node_config
    own: tuple[TensorDataset, TensorDataset] = load_data(
        int(config["partition-id"]), int(config["num-partitions"])
    )
    return own


def samples(context: Context) -> int:
    """How many samples a party has: Flower does not ask, securefl does before training."""
    return len(data(context)[0])


@app.train()
def fit(message: Message, context: Context) -> Message:
    """Train; the learning rate falls with the rounds of this client, which its state counts."""
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    own, _ = data(context)
    before = context.state["trained"]["rounds"] if "trained" in context.state else 0
    context.state["trained"] = ConfigRecord({"rounds": before + 1})
    config = message.content["config"]
    lr = config["lr"] * 0.9**before
    loss = train(net, own, lr, context.run_config["batch-size"], seed=config["server-round"])
    metrics = MetricRecord({"loss": loss, "rounds": before + 1, "num-examples": len(own)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    _, own = data(context)
    loss, accuracy = test(net, own)
    metrics = MetricRecord({"loss": loss, "accuracy": accuracy, "num-examples": len(own)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
