"""Points in the span of the cluster means, known by their coefficients.

Rules that iterate (geometric median, centred clipping) only ever ask how far such a point is from each row.
One Gram matrix answers that, so that an iteration costs O(c^2) instead of two passes over all c d values.
"""

from __future__ import annotations

import math

import numpy as np

from securefl.base.arrays import F64
from securefl.methods.robust import products

_LARGEST_SQUARE = 1e300
_SAFE_EXPONENT = 470
"""Values below 2^470 have squared lengths below 2^1023 in up to 2^80 coordinates."""


class Span:
    """The rows relative to an origin, y_i = x_i - origin, and the points u = sum_i a_i y_i.

    Distances are exact to about 1e-7 of the longest *honest* y_i, whose values are rounded to 23 bits
    (:func:`securefl.methods.robust.products.gram`): an enormous row has coefficients as small as it is long
    in the rules that use this, and its products keep their relative precision. Rows whose squares leave the
    range of float64 are scaled by a power of two first.
    """

    def __init__(self, rows: F64, origin: F64 | None = None) -> None:
        self._rows = rows
        self._origin = origin
        self._unit = 1.0
        self._products = products.gram(rows, origin)
        if not np.diagonal(self._products).max() <= _LARGEST_SQUARE:
            largest = max(float(np.abs(a).max()) for a in (rows, *(() if origin is None else (origin,))))
            self._unit = math.ldexp(1.0, math.frexp(largest)[1] - _SAFE_EXPONENT)
            self._products = products.gram(rows, origin, 1.0 / self._unit)

    def between_rows(self) -> F64:
        """||y_i - y_j||, f64 ``(c, c)``, rows' own unit, zero on the diagonal."""
        norms = np.diagonal(self._products)
        squared: F64 = norms[:, np.newaxis] + norms - 2.0 * self._products
        np.fill_diagonal(squared, 0.0)
        return self._unit * np.sqrt(np.maximum(squared, 0.0))

    def distances(self, coefficients: F64) -> F64:
        """||u - y_j|| for all rows, f64 ``(c,)``, rows' own unit."""
        towards = products.fold(self._products * coefficients[:, np.newaxis])
        squared: F64 = products.total(coefficients * towards) - 2.0 * towards + np.diagonal(self._products)
        return self._unit * np.sqrt(np.maximum(squared, 0.0))

    def point(self, coefficients: F64) -> F64:
        """Origin + u, f64 ``(d,)``: one pass over the rows."""
        vector = products.combine(coefficients, self._rows)
        if self._origin is not None:
            vector += (1.0 - products.total(coefficients)) * self._origin
        return vector
