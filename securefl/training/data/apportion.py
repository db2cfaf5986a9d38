"""Whole numbers in proportion: what partitions and samples are cut by."""

from __future__ import annotations

import numpy as np

from securefl.base.arrays import F64, I64


def even_sizes(total: int, parts: int) -> I64:
    """``parts`` whole numbers that add up to ``total`` and differ by at most one, the larger ones first."""
    sizes = np.full(parts, total // parts, dtype=np.int64)
    sizes[: total % parts] += 1
    return sizes


def cut(order: I64, sizes: I64) -> list[I64]:
    """``order`` in pieces of ``sizes``, which add up to its length."""
    return np.split(order, np.cumsum(sizes)[:-1])


def largest_remainders(total: int, weights: F64) -> I64:
    """Whole numbers that add up to ``total``, in proportion to ``weights``, f64 ``(k,)``, not all 0.

    Each is its exact share, rounded down, or up where the rounded off parts are largest (Hamilton's method).
    """
    ideal = total * (weights / weights.sum())
    sizes: I64 = np.floor(ideal).astype(np.int64)
    missing = total - int(sizes.sum())
    sizes[np.argsort(sizes - ideal, kind="stable")[:missing]] += 1
    return sizes
