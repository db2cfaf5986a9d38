"""Default generators of Python, numpy and torch, seeded around a user's code."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seed_torch(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Run the body with torch's generator seeded, and that of a GPU ``device``; then restore both."""
    gpu = device if device is not None and device.type == "cuda" else None
    with torch.random.fork_rng(devices=[] if gpu is None else [gpu], device_type="cuda"):
        # The function torch.manual_seed would also seed other GPUs.
        torch.default_generator.manual_seed(seed)
        if gpu is not None:
            with torch.cuda.device(gpu):  # seeds the current GPU
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def seeded_generators(seed: int) -> Iterator[None]:
    """Run the body with the default generators of Python, numpy and torch seeded, then restore them.

    So is the current GPU's, if in use. Generators that the body makes itself and the operating system's are
    not controlled. ``seed`` is below 2^64.
    """
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - what a user's code may use
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    with seed_torch(seed, device):
        random.seed(seed)
        np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002 - as above
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002 - as above
