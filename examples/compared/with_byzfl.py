"""Ten sites, one attacker and a trimmed mean in ByzFL."""

import task
import torch
from byzfl import ByzantineClient, Client, Server
from byzfl.fed_framework import models
from torch.utils.data import DataLoader, TensorDataset

models.digits = task.new_model
shared: dict[str, object] = {"model_name": "digits", "device": "cpu", "optimizer_name": "SGD"}
shared |= {"learning_rate": task.LEARNING_RATE, "weight_decay": 0.0}
shared |= {"milestones": [], "learning_rate_decay": 1.0}
training = shared | {"loss_name": "CrossEntropyLoss", "nb_labels": 10, "momentum": 0.0}
training |= {"LabelFlipping": False, "store_per_client_metrics": False}
clients = [Client(training | {"training_dataloader": task.loader(site)}) for site in range(task.SITES)]

attack = ByzantineClient({"name": "InnerProductManipulation", "f": 1, "parameters": {"tau": -task.FACTOR}})

rule = {"aggregator_info": {"name": "TrMean", "parameters": {"f": 1}}, "pre_agg_list": []}

tests = DataLoader(TensorDataset(*task.digits(test=True)), batch_size=360)
server = Server(shared | rule | {"test_loader": tests})
for _ in range(task.ROUNDS):
    begun = server.get_flat_parameters()
    updates: list[torch.Tensor] = []
    for site, client in enumerate(clients):
        client.set_model_state(server.get_dict_parameters())
        client.compute_model_update(len(client.training_dataloader))
        update = client.get_flat_parameters() - begun
        updates += attack.apply_attack(update[None]) if site == task.ATTACKER else [update]
    server.set_parameters(begun + server.aggregate(torch.stack(updates)))

    print(server.compute_test_accuracy())
