"""Model, data and training; nothing of Flower."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small network with batch normalisation: its state has buffers, one of them an integer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hidden = nn.Linear(64, 32)
        self.norm = nn.BatchNorm1d(32)
        self.out = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.out(torch.relu(self.norm(self.hidden(x))))
        return scores


def load_data(site: int, sites: int) -> tuple[TensorDataset, TensorDataset]:
    """Return a site's training and test data: every so-manieth digit, a fifth of them for tests."""
    x, y = load_digits(return_X_y=True)
    own = slice(site, None, sites)
    inputs = torch.tensor(x[own] / 16, dtype=torch.float32)
    labels = torch.tensor(y[own], dtype=torch.int64)
    test = torch.arange(len(labels)) % 5 == 0
    return TensorDataset(inputs[~test], labels[~test]), TensorDataset(inputs[test], labels[test])


def train(net: nn.Module, data: TensorDataset, lr: float, batch_size: int, seed: int) -> float:
    """One epoch; the mean loss."""
    torch.set_num_threads(1)
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(data, batch_size, shuffle=True, generator=order)
    optimiser = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    total = 0.0
    for inputs, labels in loader:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(inputs), labels)
        loss.backward()
        optimiser.step()
        total += loss.item() * len(labels)
    return total / len(data)


def test(net: nn.Module, data: TensorDataset) -> tuple[float, float]:
    """Mean loss and accuracy."""
    torch.set_num_threads(1)
    inputs, labels = data.tensors
    net.eval()
    with torch.no_grad():
        scores = net(inputs)
    loss = nn.functional.cross_entropy(scores, labels).item()
    return loss, (scores.argmax(1) == labels).float().mean().item()
