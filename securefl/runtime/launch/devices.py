"""Device choice for all training processes of one machine."""

import ctypes
from typing import NamedTuple


class LocalDevice(NamedTuple):
    """Device of all processes that train on this machine."""

    name: str
    """``cpu``, ``cuda``, or another device of torch."""
    note: str = ""


def local_device(wanted: str, processes: int) -> LocalDevice:
    """Choose once for all ``processes``: each would need a CUDA context to find out.

    ``wanted`` is ``auto``, ``cpu`` or ``cuda``. torch is imported only if a CUDA driver is installed or CUDA
    is wanted.

    Raises:
        ConfigError: ``cuda`` is wanted, and is missing or has too little memory for all processes.
    """
    if wanted == "cpu" or (wanted == "auto" and not has_cuda_driver()):
        return LocalDevice("cpu")
    import torch  # noqa: PLC0415 - see above

    from securefl.training.models import choose_device, share_of_memory  # noqa: PLC0415 - see above

    device = choose_device(wanted, processes)
    if device.type == "cpu":
        if not torch.cuda.is_available():
            return LocalDevice("cpu")
        total = share_of_memory("cuda", 1) / 2**30
        usable = f"{total:.1f} GiB of the GPU are usable"
        note = f"training on the CPU: {processes} processes need 1 GiB each, and {usable}"
        return LocalDevice("cpu", note)
    share = share_of_memory(device, processes) / 2**30
    name = torch.cuda.get_device_name(device)
    return LocalDevice(str(device), f"{processes} processes train on one GPU ({name}), {share:.1f} GiB each")


def has_cuda_driver() -> bool:
    """Return True if a CUDA driver is installed."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
