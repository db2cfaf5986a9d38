"""Evidence on disk: signed values that a process rejected, for ``securefl verify`` (ADR 0044, Evidence).

``evidence/<digest>.charge`` may hold all secrets that opened a cluster's sum, so only its owner can read it:
sharing it reveals the sum.

The module also converts reports to transcript entries, only classes of
:mod:`securefl.protocol.round.shared.reports`, which hold no secrets by construction.
"""

import dataclasses
import math
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from securefl.base import crypto
from securefl.base.arrays import digest_of
from securefl.base.errors import ConfigError, UsageError
from securefl.methods import metrics
from securefl.protocol.round import AnyReport, Charge, ClusterSum, parse_evidence
from securefl.runtime import transcript

EVIDENCE: Final = "evidence"
_SUFFIX: Final = ".charge"


def keep_evidence(out: Path, charge: bytes) -> Path:
    """Write an encoded charge to its own file, atomically and for the owner only; return the file.

    Raises:
        RunAbortedError: the write failed.
    """
    path = out / EVIDENCE / (crypto.digest("charge", charge).hex()[:32] + _SUFFIX)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Parties may find the same false value at once, and share the folder.
        descriptor, fresh = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(charge)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            Path(fresh).unlink()
            raise
        Path(fresh).replace(path)
    except OSError as error:
        raise transcript.disk_failure(path, error) from error
    return path


def load_evidence(path: Path) -> Charge:
    """Return the charge of a file; :mod:`securefl.protocol.round.shared.blame` judges it.

    Raises:
        ConfigError: it cannot be read, or holds no charge.
    """
    try:
        return parse_evidence(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be read: {error.strerror}", "name a file of the folder evidence/"
        ) from error
    except ValueError as error:
        raise ConfigError(
            str(path), "is not an evidence file", "name a file of the folder evidence/"
        ) from error


VectorWriter = Callable[[npt.NDArray[Any]], transcript.JsonValue]


def entry_of(
    report: AnyReport, run: str, lab: transcript.LabStore | None = None, length: int | None = None
) -> tuple[str, dict[str, transcript.JsonValue]]:
    """Return kind and fields for :meth:`securefl.runtime.transcript.chain.TranscriptWriter.append`.

    Bytes become hex digits, tuples lists, vectors :func:`vector_record`, not finite numbers null. ``length``
    is an update's, without metric words.

    Raises:
        UsageError: not one of the reports.
        RunAbortedError: the lab's disk is full.
    """

    def record(vector: npt.NDArray[Any]) -> transcript.JsonValue:
        # Integers are sums; models of several task groups are sampled as one part.
        return transcript.vector_record(vector, run, lab, length if vector.dtype.kind in "iu" else None)

    return kind_of(report), fields_of(report, record)


def brief_entry_of(report: AnyReport) -> tuple[str, dict[str, transcript.JsonValue]]:
    """Return kind and fields, vectors by digest and length only, for a progress stream.

    Raises:
        UsageError: not one of the reports.
    """
    return kind_of(report), fields_of(
        report, lambda vector: {"digest": digest_of(vector).hex(), "length": int(vector.size)}
    )


def kind_of(report: AnyReport) -> str:
    """Return ``round_done`` for a ``RoundDone``.

    Raises:
        UsageError: not one of the reports.
    """
    if not isinstance(report, AnyReport):
        raise UsageError(
            f"a recorded report must be one of the report classes, found {type(report).__qualname__}"
        )
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(report).__name__).lower()


def fields_of(
    report: AnyReport | ClusterSum | metrics.Measured | metrics.Doubted, vector: VectorWriter
) -> dict[str, transcript.JsonValue]:
    """Return the fields of a report as JSON values; ``vector`` converts arrays."""
    return {field.name: _json(getattr(report, field.name), vector) for field in dataclasses.fields(report)}


def _json(value: object, vector: VectorWriter) -> transcript.JsonValue:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case bytes() | np.ndarray():
            return value.hex() if isinstance(value, bytes) else vector(value)
        case tuple() | list():
            return [_json(item, vector) for item in value]
        case Mapping():
            return {str(name): _json(item, vector) for name, item in value.items()}
        case ClusterSum() | metrics.Measured() | metrics.Doubted():
            return fields_of(value, vector)
        case _:
            raise UsageError(
                f"cannot write a report to the transcript: {type(value).__qualname__} has no stored form"
            )
