"""The device of all processes of a local run."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from securefl.base.errors import ConfigError
from securefl.runtime.launch import devices
from securefl.runtime.launch.devices import LocalDevice, local_device


class Card:
    total_memory = 8 << 30


def opens_a_context(*_: object) -> None:
    raise AssertionError("the launcher opens a CUDA context")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_cuda_driver", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: Card())
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device: "a card")
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", opens_a_context)
    monkeypatch.setattr(torch.cuda, "current_device", opens_a_context)


def test_processes_that_fit_share_the_gpu(gpu: None) -> None:
    name, note = local_device("auto", 5)
    assert name == "cuda"
    assert note == "5 processes train on one GPU (a card), 1.5 GiB each"


def test_sixty_processes_train_on_the_cpu_and_the_console_says_so(gpu: None) -> None:
    name, note = local_device("auto", 61)
    assert name == "cpu"
    assert note == "training on the CPU: 61 processes need 1 GiB each, and 7.6 GiB of the GPU are usable"
    with pytest.raises(ConfigError, match=r"61 processes share the GPU, 0\.12 GiB each"):
        local_device("cuda", 61)


def test_the_cpu_needs_no_word(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_device("cpu", 61) == LocalDevice("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert local_device("auto", 61) == LocalDevice("cpu"), "a driver, and a torch without CUDA"


def test_torch_is_not_imported_without_a_driver() -> None:
    code = (
        "import sys, securefl.runtime.launch.devices as d; d.has_cuda_driver = lambda: False;"
        "print(d.local_device('auto', 3).name, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cpu", "False"]
