"""Import of CrypTen, the only one, on first use.

CrypTen 0.4.1 does not import on torch 2.13: its ONNX converter needs onnx and removed parts of torch. An
empty module replaces it. :data:`INSTALL` leaves out CrypTen's dependencies, since ``sklearn`` no longer
installs.
"""

import importlib
import importlib.metadata
import importlib.util
import re
import sys
import types
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from securefl.base.errors import ConfigError

INSTALL: Final = "pip install --no-deps crypten==0.4.1 && pip install omegaconf pyyaml"
OLDEST: Final = (0, 4, 1)
BEFORE: Final = (0, 5)
"""Versions from here on may change internals that the session replaces."""

_CONVERTER = "crypten.nn.onnx_converter"


@dataclass(frozen=True, slots=True)
class Library:
    """The used part of CrypTen, which has no types."""

    crypten: Any
    communicator: Any
    """Module whose ``get`` returns CrypTen's communicator."""
    mpc: Any
    arithmetic: Any
    binary: Any
    tensor: Any
    cuda_tensor: Any
    plain: Any
    """Class ``CrypTensor``, which switches the recording of gradients for all tensors."""
    torch: Any


def version_of(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def check_version(text: str) -> None:
    """Raise ConfigError if a version is too old or too new."""
    version = version_of(text)
    if version < OLDEST:
        raise ConfigError("secure_sum.kind", f"CrypTen {text} is too old, needed is 0.4.1", INSTALL)
    if version >= BEFORE:
        raise ConfigError("secure_sum.kind", f"CrypTen {text} is newer than the supported 0.4.1", INSTALL)


def check_installed() -> None:
    """Check the requirements of :func:`load` as it does, without importing anything."""
    try:
        check_version(importlib.metadata.version("crypten"))
    except importlib.metadata.PackageNotFoundError as error:
        raise _missing("crypten") from error
    for name in ("crypten", "omegaconf", "yaml", "torch"):
        if importlib.util.find_spec(name) is None:
            raise _missing(name)


def check_machine(device: str) -> None:
    """Check that this machine can compute on ``device``: "auto", "cpu" or "cuda".

    Raises:
        ConfigError: as :func:`load`; or "cuda" without a GPU.
    """
    check_installed()
    if device == "cuda":
        device_of(device)


def _missing(name: str) -> ConfigError:
    return ConfigError("secure_sum.kind", f'"crypten" needs the library {name}, which is missing', INSTALL)


@lru_cache(maxsize=1)
def load() -> Library:
    """Import CrypTen (and torch), once.

    Raises:
        ConfigError: CrypTen or a dependency is missing, or of another version.
    """
    try:
        check_version(importlib.metadata.version("crypten"))
        sys.modules.setdefault(_CONVERTER, _converter())
        crypten = importlib.import_module("crypten")
    except (ImportError, importlib.metadata.PackageNotFoundError) as error:
        raise _missing(getattr(error, "name", None) or "crypten") from error
    primitives = importlib.import_module("crypten.mpc.primitives")
    return Library(
        crypten=crypten,
        communicator=importlib.import_module("crypten.communicator"),
        mpc=importlib.import_module("crypten.mpc"),
        arithmetic=primitives.ArithmeticSharedTensor,
        binary=primitives.BinarySharedTensor,
        tensor=importlib.import_module("crypten.mpc").MPCTensor,
        cuda_tensor=importlib.import_module("crypten.cuda").CUDALongTensor,
        plain=crypten.CrypTensor,
        torch=importlib.import_module("torch"),
    )


def device_of(name: str) -> str:
    """Return the torch device of shares: ``name``, or for "auto" CUDA if available.

    Raises:
        ConfigError: "cuda" without a GPU.
    """
    has_cuda = bool(load().torch.cuda.is_available())
    if name == "auto":
        return "cuda" if has_cuda else "cpu"
    if name != "cpu" and not has_cuda:
        raise ConfigError("training.device", f'"{name}" was set, but torch finds no GPU', 'set it to "auto"')
    return name


def _converter() -> types.ModuleType:
    module = types.ModuleType(_CONVERTER)

    def unavailable(*_args: object, **_options: object) -> None:
        raise NotImplementedError("securefl loads CrypTen without its ONNX converter")

    for name in ("from_onnx", "from_pytorch", "from_tensorflow"):
        setattr(module, name, unavailable)
    vars(module)["TF_AND_TF2ONNX"] = False
    return module
