from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from securefl.base.errors import ConfigError
from securefl.training.models.device import limit_threads, pick_device


def test_cpu_is_always_there() -> None:
    assert pick_device("cpu").type == "cpu"


@pytest.mark.parametrize(("present", "kind"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_cuda_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, present: bool, kind: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert pick_device("auto").type == kind
    assert torch.backends.cudnn.allow_tf32 is not present, "convolutions would not be in single precision"


def test_cuda_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="CUDA") as caught:
        pick_device("cuda")
    assert caught.value.path == "training.device"
    assert "auto" in caught.value.remedy


def test_limit_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        limit_threads()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "module",
    ["", ".data.idx", ".data.npz", ".data.datasets", ".data.partition", ".data.shards", ".sgd.outcomes"],
    ids=lambda m: m or "package",
)
def test_modules_without_torch(module: str) -> None:
    code = (
        f"import sys, securefl.training{module}; sys.exit('torch' in sys.modules or 'sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
