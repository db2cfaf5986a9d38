"""Computing device and its memory. The import does not initialise CUDA: party processes fork first."""

import os
from typing import Final

import torch

from securefl.base.errors import ConfigError

LEAST_SHARE: Final = 1 << 30
"""Bytes of GPU memory that a training process needs, with its CUDA context."""

_CONTEXT: Final = 600 << 20
"""Bytes of GPU memory outside torch's allocator."""

_MOST_AT_ONCE: Final = 4 << 30
"""Most useful bytes of one pass on a GPU."""

_UNKNOWN: Final = 256 << 20
"""The same on a device without known free memory."""

_PROCESSES: Final = "SECUREFL_GPU_PROCESSES"
"""Environment variable with the number of training processes that share the GPU."""


def pick_device(wanted: str | torch.device, processes: int | None = None) -> torch.device:
    """Return the computing device, with its arithmetic set to full single precision.

    ``processes`` share the GPU: by default the number set by :func:`share_gpu`, else 1. torch cannot allocate
    more than this process's equal share.

    Raises:
        ConfigError: as for :func:`choose_device`.
    """
    processes = int(os.environ.get(_PROCESSES, "1")) if processes is None else processes
    device = choose_device(wanted, processes)
    return _on_gpu(device, processes) if device.type == "cuda" else device


def choose_device(wanted: str | torch.device, processes: int) -> torch.device:
    """Return the device for a number of training processes, without side effects or a CUDA context.

    Args:
        wanted: ``auto`` (CUDA if a GPU has enough memory, else the CPU), or a device of torch: ``cpu``,
            ``cuda``, ``cuda:1``.
        processes: that share the GPU; each needs :data:`LEAST_SHARE` of its memory.

    Raises:
        ConfigError: torch has no such device, or the processes do not fit on it.
    """
    if wanted == "auto":
        fits = torch.cuda.is_available() and share_of_memory("cuda", processes) >= LEAST_SHARE
        return torch.device("cuda" if fits else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise ConfigError(
            "device", f"torch has no device {wanted!r}", 'choose "auto", "cpu" or "cuda"'
        ) from None
    if device.type != "cuda":
        return device
    _check_present(device)
    share = share_of_memory(device, processes)
    if share < LEAST_SHARE:
        raise ConfigError(
            "training.device",
            f"{processes} processes share the GPU, {share / 2**30:.2f} GiB each; each needs "
            f"{LEAST_SHARE >> 30} GiB",
            'use "auto" or "cpu", fewer parties, or simulate, which trains all parties in one process',
        )
    return device


def share_gpu(processes: int) -> None:
    """Set the number of training processes that share the GPU, also for child processes."""
    os.environ[_PROCESSES] = str(processes)


def share_of_memory(device: str | torch.device, processes: int) -> int:
    """Return the bytes of the GPU's memory for each of ``processes``: 95 % in equal shares."""
    total: int = torch.cuda.get_device_properties(device).total_memory
    return total * 19 // (20 * processes)


def pass_bytes(device: torch.device, on_cpu: int) -> int:
    """Return the bytes that parameters, activations and gradients of one pass may take.

    ``on_cpu`` is the result for a CPU.
    """
    if device.type == "cpu":
        return on_cpu
    if device.type != "cuda":
        return _UNKNOWN
    free, total = torch.cuda.mem_get_info(device)
    allowed = torch.cuda.get_per_process_memory_fraction(device) * total
    return max(on_cpu, min(int(min(free, allowed)) // 4, _MOST_AT_ONCE))


def limit_threads() -> None:
    """Limit torch to one thread; call it in each thread that trains.

    With a process or a thread per party, more threads compete for the cores. In a new thread MKL takes all
    cores, and spins while others use them.
    """
    torch.set_num_threads(1)


def _check_present(device: torch.device) -> None:
    reason = ""
    if not torch.cuda.is_available():
        reason = "torch found no CUDA device"
        if torch.version.cuda is None:
            reason = "this build of torch has no CUDA support"
    elif device.index is not None and device.index >= torch.cuda.device_count():
        reason = f"torch finds {torch.cuda.device_count()} CUDA devices, and {device} is not among them"
    if reason:
        raise ConfigError("training.device", reason, 'set it to "auto" or "cpu"')


def _on_gpu(device: torch.device, processes: int) -> torch.device:
    """Set single precision and the limit of memory; return the device with its number.

    torch's functions on memory need the number.
    """
    if str(device) == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
    # The bound on one record's influence allows for the rounding of single precision, not for TF32 (13 bits
    # less) or half-precision accumulation.
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    for kind in ("conv", "rnn"):
        # From torch 2.9 on an operation has its own setting, which "tf32" for all backends affects.
        operation = getattr(torch.backends.cudnn, kind, None)
        if getattr(operation, "fp32_precision", "") == "tf32":
            operation.fp32_precision = "ieee"  # type: ignore[union-attr]
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    if processes > 1:
        total = torch.cuda.get_device_properties(device).total_memory
        own = share_of_memory(device, processes) - _CONTEXT
        torch.cuda.set_per_process_memory_fraction(own / total, device)
    return device
