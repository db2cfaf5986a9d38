"""Layout of named arrays in the vector that is masked, summed and aggregated."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from securefl.base.arrays import F32, F64
from securefl.base.errors import SecureflError
from securefl.training import models

LONGEST = 500
"""Most characters of an error."""
Real = TypeVar("Real", F32, F64)


class SiteError(SecureflError):
    """Unusable result of a site, in one line of limited length; the site's fault."""

    def __init__(self, reason: str) -> None:
        short = reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 3]}..."
        # A line break could forge a line of the log, an escape sequence one of the terminal.
        super().__init__("".join(letter if letter.isprintable() else " " for letter in short))


@dataclass(frozen=True)
class Layout:
    """Names and shapes, in the order of the vector."""

    shapes: Mapping[str, tuple[int, ...]]
    averaged: Sequence[str] = ()
    """Name patterns of arrays that the server averages with any optimiser."""

    @classmethod
    def of(cls, module: torch.nn.Module) -> Layout:
        """Return the layout of the parameters that ``module`` trains."""
        shapes = {name: tuple(weight.shape) for name, weight in models.trained_parameters(module).items()}
        return cls(shapes, models.averaged_names(module))

    @property
    def length(self) -> int:
        """Length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def arrays(self, vector: Real) -> dict[str, Real]:
        """Return the vector, ``(d,)``, as arrays by name: copies that a site may overwrite."""
        return {name: vector[where].reshape(self.shapes[name]).copy() for name, where in self._places()}

    def views(self, vector: Real) -> dict[str, Real]:
        """Return the vector as views by name, for callers that copy them at once."""
        return {name: vector[where].reshape(self.shapes[name]) for name, where in self._places()}

    def vector(self, arrays: Mapping[str, npt.NDArray[Any]], source: str) -> F64:
        """Return floating-point arrays by name as one vector f64 ``(d,)``; ``said`` begins the errors.

        Raises:
            SiteError: other names, shapes or dtypes, or numbers that are not finite.
        """
        self.check(arrays, source)
        joined = np.empty(self.length)
        for name, where in self._places():
            joined[where] = np.asarray(arrays[name]).reshape(-1)
            if not np.isfinite(joined[where]).all():
                raise SiteError(f"{source} {name} with numbers that are not finite")
        return joined

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], source: str) -> None:
        """Check the names, shapes and floating-point dtypes of arrays.

        Raises:
            SiteError: the first difference.
        """
        if not isinstance(arrays, Mapping):
            raise SiteError(f"{source} {type(arrays).__name__}, expected arrays by name")
        for name in self.shapes:
            if name not in arrays:
                raise SiteError(f"{source} no array {name}, but {_few(arrays)}")
        for name, array in arrays.items():
            if name not in self.shapes:
                raise SiteError(f"{source} {name}, which the model does not have: it has {_few(self.shapes)}")
            found = np.asarray(array)
            if found.dtype.kind != "f":
                raise SiteError(f"{source} {name} of dtype {found.dtype}, expected floating-point numbers")
            if found.shape != self.shapes[name]:
                raise SiteError(f"{source} {name} of shape {found.shape}, expected {self.shapes[name]}")

    def _places(self) -> Iterator[tuple[str, slice]]:
        start = 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            yield name, slice(start, stop)
            start = stop


def is_count(value: object) -> bool:
    """Return True for a whole number of 0 or more, including numpy's and whole floats."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    # Infinities and NaN make int() fail.
    return float(value) >= 0 and (isinstance(value, numbers.Integral) or float(value).is_integer())


def _few(names: Mapping[str, object]) -> str:
    shown = ", ".join(map(str, list(names)[:4])) or "nothing"
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")
