"""A site whose code prints: by Python, below it, from a child process, and as it is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import securefl
from tests.cases.users.play import MSE, linear, loader, sgd

print("imported")


class Site(securefl.TorchSite):
    def __init__(self, name: str) -> None:
        super().__init__(linear(), loader(seed=1 + int(name[1:])), MSE, sgd(0.05), evaluate=self._judged)

    def _judged(self, model: object) -> tuple[int, dict[str, float]]:
        print("evaluated", flush=True)
        os.write(1, b"written to the descriptor\n")
        subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
        print("left in the buffer", end="", file=sys.__stdout__)
        return 32, {"mse": 1.0}
