"""Parts of the users' cases. Each case exits with 0 if its result is right, 1 if not, 2 if it is refused."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch.utils.data import DataLoader, TensorDataset

import securefl

torch.set_num_threads(1)
MSE = torch.nn.functional.mse_loss
WORK = Path(tempfile.mkdtemp(prefix="case-", dir=Path.cwd()))
SCENARIO = """name = "t"
parties = 3
[model]
type = "weights"
file = "{file}"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = {rounds}
{more}"""


def sgd(rate: float) -> Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer]:
    return lambda weights: torch.optim.SGD(weights, lr=rate)


def linear() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 1)


def samples(n: int = 32, seed: int = 1, k: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, k, generator=torch.Generator().manual_seed(seed))
    return x, x.sum(1, keepdim=True)


def loader(n: int = 32, seed: int = 1, **more: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*samples(n, seed)), batch_size=8, **more)


def scenario(first: Mapping[str, Any], rounds: int = 2, more: str = "", name: str = "f") -> Path:
    file = WORK / f"{name}.safetensors"
    securefl.save_weights(file, first)
    toml = WORK / f"{name}.toml"
    toml.write_text(SCENARIO.format(file=file, rounds=rounds, more=more))
    return toml


def play(site: Callable[[str], Any], rounds: int = 2, more: str = "", name: str = "f") -> Any:
    toml = scenario(site("p00").parameters(), rounds, more, name)
    return securefl.simulate(toml, site=site, out=WORK / f"out-{name}", seed=1)


def cli(*words: object) -> tuple[int, str]:
    command = ["securefl", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=WORK, check=False)
    return done.returncode, done.stdout + done.stderr


def verdict(*, ok: bool, got: object, right: str) -> NoReturn:
    print("as it should be" if ok else "WRONG", "\n  got:  ", got, "\n  right:", right)
    sys.exit(0 if ok else 1)
