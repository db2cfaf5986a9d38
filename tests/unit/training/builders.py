"""Small data for the tests of this package."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from securefl.base.arrays import F32
from securefl.training.data.shards import Shard


def pack_idx(array: npt.NDArray[np.uint8]) -> bytes:
    """The unpacked idx bytes of ``array``, after the format's description."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + array.tobytes()


def write_gzip(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, mtime=0))
    return path


def blobs(samples: int, classes: int = 3, input_shape: tuple[int, ...] = (4,), seed: int = 0) -> Shard:
    """Well separated Gaussian blobs, one per class, every class present if there are enough samples."""
    rng = np.random.default_rng(seed)
    y = np.arange(samples, dtype=np.int64) % classes
    size = int(np.prod(input_shape))
    centres = 4.0 * np.random.default_rng(99).standard_normal((classes, size))
    x: F32 = (centres[y] + rng.standard_normal((samples, size))).astype(np.float32)
    return Shard(x.reshape(samples, *input_shape), y, classes, input_shape)


def real_data_dir(name: str) -> Path:
    """The folder that holds the real data set ``name``; skips the test where there is none."""
    given = os.environ.get("SECUREFL_DATA_DIR")
    root = Path(given) if given else Path(__file__).parents[4] / "shared" / "data"
    if not (root / name).is_dir():
        pytest.skip(f"no {name} in {root}; set SECUREFL_DATA_DIR to the folder that holds it")
    return root
