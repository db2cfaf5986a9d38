"""Arrays of a model that the server averages, with any optimiser: buffers and control variates.

After a momentum or an adaptive step a running variance could be below 0, and a mean of gradients would be no
mean. A robust rule or noise may also make a variance negative.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import F32, I64, BoolArray

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of coordinates, ascending and disjoint."""
VARIANCE = "running_var"
"""Last part of the name of a variance, as in torch's normalisation layers."""


def prepare_arrays(arrays: Mapping[str, npt.NDArray[np.floating]]) -> dict[str, npt.NDArray[np.floating]]:
    """Return a model's arrays without variances below 0, as sites load and files store them.

    Arrays that need no change are not copied.
    """
    return {name: _at_least_zero(array) if _is_variance(name) else array for name, array in arrays.items()}


@dataclass(frozen=True, slots=True)
class AveragedState:
    """Coordinates of one model, of d, that optimisers do not act on."""

    averaged: Ranges = ()
    """Coordinates to which the aggregated update is added unchanged (FedAvg)."""
    variances: Ranges = ()
    """Coordinates that are never below 0."""

    @classmethod
    def of(cls, sizes: Iterable[tuple[str, int]], patterns: Sequence[str]) -> AveragedState:
        """Return the state of a model with arrays of these names and sizes, in the order of the vector.

        Names of averaged arrays match a pattern.
        """
        averaged, variances, start = list[tuple[int, int]](), list[tuple[int, int]](), 0
        for name, size in sizes:
            place = (start, start + size)
            if is_averaged(name, patterns):
                averaged.append(place)
            if _is_variance(name):
                variances.append(place)
            start += size
        return cls(_merge_ranges(averaged), _merge_ranges(variances))

    def at(self, places: I64) -> AveragedState:
        """Return the state of the vector of the model's coordinates ``places``, i64 ascending."""
        return AveragedState(_within(self.averaged, places), _within(self.variances, places))

    def flat(self) -> list[int]:
        """Return the ends of all ranges, which parties sign; empty for :data:`NO_STATE`."""
        if not self.averaged and not self.variances:
            return []
        return [len(self.averaged), *chain(*self.averaged), *chain(*self.variances)]

    @classmethod
    def read(cls, flat: Sequence[object]) -> AveragedState:
        """Return the state with :meth:`flat` equal to ``flat``; an empty one if there is none."""
        ends = [one for one in flat if isinstance(one, int) and one >= 0]
        count = 1 + 2 * ends[0] if ends else 0
        if len(ends) != len(flat) or len(ends) % 2 != 1 or count > len(ends):
            return NO_STATE
        pairs = [*zip(ends[1::2], ends[2::2], strict=True)]
        return cls(tuple(pairs[: ends[0]]), tuple(pairs[ends[0] :]))

    def mask(self, length: int) -> BoolArray:
        """Return True for each averaged coordinate, shape ``(length,)``."""
        found = np.zeros(length, dtype=np.bool_)
        for start, stop in self.averaged:
            found[start:stop] = True
        return found

    def prepare(self, models: F32, length: int) -> F32:
        """Return concatenated models, f32 ``(k length,)``, without variances below 0.

        ``models`` itself is returned if it needs no change.
        """
        whole = models.reshape(-1, length)
        if all(bool((whole[:, start:stop] >= 0).all()) for start, stop in self.variances):
            return models
        made = whole.copy()
        for start, stop in self.variances:
            made[:, start:stop] = _at_least_zero(made[:, start:stop])
        return made.reshape(-1)


NO_STATE = AveragedState()


def is_averaged(name: str, patterns: Sequence[str]) -> bool:
    """Return True if an array of this name matches a pattern, case-sensitively."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _is_variance(name: str) -> bool:
    return name.rpartition(".")[2] == VARIANCE


def _at_least_zero(array: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    # NaN stays, so that a broken model is visible.
    return np.maximum(array, 0) if (array < 0).any() else array


def _merge_ranges(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Return the ranges, with adjacent ones merged."""
    made: list[tuple[int, int]] = []
    for start, stop in ranges:
        if made and made[-1][1] == start:
            made[-1] = (made[-1][0], stop)
        else:
            made.append((start, stop))
    return tuple(made)


def _within(ranges: Ranges, places: I64) -> Ranges:
    ends = [tuple(np.searchsorted(places, ends).tolist()) for ends in ranges]
    return _merge_ranges([(start, stop) for start, stop in ends if start < stop])
