"""Recorded vectors at their common coordinates.

A transcript samples a few thousand coordinates of a vector by its length, and a sum with metric words is
longer than the model. Never compare samples by index.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import I64
from securefl.base.ids import SERVER
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import transcript

VectorRecord = Mapping[str, Any]
"""Vector in a transcript: ``digest``, ``length``, ``dtype``, ``samples``, optionally ``head``."""


def places_of(record: VectorRecord, run: str) -> I64:
    """Return the coordinates of a record's samples, ascending."""
    return transcript.record_positions(run, record["length"], record.get("head"))


def common_places(records: Iterable[VectorRecord], run: str, below: int) -> I64:
    """Return the common coordinates below ``below`` of one or more records, ascending."""
    shapes = {(record["length"], record.get("head")): record for record in records}
    places = [places_of(record, run) for record in shapes.values()]
    found: I64 = reduce(np.intersect1d, places)
    return found[found < below]


def values_at(record: VectorRecord, run: str, places: I64) -> npt.NDArray[Any]:
    """Return a record's samples at ``places``, in the vector's dtype; non-finite values are NaN."""
    samples = [float("nan") if value is None else value for value in record["samples"]]
    values = np.array(samples, dtype=record["dtype"])
    chosen: npt.NDArray[Any] = values[np.searchsorted(places_of(record, run), places)]
    return chosen


def sum_records(recorded: Recorded) -> Iterator[VectorRecord]:
    """Yield the records of all opened sums."""
    for entry, _ in recorded.of(SERVER, "sum_opened"):
        opened: Any = entry.fields["opened"]
        yield opened["ring"]
