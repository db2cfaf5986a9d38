"""pytorch/pytorch#158519, huggingface/pytorch-image-models PR#2003, NVIDIA/apex#647.

One site compiles its model, another does not.
"""

from __future__ import annotations

from typing import Any

import torch

import securefl
from tests.cases.users.common import play, verdict
from tests.cases.users.play import MSE, linear, loader, sgd

RIGHT = "names without _orig_mod. (and module.): the same model, compiled or not"


def site(name: str) -> securefl.TorchSite:
    model: Any = linear()
    if name == "p01":
        model = torch.compile(model, backend="eager")
    return securefl.TorchSite(model, loader(), MSE, sgd(0.05))


try:
    names = list(play(site, 1).arrays())
except securefl.ConfigError as error:
    verdict(ok=False, got=error, right=RIGHT)
verdict(ok=not any("_orig_mod" in name for name in names), got=names, right=RIGHT)
