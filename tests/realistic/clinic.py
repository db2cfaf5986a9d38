"""A clinic as its owner writes it: the network on pictures of its own, with averaged BatchNorm statistics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from network import BINS, FEW_BINS, judged, load, network  # type: ignore[import-not-found]
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, TensorDataset

import securefl

PATIENTS = Path(__file__).with_name("patients.npz")


def clinic(name: str) -> securefl.TorchSite:
    """The site of a party; all parties have the same module, each in a folder of its own."""
    del name
    torch.set_num_threads(1)
    x, y = load(PATIENTS, "test")

    def evaluate(model: torch.nn.Module) -> tuple[int, dict[str, Any]]:
        found = judged(model, x, y)
        scores = found.pop("scores")
        return found.pop("samples"), {
            **found,
            "scores": securefl.score_histogram(scores, y.numpy(), bins=BINS),
            "chances": securefl.score_histogram(scores, bins=FEW_BINS),
        }

    return securefl.TorchSite(
        network(),
        DataLoader(TensorDataset(*load(PATIENTS, "train")), batch_size=32, shuffle=True),
        binary_cross_entropy_with_logits,
        lambda weights: torch.optim.SGD(weights, lr=0.01, momentum=0.5),
        buffers="average",
        evaluate=evaluate,
    )


def first_weights(name: str) -> securefl.TorchSite:
    """The site without patients: the server's operator writes the first weights with it."""
    del name
    empty = torch.zeros(1, 1, 16, 16), torch.zeros(1)
    return securefl.TorchSite(
        network(),
        DataLoader(TensorDataset(*empty)),
        binary_cross_entropy_with_logits,
        lambda weights: torch.optim.SGD(weights, lr=0.01),
        buffers="average",
    )
