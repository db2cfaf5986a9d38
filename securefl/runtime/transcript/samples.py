"""Vectors in a transcript: a digest of the whole and up to 4,096 values at fixed positions.

Whole vectors would take tens of gigabytes. Vectors of one length in a run share their positions, for sums,
differences and statistics: compare records at common positions only.
"""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import I64, digest_of
from securefl.base.errors import UsageError
from securefl.runtime.transcript.lines import JsonValue, disk_failure

SAMPLES: Final = 4096
_DOMAIN: Final = b"securefl/1 transcript sample positions\n"


@lru_cache(maxsize=64)
def sample_positions(run: str, length: int) -> I64:
    """Return the sampled coordinates of vectors of this length: i64, ascending, at most 4,096, read-only.

    Above 4,096 they are drawn without replacement from SHAKE-256(domain || length || run). They are public;
    the digest covers the other coordinates.
    """
    if length <= SAMPLES:
        positions = np.arange(length, dtype=np.int64)
    else:
        seed = _DOMAIN + length.to_bytes(8, "big") + run.encode()
        draws = 2 * SAMPLES
        positions = np.empty(0, dtype=np.int64)
        while positions.size < SAMPLES:
            words = np.frombuffer(hashlib.shake_256(seed).digest(8 * draws), dtype="<u8")
            drawn, first = np.unique((words % np.uint64(length)).astype(np.int64), return_index=True)
            positions = np.sort(drawn[np.argsort(first)[:SAMPLES]])
            draws *= 2
    positions.setflags(write=False)
    return positions


def record_positions(run: str, length: int, head: int | None = None) -> I64:
    """Return the coordinates that a record samples: i64, ascending, read-only.

    The first ``head`` coordinates and the rest are sampled as two vectors, if ``head < length``.
    """
    if head is None or head >= length:
        return sample_positions(run, length)
    positions = np.concatenate([sample_positions(run, head), sample_positions(run, length - head) + head])
    positions.setflags(write=False)
    return positions


def vector_record(
    vector: npt.NDArray[Any], run: str, lab: LabStore | None = None, head: int | None = None
) -> dict[str, JsonValue]:
    """Return the record of a vector: ``digest``, ``length``, ``dtype``, ``samples``, perhaps ``head``.

    Args:
        vector: shape (d,), any integer or floating dtype; not finite values become null.
        run: the run's id, which determines the sampled coordinates.
        lab: the store for the whole vector, in the lab.
        head: length of the update before metric words (:func:`record_positions`).

    Raises:
        UsageError: not a vector of numbers.
        RunAbortedError: the lab's disk is full.
    """
    if vector.ndim != 1 or vector.dtype.kind not in "iuf":
        raise UsageError(
            f"vector must have one dimension and hold numbers, found {vector.dtype} of shape {vector.shape}"
        )
    sampled = vector[record_positions(run, vector.size, head)]
    samples: list[JsonValue] = sampled.tolist()
    if not np.isfinite(sampled).all():
        samples = [value if np.isfinite(value) else None for value in sampled.tolist()]
    if lab is not None:
        lab.keep(vector)
    return {
        "digest": digest_of(vector).hex(),
        "length": int(vector.size),
        "dtype": vector.dtype.name,
        "samples": samples,
        **({} if head is None or head >= vector.size else {"head": head}),
    }


class LabStore:
    """Store of whole vectors for experiments, one ``<digest>.npy`` each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, vector: npt.NDArray[Any]) -> Path:
        """Store a vector under its digest, once.

        Raises:
            RunAbortedError: the write failed.
        """
        path = self._folder / f"{digest_of(vector).hex()}.npy"
        if path.exists():
            return path
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                np.save(file, vector, allow_pickle=False)
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise disk_failure(path, error) from error
        return path
