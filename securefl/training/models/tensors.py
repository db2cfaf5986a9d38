"""Named tensors without a forward pass."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import save
from torch import nn

from securefl.base import files
from securefl.base.errors import ConfigError, UsageError
from securefl.training.models.arrays import decode_arrays

HEAD = "securefl"
"""Key of a file's metadata for :func:`securefl.training.models.state_head`."""

MOST_STEPS = 100
"""Most dots in a name: torch recurses into nested modules."""


class Tensors(nn.Module):
    """Parameters by their dotted names, in the order of the names; the module computes nothing.

    ``averaged`` has name patterns of arrays that the server averages with any optimiser; ``head`` the local
    entries of the file's metadata; ``where`` the origin for errors.

    Raises:
        ConfigError: a name is a prefix of another, such as ``a`` and ``a.b``.
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[np.float32]],
        where: str,
        averaged: Sequence[str] = (),
        head: str = "",
    ) -> None:
        super().__init__()
        self.averaged, self.state_head = tuple(averaged), head
        for name in sorted(arrays):
            *path, last = name.split(".")
            if len(path) > MOST_STEPS:
                reason = f"the array {name[:MOST_STEPS]!r}... has a name of more than {MOST_STEPS} dots"
                raise ConfigError(where, reason)
            place: nn.Module = self
            for step in path:
                place = self._child(place, step, name, where)
            if not last or hasattr(place, last):
                raise _name_error(where, name)
            place.register_parameter(last, nn.Parameter(torch.from_numpy(arrays[name].copy())))

    @staticmethod
    def _child(place: nn.Module, step: str, name: str, where: str) -> nn.Module:
        children = dict(place.named_children())
        if step not in children:
            if not step or hasattr(place, step):
                raise _name_error(where, name)
            children[step] = nn.Module()
            place.add_module(step, children[step])
        return children[step]

    def forward(self, _samples: object) -> torch.Tensor:
        """Raise a UsageError: sites train and test."""
        raise UsageError(
            "cannot score samples: a model of named arrays has no forward pass; its sites train and test it"
        )


def _name_error(where: str, name: str) -> ConfigError:
    return ConfigError(where, f"the array {name!r} has a name that clashes with another array", "rename it")


def read_tensors(path: str, sha256: str = "", averaged: Sequence[str] = ()) -> Tensors:
    """Return the tensors of a safetensors file, whose SHA-256 in hex must be ``sha256`` if given.

    Raises:
        ConfigError: missing, damaged, another file, or arrays that are not finite f32 numbers.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        remedy = (
            "write it with securefl site weights; each process needs it, also the server; paths are relative "
            "to the working directory"
        )
        raise ConfigError("model.file", f"{path} cannot be read: {error.strerror}", remedy) from error
    arrays = decode_arrays(raw, path, sha256)
    return Tensors(arrays, f"model.file: {path}", averaged, head_of(raw))


def write_tensors(
    path: Path,
    arrays: Mapping[str, npt.NDArray[Any]],
    head: Mapping[str, object] | None = None,
) -> str:
    """Write arrays by name as f32 to a safetensors file, atomically; return its SHA-256 as hex.

    ``head`` has the local entries of :func:`securefl.training.models.state_head`.

    Raises:
        ConfigError: a run cannot begin with the arrays, or the file cannot be written.
    """
    if not isinstance(arrays, Mapping) or not all(isinstance(name, str) for name in arrays):
        kind = "other names than text" if isinstance(arrays, Mapping) else type(arrays).__name__
        raise ConfigError(
            "parameters", f"are {kind}, expected a mapping of arrays by name", "pass a dict of arrays"
        )
    plain: dict[str, npt.NDArray[np.float32]] = {}
    for name, array in arrays.items():
        found = np.asarray(array)
        if found.dtype.kind != "f":
            raise ConfigError(
                name, f"has dtype {found.dtype}, expected floating-point numbers", "convert it to float32"
            )
        with np.errstate(over="ignore"):
            plain[name] = np.array(found, dtype=np.float32, order="C")
        if not plain[name].size or not np.isfinite(plain[name]).all():
            raise ConfigError(
                name, "is empty, or holds numbers that are not finite in float32", "give finite numbers only"
            )
    Tensors(plain, str(path))
    data = encode_tensors(plain, {HEAD: json.dumps(head)} if head else {})
    try:
        files.write_whole(path, data)
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error
    return hashlib.sha256(data).hexdigest()


def encode_tensors(arrays: dict[str, npt.NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file; unlike safetensors, with metadata in a fixed order."""
    raw = save(arrays, dict(metadata))
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    if metadata:
        header["__metadata__"] = dict(sorted(metadata.items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + raw[start:]


def head_of(raw: bytes) -> str:
    """Return the head in a safetensors file's metadata, or an empty string."""
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    found: str = header.get("__metadata__", {}).get(HEAD, "")
    return found
