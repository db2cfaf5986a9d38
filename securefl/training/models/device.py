"""The device that computes. Importing this leaves CUDA alone: party processes fork before they decide."""

from __future__ import annotations

from typing import Literal

import torch

from securefl.base.errors import ConfigError


def pick_device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device for ``training.device``: ``auto`` is CUDA where there is one, else the CPU.

    Raises:
        ConfigError: ``cuda`` was asked for and torch finds none.
    """
    if wanted == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        # Convolutions are in single precision, as everywhere else: TF32 has 13 bits less, and the sensitivity
        # reckons with the rounding of single precision.
        torch.backends.cudnn.allow_tf32 = False
        return torch.device("cuda")
    if wanted == "cuda":
        reason = "torch finds no CUDA device"
        if torch.version.cuda is None:
            reason = "this build of torch has no CUDA support"
        raise ConfigError("training.device", reason, 'set it to "auto" or "cpu"')
    return torch.device("cpu")


def limit_threads() -> None:
    """One torch thread: with a process or a thread per party, more only fight over the cores.

    To be called in each thread that trains. The linear algebra library (MKL) keeps its number of threads by
    thread: in a new one it takes all cores, and then waits, spinning, for whoever has them.
    """
    torch.set_num_threads(1)
