"""The server's own training samples, public like the split."""

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.training.data.dataset import Dataset


def server_rows(dataset: Dataset, train: I64, config: scenario.Data, seed: int) -> I64:
    """Return the server's rows, i64 ``(n,)``, in shuffled order, with equally many of each class.

    They are rows of ``train``, or of the whole training half of ``dataset.servers`` if it exists. Samples of
    a text, with a label per character, are drawn uniformly. Sources: SHARE, appendix D (5 %); Xiang et al.
    2023, section 4.4 (two samples of each class).

    Raises:
        ConfigError: a class has too few samples, or the share is less than one of each class.
    """
    if not config.server_holds_some:
        return np.empty(0, dtype=np.int64)
    source = dataset.servers or dataset
    if source is not dataset:
        train = np.arange(len(source.y_train), dtype=np.int64)
    is_text = source.y_train.ndim > 1
    labels = np.zeros(len(train), dtype=np.int64) if is_text else source.y_train[train]
    if config.server_per_class is not None:
        kinds, each = source.classes, config.server_per_class
        _check_count(source, labels, each)
    else:
        kinds = 1 if is_text else source.classes
        each = _share(source, labels, kinds, config.server_fraction)
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    chosen = [rng.permutation(np.flatnonzero(labels == kind))[:each] for kind in range(kinds)]
    rows: I64 = train[rng.permutation(np.concatenate(chosen))]
    return rows


def _check_count(source: Dataset, labels: I64, each: int) -> None:
    counts = np.bincount(labels, minlength=source.classes)
    if each > counts.min():
        fewest = int(counts.min())
        remedy = "set a larger data.train_limit, or another set"
        raise ConfigError(
            "data.server_per_class",
            f"{each} of each class, but class {int(counts.argmin())} of {source.name} has {fewest} samples",
            f"at most {fewest}, {remedy}" if fewest else remedy,
        )


def _share(source: Dataset, labels: I64, kinds: int, fraction: float) -> int:
    """Return the number of samples per class that make up ``fraction`` of all."""
    total = len(labels)
    counts = np.bincount(labels, minlength=kinds)
    scarce, fewest = int(counts.argmin()), int(counts.min())
    if not fewest:
        raise ConfigError(
            "data.server_fraction",
            f"class {scarce} of {source.name} has no samples, and the server needs as many of each class",
            "set a larger data.train_limit, or another set",
        )
    # In floating point 0.29 * 100 is just below 29.
    each = int(fraction * total / kinds + 1e-9)
    if not each:
        raise ConfigError(
            "data.server_fraction",
            f"{fraction:g} of {total} samples is less than one of each of {kinds} classes",
            f"at least {kinds / total:.2g}, or a larger data.train_limit",
        )
    if each > fewest:
        raise ConfigError(
            "data.server_fraction",
            f"{fraction:g} of {total} samples is {each} of each class, but class {scarce} has {fewest}",
            f"at most {fewest * kinds / total:.2g}",
        )
    return each
