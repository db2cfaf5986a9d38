"""The data seam: what a party trains on."""

from __future__ import annotations

from securefl.arrays import I64


def flip_labels(y: I64, classes: int) -> I64:
    """Return the labels with class y as ``classes - 1 - y``: i64 (n,) to i64 (n,), both in [0, classes).

    Source: Fang et al. 2020 (arXiv 1911.11815): the label flipping attack.
    """
    return (classes - 1) - y
