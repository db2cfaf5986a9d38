from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from securefl.base.errors import ConfigError
from securefl.training.models.device import limit_threads, pass_bytes, pick_device, share_gpu


def test_cpu_is_always_there() -> None:
    assert pick_device("cpu").type == "cpu"


def numbered(device: torch.device) -> torch.device:
    """Refuse a device without a number, as torch's functions on memory do."""
    if device.index is None:
        raise ValueError(f"expected a device with an index, got {device}")
    return device


class Card:
    """A GPU of 8 GiB."""

    total_memory = 8 << 30


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, torch.device]]:
    """Two such GPUs; the limits of memory that were set."""
    limits: list[tuple[float, torch.device]] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: Card())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda,
        "set_per_process_memory_fraction",
        lambda share, device: limits.append((share, numbered(device))),
    )
    monkeypatch.delenv("SECUREFL_GPU_PROCESSES", raising=False)
    return limits


def test_auto_takes_a_gpu_if_there_is_one(gpus: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("auto") == torch.device("cuda:0"), "with its number"
    assert pick_device("cuda", 2) == torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == torch.device("cpu")


@pytest.mark.parametrize("wanted", ["auto", "cuda", "cuda:1", torch.device("cuda:1")])
def test_a_gpu_computes_in_full_single_precision(wanted: str | torch.device, gpus: object) -> None:
    backends: Any = torch.backends
    matmul, cudnn = backends.cuda.matmul, backends.cudnn
    before = backends.fp32_precision
    try:
        backends.fp32_precision = "tf32"
        matmul.allow_tf32 = cudnn.allow_tf32 = True
        matmul.allow_fp16_reduced_precision_reduction = True
        matmul.allow_bf16_reduced_precision_reduction = True
        pick_device("cpu")
        assert matmul.fp32_precision == "tf32"
        pick_device(wanted)
        assert [matmul.fp32_precision, cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision] == ["ieee"] * 3
        assert not matmul.allow_fp16_reduced_precision_reduction
        assert not matmul.allow_bf16_reduced_precision_reduction
    finally:
        backends.fp32_precision = before
        cudnn.conv.fp32_precision = cudnn.rnn.fp32_precision = "none"
        cudnn.allow_tf32, matmul.allow_tf32 = True, False


@pytest.mark.parametrize(("processes", "kind"), [(1, "cuda"), (7, "cuda"), (8, "cpu"), (61, "cpu")])
def test_auto_trains_on_the_cpu_if_the_processes_do_not_fit(
    processes: int, kind: str, gpus: list[tuple[float, torch.device]]
) -> None:
    """7 processes have 1.09 GiB each, 8 have .95."""
    assert pick_device("auto", processes).type == kind
    share_gpu(processes)
    try:
        assert pick_device("auto").type == kind, "a site in a process of its own"
    finally:
        share_gpu(1)
    if kind == "cpu":
        assert not gpus
        with pytest.raises(ConfigError, match=f"{processes} processes share the GPU") as caught:
            pick_device("cuda", processes)
        assert "simulate" in caught.value.remedy


def test_processes_that_share_a_gpu_have_a_limit_of_memory(gpus: list[tuple[float, torch.device]]) -> None:
    pick_device("cuda:1", 1)
    assert not gpus
    pick_device("cuda:1", 4)
    ((share, device),) = gpus
    assert device == torch.device("cuda:1")
    assert share == pytest.approx(0.95 / 4 - 600 / 8192)


@pytest.mark.parametrize(
    ("free", "fraction", "expected"),
    [
        (80 << 30, 1.0, 4 << 30),
        (8 << 30, 1.0, 2 << 30),
        (80 << 30, 0.0125, 1 << 28),
        (1 << 20, 1.0, 64 << 20),
    ],
)
def test_a_pass_takes_a_quarter_of_the_free_memory(
    free: int, fraction: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 4 GiB, and no less than on a CPU; of the process's own share where there is one."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (numbered(device), (free, 80 << 30))[1])
    monkeypatch.setattr(
        torch.cuda, "get_per_process_memory_fraction", lambda device: (numbered(device), fraction)[1]
    )
    assert pass_bytes(torch.device("cuda:0"), 64 << 20) == expected


def test_other_devices_have_a_pass_too() -> None:
    assert pass_bytes(torch.device("cpu"), 5) == 5
    assert pass_bytes(torch.device("mps"), 5) == 256 << 20


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0"])
def test_cuda_that_is_not_there(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="CUDA") as caught:
        pick_device(wanted)
    assert caught.value.path == "training.device"
    assert "auto" in caught.value.remedy


def test_a_device_that_torch_does_not_know() -> None:
    with pytest.raises(ConfigError, match="torch has no device 'gpu'"):
        pick_device("gpu")


def test_a_gpu_beyond_the_last_one(gpus: object) -> None:
    with pytest.raises(ConfigError, match="cuda:2 is not among them"):
        pick_device("cuda:2")


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
