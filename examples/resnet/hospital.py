"""A hospital whose pictures look unlike others': torchvision's ResNet-18 with BatchNorm of its own (FedBN).

Pictures are CIFAR-10's, from a batch file for each hospital in the folder that the variable PICTURES names;
without it scikit-learn's digits, 16 x 16. Each hospital sees them through a device of its own.
"""

import gzip
import os
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import securefl

try:
    from torchvision.models import resnet18
except RuntimeError:
    # PyPI's wheel links CUDA, so that its C++ operators are missing beside a torch for CPUs. Its import needs
    # the schemas of these two, and no classifier calls them.
    for operator in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
    from torchvision.models import resnet18

HOSPITALS = 3
DEVICES = ((1.0, 0.0), (0.3, 0.0), (-1.0, 1.0))
"""Gain and offset of each: as it is, dark, a negative."""


def pictures(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this hospital's pictures f32 ``(n, 3, h, w)``, and their classes. Yours reads your own files."""
    number = int(name.removeprefix("p"))
    if folder := os.environ.get("PICTURES"):
        batch = gzip.decompress((Path(folder) / f"data_batch_{number + 1}.bin.gz").read_bytes())
        records = np.frombuffer(batch, dtype=np.uint8).reshape(-1, 3073)
        x, y = records[:, 1:].reshape(-1, 3, 32, 32) / 255, records[:, 0]
    else:
        grey, y = load_digits(return_X_y=True)
        x = np.repeat(grey.reshape(-1, 1, 8, 8) / 16, 3, axis=1).repeat(2, axis=2).repeat(2, axis=3)
        x, y = x[number::HOSPITALS], y[number::HOSPITALS]
    gain, offset = DEVICES[number]
    return torch.tensor(gain * x + offset, dtype=torch.float32), torch.tensor(y, dtype=torch.int64)


def normalisations(model: torch.nn.Module) -> list[str]:
    """Patterns for the parameters of its BatchNorm layers."""
    return [f"{n}.*" for n, part in model.named_modules() if isinstance(part, torch.nn.BatchNorm2d)]


def Hospital(name: str) -> securefl.TorchSite:
    """Convolutions and the last layer travel. BatchNorm stays: its buffers anyway, scales by ``personal``."""
    model = resnet18(num_classes=10)
    return hospital(name, model, normalisations(model))


def hospital(
    name: str, model: torch.nn.Module, personal: list[str], buffers: Literal["local", "average"] = "local"
) -> securefl.TorchSite:
    """Return a hospital that keeps these parameters to itself. A fifth of its pictures is for tests."""
    x, y = pictures(name)
    kept = len(y) // 5

    def evaluate(model: torch.nn.Module) -> tuple[int, dict[str, object]]:
        found = torch.cat([model(part).argmax(1) for part in x[:kept].split(200)])
        return kept, {"kept": securefl.confusion(y[:kept], found, 10)}

    return securefl.TorchSite(
        model,
        DataLoader(TensorDataset(x[kept:], y[kept:]), batch_size=32, shuffle=True, drop_last=True),
        cross_entropy,
        lambda weights: torch.optim.Adam(weights, lr=0.001),
        personal=personal,
        buffers=buffers,
        evaluate=evaluate,
        samples=len(y) - kept,
    )
