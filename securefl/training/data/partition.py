"""Splits of a data set over parties, and division of whole numbers in proportion.

Every kind returns one index array per party: disjoint, none empty, in shuffled order. All but ``labels`` and
``roles`` use every sample. A split is public, so numpy's generator is suitable.
"""

import numpy as np

from securefl import scenario
from securefl.base.arrays import F64, I64, expect
from securefl.base.errors import ConfigError, RunAbortedError, UsageError


def partition(labels: I64, parties: int, config: scenario.Partition, seed: int) -> tuple[I64, ...]:
    """Return the indices into ``labels`` of each of ``parties`` parties, split by ``config``.

    ``labels`` is i64 ``(n,)``, the class of each sample, or the number of its role, where party i gets role
    i. Equal arguments give equal splits.

    Raises:
        ConfigError: the split leaves a party without samples, or needs more classes, or a user's partition
            returned no split.
        UsageError: ``parties`` is not positive or ``labels`` has the wrong dtype or shape.
    """
    expect(labels, "labels", np.int64, (None,))
    if parties < 1:
        raise UsageError(f"parties must be at least 1, found {parties}")
    if len(labels) < parties:
        raise ConfigError(
            "parties",
            f"{parties} parties cannot share {len(labels)} samples",
            "use fewer parties, raise data.train_limit or lower data.server_fraction",
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    try:
        with config.blame_part():
            shares = tuple(config.split(labels, parties, rng))
    except RunAbortedError as error:
        raise ConfigError(
            "data.partition.type", f"the partition failed: {error}", "correct its code"
        ) from error
    reason = _defect(shares, len(labels), parties)
    if reason:
        raise ConfigError("data.partition.type", f"{config.name} {reason}", "correct its code")
    return shares


def _defect(shares: tuple[I64, ...], samples: int, parties: int) -> str:
    """Return the reason why the shares are not a split; empty if they are."""
    if len(shares) != parties:
        return f"returned {len(shares)} shares for {parties} parties"
    if any(not isinstance(own, np.ndarray) or own.dtype != np.int64 or own.ndim != 1 for own in shares):
        return "returned a share that is not a one-dimensional i64 array"
    empty = sum(not own.size for own in shares)
    if empty:
        return f"leaves {empty} of {parties} parties without a sample"
    taken = np.concatenate(shares)
    if taken.min() < 0 or taken.max() >= samples:
        return f"returned samples outside of 0 to {samples - 1}"
    if np.bincount(taken, minlength=samples).max() > 1:
        return "assigned a sample to two parties"
    return ""


def even_sizes(total: int, parts: int) -> I64:
    """Return ``parts`` whole numbers with sum ``total`` that differ by at most one, larger first."""
    sizes = np.full(parts, total // parts, dtype=np.int64)
    sizes[: total % parts] += 1
    return sizes


def cut(order: I64, sizes: I64) -> list[I64]:
    """Cut ``order`` into pieces of ``sizes``, which add up to its length."""
    return np.split(order, np.cumsum(sizes)[:-1])


def largest_remainders(total: int, weights: F64) -> I64:
    """Return whole numbers that add up to ``total``, in proportion to ``weights``, f64 ``(k,)``, not all 0.

    Exact shares are rounded down, or up for the largest remainders (Hamilton's method).
    """
    ideal = total * (weights / weights.sum())
    sizes: I64 = np.floor(ideal).astype(np.int64)
    missing = total - int(sizes.sum())
    sizes[np.argsort(sizes - ideal, kind="stable")[:missing]] += 1
    return sizes
