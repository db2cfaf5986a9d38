"""Validation of a model at one site, as a file that its person hands over."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from securefl.base import files
from securefl.base.errors import ConfigError, RunAbortedError

FORMAT: Final = "securefl validation 1"
_AGAIN: Final = "write it anew: securefl site validate"

MetricText = Annotated[str, Meta(min_length=1, max_length=128)]


class ValidatedMetric(Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of the model at a site."""

    value: float
    standard_error: Annotated[float, Meta(ge=0)] | None
    """By the number of samples; None if counts do not determine it."""


class SiteValidation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics of a model on the data of one site."""

    format: Literal["securefl validation 1"]
    party: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}\Z")]
    scenario: Annotated[str, Meta(max_length=200)]
    """Name of the scenario."""
    model: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """Digest of the model's arrays (:func:`arrays_digest`)."""
    samples: Annotated[int, Meta(ge=1, lt=2**53)]
    metrics: Annotated[dict[MetricText, ValidatedMetric], Meta(min_length=1, max_length=1000)]
    notes: list[Annotated[str, Meta(max_length=1000)]] = []


def arrays_digest(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Return the SHA-256 of a model's names, shapes and f32 values, in hexadecimal; its file may differ."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], dtype="<f4")
        found.update(f"{json.dumps(name)} {list(array.shape)}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def write_validation(file: Path, validation: SiteValidation) -> None:
    """Write a validation, private to its user.

    Raises:
        RunAbortedError: the file cannot be written.
    """
    content = msgspec.json.format(msgspec.json.encode(validation), indent=1) + b"\n"
    try:
        files.write_whole(file, content, private=True)
    except OSError as error:
        raise RunAbortedError(f"{file}: cannot be written: {error.strerror}") from error


def read_validations(paths: Sequence[Path], model: str) -> tuple[SiteValidation, ...]:
    """Return the validations in files, sorted by party.

    Raises:
        ConfigError: a file is missing or damaged, is about another model than ``model``, or two are of one
            party.
    """
    found: dict[str, SiteValidation] = {}
    for path in paths:
        one = _read(path)
        if one.model != model:
            remedy = (
                f"evaluate the exported model.safetensors: securefl site validate --model (party {one.party})"
            )
            raise ConfigError(str(path), f"is about another model ({one.model[:16]}...)", remedy)
        if one.party in found:
            raise ConfigError(str(path), f"is a second validation of {one.party}", "give one file of a party")
        found[one.party] = one
    return tuple(found[party] for party in sorted(found))


def _read(path: Path) -> SiteValidation:
    with files.reading(path, "name a file that securefl site validate wrote"):
        raw = path.read_bytes()
    try:
        found = msgspec.json.decode(raw, type=SiteValidation)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = f"is not a validation: {str(error)[:200]}"
        raise ConfigError(str(path), reason, _AGAIN) from None
    for name, metric in found.metrics.items():
        if not math.isfinite(metric.value):
            raise ConfigError(str(path), f"metric {name!r} is not finite", _AGAIN)
    return found
