"""A clinic that shares the body of its network and keeps the head, in a file of its own across restarts.

The data are scikit-learn's digits. Each clinic has its own code list, so that its labels differ from others'.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import securefl

CLINICS = 10
HEAD = "head.*"


def patients(name: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this clinic's samples f32 ``(n, 64)`` and their codes. Yours reads your own files."""
    number = int(name.removeprefix("p"))
    x, y = load_digits(return_X_y=True)
    own = np.random.default_rng(seed).permutation(len(y))[number::CLINICS]
    codes = np.random.default_rng([seed, number]).permutation(10)
    return torch.tensor(x[own] / 16, dtype=torch.float32), torch.tensor(codes[y[own]])


class Net(torch.nn.Module):
    """Body that travels, and head that stays."""

    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU())
        self.head = torch.nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.body(x))
        return scores


class Clinic(securefl.TorchSite):
    """Site whose head is in ``LOCAL/NAME.head.safetensors``, from round to round and from process to process.

    Args:
        name: the party's name.
        folder: folder of the file; the variable LOCAL by default, or the working directory.
        shared: True to send the head as well, as without personalisation.
        seed: of the split of the data.
    """

    def __init__(self, name: str, folder: Path | None = None, *, shared: bool = False, seed: int = 0) -> None:
        x, y = patients(name, seed)
        kept = len(y) // 2
        self.net = Net()
        self.file = (folder or Path(os.environ.get("LOCAL", "."))) / f"{name}.head.safetensors"
        self.shared = shared
        if self.file.exists() and not shared:
            self.net.head.load_state_dict(load_file(self.file))
        self.kept = x[:kept], y[:kept]
        super().__init__(
            self.net,
            DataLoader(TensorDataset(x[kept:], y[kept:]), batch_size=16, shuffle=True),
            cross_entropy,
            lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9),
            epochs=3,
            personal=[] if shared else [HEAD],
            evaluate=self.judge,
        )

    def judge(self, model: torch.nn.Module) -> tuple[int, dict[str, object]]:
        """Return the counts of the kept samples, by true class and by the received body with the own head."""
        x, y = self.kept
        return len(y), {"kept": securefl.confusion(y, model(x).argmax(1), 10)}

    def fit(self, parameters: Any, context: Any) -> Any:
        """Train body and head, and write the head in one step: a crash leaves the former file."""
        result = super().fit(parameters, context)
        if not self.shared:
            part = self.file.with_suffix(".part")
            save_file(self.net.head.state_dict(), part)
            part.replace(self.file)
        return result
