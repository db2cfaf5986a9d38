"""Arrays of a file with first weights, checked without torch."""

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load

from securefl.base.errors import ConfigError


def decode_arrays(
    raw: bytes, path: str | Path, sha256: str = "", field: str = "model.file"
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the arrays of a safetensors file by name.

    Args:
        raw: content of the file.
        path: of the file, for errors.
        sha256: digest that the scenario states, in hex; empty for any.
        field: that names the file, for errors.

    Raises:
        ConfigError: damaged, another file, or arrays that are not finite f32 numbers.
    """
    found = hashlib.sha256(raw).hexdigest()
    if sha256 and found != sha256:
        reason = f"{path} has the SHA-256 {found[:16]}..., the scenario states {sha256[:16]}..."
        raise ConfigError("model.sha256", reason, "use the same file as all other parties")
    try:
        arrays = load(raw)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            field,
            f"{path} is not a safetensors file of numbers: {error}",
            "write it by securefl site weights",
        ) from error
    if not arrays:
        raise ConfigError(field, f"{path} holds no arrays", "store at least one array")
    for name, array in arrays.items():
        if array.dtype != np.float32:
            raise ConfigError(
                field, f"{path}: {name} has dtype {array.dtype}, expected float32", "convert it to float32"
            )
        if not array.size or not np.isfinite(array).all():
            raise ConfigError(
                field,
                f"{path}: {name} is empty, or holds numbers that are not finite",
                "store finite numbers only",
            )
    return arrays


def check_same_arrays(raw: bytes, path: str | Path, model: bytes, of: str | Path, field: str) -> None:
    """Check that a file has the names and shapes of another one.

    Args:
        raw: content of the file.
        path: of the file, for errors.
        model: content of the other one.
        of: path of the other one, for errors.
        field: that names the file, for errors.

    Raises:
        ConfigError: an array is missing, is not in the other file, or has another shape; a file is invalid.
    """
    expected = {name: array.shape for name, array in decode_arrays(model, of).items()}
    found = {name: array.shape for name, array in decode_arrays(raw, path, field=field).items()}
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            shown = [f"shape {one[name]}" if name in one else "no such array" for one in (found, expected)]
            raise ConfigError(
                field,
                f"{path} is of another model: {name[:60]} has {shown[0]}, and in {of} {shown[1]}",
                "give weights of the project's model, or its own --scenario and --site",
            )
