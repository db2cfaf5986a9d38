"""What one party holds: its own samples, standardised, in one file. No party ever sees the whole data set.

The launcher writes the shards into a private directory; each party loads one file, the server the test file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from securefl.arrays import F32, I64
from securefl.config.scenario import Data
from securefl.errors import ConfigError, UsageError
from securefl.ids import PartyId
from securefl.learning.datasets import Dataset, Samples
from securefl.learning.npz import MAX_CLASSES, finite_f32, labels_of, read_npz
from securefl.learning.partition import partition

TEST = "test"
"""Stem of the server's file."""


@dataclass(frozen=True, eq=False, repr=False)
class Shard:
    """``x`` f32 ``(n, *input_shape)``, standardised, finite; ``y`` i64 ``(n,)`` in [0, classes); n >= 1."""

    x: F32
    y: I64
    classes: int
    input_shape: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Shard(samples={len(self.y)}, classes={self.classes}, input_shape={self.input_shape})"


@dataclass(frozen=True)
class ShardFiles:
    """Where the shards lie, and how many samples each party got (the count that it will declare)."""

    parties: Mapping[PartyId, Path]
    counts: Mapping[PartyId, int]
    test: Path


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Who gets which rows of a data set."""

    parties: Mapping[PartyId, I64]
    """Rows of the training half."""
    test: I64
    """Rows of the test half."""


def split(dataset: Dataset, config: Data, parties: tuple[PartyId, ...], seed: int) -> Split:
    """Split ``dataset`` as ``config`` says.

    ``train_limit`` and ``test_limit`` keep the first samples of a permutation seeded with ``seed``. Limits
    above the data set's size keep everything.

    Raises:
        ConfigError: the split is not feasible (see :func:`partition`).
        UsageError: a name occurs twice or is the test file's.
    """
    if len(set(parties)) != len(parties) or TEST in parties:
        raise UsageError(f"names of parties must be distinct and not {TEST!r}")
    # The second word keeps this stream apart from the one that the partition draws from the same seed.
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    train = _limited(len(dataset.y_train), config.train_limit, rng)
    test = _limited(len(dataset.y_test), config.test_limit, rng)
    shares = partition(dataset.y_train[train], len(parties), config.partition, seed)
    return Split({party: train[share] for party, share in zip(parties, shares, strict=True)}, test)


def shards_of(dataset: Dataset, rows: Split) -> tuple[dict[PartyId, Shard], Shard]:
    """The parties' shards and the test shard, in memory: what :func:`load_shard` gives of the files."""
    parties = {
        party: _shard(dataset, dataset.x_train[own], dataset.y_train[own])
        for party, own in rows.parties.items()
    }
    return parties, _shard(dataset, dataset.x_test[rows.test], dataset.y_test[rows.test])


def _shard(dataset: Dataset, samples: Samples, labels: I64) -> Shard:
    return Shard(dataset.standardise(samples), labels, dataset.classes, samples.shape[1:])


def write_shards(
    dataset: Dataset, config: Data, parties: tuple[PartyId, ...], seed: int, directory: Path
) -> ShardFiles:
    """Split ``dataset`` (:func:`split`) and write ``<party>.npz`` and ``test.npz`` into ``directory``.

    The caller creates ``directory``, readable by itself only.

    Raises:
        ConfigError: the split is not feasible, or a file cannot be written.
        UsageError: a name occurs twice or is the test file's.
    """
    whole = split(dataset, config, parties, seed)
    test = whole.test
    paths: dict[PartyId, Path] = {}
    counts: dict[PartyId, int] = {}
    for party, rows in whole.parties.items():
        paths[party] = _write(
            directory / f"{party}.npz", dataset, dataset.x_train[rows], dataset.y_train[rows]
        )
        counts[party] = len(rows)
    test_path = _write(directory / f"{TEST}.npz", dataset, dataset.x_test[test], dataset.y_test[test])
    return ShardFiles(paths, counts, test_path)


def _limited(total: int, limit: int | None, rng: np.random.Generator) -> I64:
    order: I64 = rng.permutation(total)
    return order if limit is None else order[:limit]


def _write(path: Path, dataset: Dataset, samples: Samples, labels: I64) -> Path:
    try:
        np.savez(path, x=dataset.standardise(samples), y=labels, classes=np.int64(dataset.classes))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be written: {error.strerror}") from error
    return path


def load_shard(path: Path) -> Shard:
    """The shard in ``path``, checked.

    Raises:
        ConfigError: missing, damaged, pickled, or arrays that are no shard; names the file and the array.
    """
    arrays = read_npz(path, ("x", "y", "classes"))
    x_where, classes_where = f"{path}[x]", f"{path}[classes]"
    x, raw_classes = arrays["x"], arrays["classes"]
    if x.dtype != np.float32 or x.ndim < 2 or x.size == 0:
        raise ConfigError(x_where, f"has dtype {x.dtype} and shape {x.shape}, expected float32 (n, ...)")
    if raw_classes.shape != () or raw_classes.dtype != np.int64:
        raise ConfigError(classes_where, f"has dtype {raw_classes.dtype} and shape {raw_classes.shape}")
    classes = int(raw_classes)
    if not 2 <= classes <= MAX_CLASSES:
        raise ConfigError(classes_where, f"is {classes}, must lie in [2, {MAX_CLASSES}]")
    y = labels_of(arrays["y"], f"{path}[y]")
    if len(y) != len(x):
        raise ConfigError(f"{path}[y]", f"has {len(y)} labels for {len(x)} samples")
    if int(y.max()) >= classes:
        raise ConfigError(f"{path}[y]", f"holds the label {int(y.max())}, but there are {classes} classes")
    return Shard(finite_f32(x, x_where), y, classes, x.shape[1:])
