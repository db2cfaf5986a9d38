"""Ten sites, one attacker and a trimmed mean in pfl-research."""

import task
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.context import CentralContext, UserContext
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import MinimizeReuseUserSampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.postprocessor.base import Postprocessor
from pfl.stats import MappedVectorStatistics


class Digits(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = task.new_model()

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, object]:
        return {}


def site(user: str) -> PyTorchTensorDataset:
    return PyTorchTensorDataset(task.site_data(int(user)).tensors, user_id=user)


module = Digits()
model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
sites = FederatedDataset(site, MinimizeReuseUserSampler([str(number) for number in range(task.SITES)]))


class Attack(Postprocessor):
    def postprocess_one_user(
        self, *, stats: MappedVectorStatistics, user_context: UserContext
    ) -> tuple[MappedVectorStatistics, Metrics]:
        if user_context.user_id == str(task.ATTACKER):
            stats = stats.apply_elementwise(lambda one: one * task.FACTOR)
        return stats, Metrics()


class TrimmedMean(Postprocessor):
    def __init__(self) -> None:
        self.updates: list[MappedVectorStatistics] = []

    def postprocess_one_user(
        self, *, stats: MappedVectorStatistics, user_context: UserContext
    ) -> tuple[MappedVectorStatistics, Metrics]:
        self.updates.append(stats.apply_elementwise(torch.clone))
        return stats, Metrics()

    def postprocess_server(
        self, *, stats: MappedVectorStatistics, central_context: CentralContext, aggregate_metrics: Metrics
    ) -> tuple[MappedVectorStatistics, Metrics]:
        stacks = {name: torch.stack([one[name] for one in self.updates]) for name in stats}
        self.updates.clear()
        means = {name: stack.sort(0).values[1:-1].mean(0) for name, stack in stacks.items()}
        return MappedVectorStatistics(means, weight=1.0), Metrics()


class Accuracy(TrainingProcessCallback):
    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        print(task.accuracy(model.pytorch_model.net))
        return False, Metrics()


FederatedAveraging().run(
    NNAlgorithmParams(
        task.ROUNDS, evaluation_frequency=1, train_cohort_size=task.SITES, val_cohort_size=None
    ),
    SimulatedBackend(sites, sites, postprocessors=[Attack(), TrimmedMean()]),
    model,
    NNTrainHyperParams(
        local_num_epochs=1, local_learning_rate=task.LEARNING_RATE, local_batch_size=task.BATCH
    ),
    callbacks=[Accuracy()],
    send_metrics_to_platform=False,
)
