"""Shards: one party's samples, standardised, in one file."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar, cast

import numpy as np

from securefl import scenario
from securefl.base.arrays import I64, Inputs
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.training.data import npz
from securefl.training.data.dataset import Dataset, Samples, standardise
from securefl.training.data.source import SampleSource, check_declared, check_samples, class_count, own_source
from securefl.training.data.split import SERVER_SET, TEST, Split, split


@dataclass(frozen=True, eq=False, repr=False)
class Shard:
    """Samples and their labels, n >= 1.

    ``x`` is f32 ``(n, *input_shape)``, standardised, finite; ``y`` i64 ``(n,)`` in [0, classes). For a text
    both are i64 ``(n, length)`` in [0, classes).
    """

    x: Inputs
    y: I64
    classes: int
    input_shape: tuple[int, ...]

    @property
    def tokens(self) -> bool:
        """True if the samples are text, with a label at every position."""
        return self.x.dtype == np.int64

    def __repr__(self) -> str:
        return f"Shard(samples={len(self.y)}, classes={self.classes}, input_shape={self.input_shape})"


@dataclass(frozen=True)
class ShardFiles:
    """Paths of the shards, and each party's number of samples."""

    parties: Mapping[PartyId, Path]
    counts: Mapping[PartyId, int]
    test: Path
    server: Path | None
    """Path of the server's own training samples, or None."""


Turns = Mapping[PartyId, int]
"""Quarter turns of each party's images."""
SomeSamples = TypeVar("SomeSamples", bound=Samples)
NO_TURNS: Turns = MappingProxyType({})


class Shards(NamedTuple):
    """Shards in memory."""

    parties: dict[PartyId, Shard]
    test: Shard
    server: Shard | None
    """The server's own training samples, or None."""


def shards_of(dataset: Dataset, rows: Split, turns: Turns = NO_TURNS) -> Shards:
    """Return all shards in memory, equal to :func:`load_shard` of the files; equal ones are stored once."""
    held = {(id(own), turns.get(party, 0)): own for party, own in rows.parties.items()}
    made = {
        key: _shard(dataset, turned_samples(dataset.x_train[own], key[1]), dataset.y_train[own])
        for key, own in held.items()
    }
    parties = {party: made[id(own), turns.get(party, 0)] for party, own in rows.parties.items()}
    test = _shard(dataset, dataset.x_test[rows.test], dataset.y_test[rows.test])
    source = dataset.servers or dataset
    server = _shard(source, source.x_train[rows.server], source.y_train[rows.server])
    return Shards(parties, test, server if len(rows.server) else None)


def turns_of(groups: scenario.Groups, parties: tuple[PartyId, ...]) -> Turns:
    """Return the quarter turns of each party's images; empty if tasks are not rotations.

    Parties take the rotations in turn, or ``groups.sizes`` parties share each.
    """
    if groups.count == 1 or groups.tasks != "rotations":
        return {}
    if groups.sizes:
        turns = [turn for turn, size in enumerate(groups.sizes) for _ in range(size)]
        return dict(zip(parties, turns, strict=True))
    return {party: index % groups.count for index, party in enumerate(parties)}


def turned_samples(x: SomeSamples, quarters: int) -> SomeSamples:
    """Turn images ``(n, ..., side, side)`` by a number of quarters, anticlockwise.

    Raises:
        ConfigError: the samples are not square images.
    """
    if not quarters:
        return x
    if x.ndim < 3 or x.shape[-1] != x.shape[-2]:
        raise ConfigError(
            "groups.tasks",
            f"samples of shape {x.shape[1:]} are not square images, which rotations need",
            'set it to "given"',
        )
    return cast("SomeSamples", np.ascontiguousarray(np.rot90(x, quarters, axes=(-2, -1))))


def _shard(dataset: Dataset, samples: Samples, labels: I64) -> Shard:
    return Shard(dataset.standardise(samples), labels, dataset.classes, samples.shape[1:])


def write_shards(
    dataset: Dataset,
    config: scenario.Data,
    parties: tuple[PartyId, ...],
    seed: int,
    directory: Path,
    behind: Collection[PartyId] = (),
    turns: Turns = NO_TURNS,
) -> ShardFiles:
    """Split ``dataset`` (:func:`split`) and write ``<party>.npz`` and ``test.npz`` into ``directory``.

    Also ``server.npz`` if the server has samples. The caller creates ``directory``, readable by itself only.

    Raises:
        ConfigError: the split is not feasible, or a file cannot be written.
        UsageError: a name occurs twice or is that of another file.
    """
    whole = split(dataset, config, parties, seed, behind)

    def write(stem: str, rows: I64, source: Dataset = dataset, quarters: int = 0) -> Path:
        samples = turned_samples(source.x_train[rows], quarters)
        return _write(directory / f"{stem}.npz", source, samples, source.y_train[rows])

    paths: dict[PartyId, Path] = {}
    counts: dict[PartyId, int] = {}
    for party, rows in whole.parties.items():
        paths[party] = write(party, rows, quarters=turns.get(party, 0))
        counts[party] = len(rows)
    x_test, y_test = dataset.x_test[whole.test], dataset.y_test[whole.test]
    test = _write(directory / f"{TEST}.npz", dataset, x_test, y_test)
    server = write(SERVER_SET, whole.server, dataset.servers or dataset) if len(whole.server) else None
    return ShardFiles(paths, counts, test, server)


def _write(path: Path, dataset: Dataset, samples: Samples, labels: I64) -> Path:
    try:
        np.savez(path, x=dataset.standardise(samples), y=labels, classes=np.int64(dataset.classes))
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot be written: {error.strerror}", "choose a folder that you may write"
        ) from error
    return path


def load_samples(given: Path, config: scenario.Data, half: Literal["train", "test"]) -> Shard:
    """Load a party's or the server's own samples.

    ``given`` is a file, ``module:function``, or a scheme and a path such as ``csv:PATH``. Bytes are divided
    by 255. ``data.standardise`` applies, but not to tables, which have constants of their own, nor to samples
    of :func:`write_shards`. Nothing is computed from the samples.

    Raises:
        ConfigError: they cannot be read, or contradict the scenario.
    """
    return samples_of(own_source(given, config), config, half)


def samples_of(source: SampleSource, config: scenario.Data, half: Literal["train", "test"]) -> Shard:
    """Load samples from a source, like :func:`load_samples`."""
    if source.prepared:
        shard = load_shard(source.prepared)
        check_declared(source.name, shard.input_shape, shard.classes, config)
        return shard
    found = source.read(half if source.divided else "all")
    x, y = check_samples(found, source, config)
    classes = class_count(found, source, config)
    if classes is None:
        reason = f"is missing, and {source.name} does not state the number of classes"
        raise ConfigError("data.classes", reason, "set classes under [data], the same at all parties")
    constants = None if source.standardised else config.standardise
    mean, deviation = (constants.mean, constants.deviation) if constants else (0.0, 1.0)
    return Shard(standardise(x, mean, deviation), y, classes, x.shape[1:])


def load_shard(path: Path) -> Shard:
    """Load the samples in an archive of :func:`write_shards` and check them.

    Raises:
        ConfigError: missing, damaged, of objects, or arrays that are not a shard.
    """
    arrays = npz.read_npz(path, ("x", "y", "classes"))
    x_where, classes_where = f"{path}[x]", f"{path}[classes]"
    x, raw_classes = arrays["x"], arrays["classes"]
    if x.dtype not in (np.float32, np.int64) or x.ndim < 2 or x.size == 0:
        raise ConfigError(
            x_where,
            f"has dtype {x.dtype} and shape {x.shape}, expected float32 (n, ...)",
            "store samples by rows as float32",
        )
    if x.dtype == np.int64 and x.ndim != 2:
        raise ConfigError(
            x_where, f"holds tokens of shape {x.shape}, expected (n, length)", "store one sequence per row"
        )
    if raw_classes.shape != () or raw_classes.dtype != np.int64:
        raise ConfigError(
            classes_where,
            f"has dtype {raw_classes.dtype} and shape {raw_classes.shape}, expected one integer",
            "store the number of classes",
        )
    classes = int(raw_classes)
    if not 2 <= classes <= npz.MAX_CLASSES:
        raise ConfigError(
            classes_where, f"is {classes}, must be in [2, {npz.MAX_CLASSES}]", "store the number of classes"
        )
    tokens = x.dtype == np.int64
    y = npz.labels_of(arrays["y"], f"{path}[y]", x.shape[1:] if tokens else ())
    if len(y) != len(x):
        raise ConfigError(
            f"{path}[y]", f"has {len(y)} labels for {len(x)} samples", "store one label per sample"
        )
    if int(y.max()) >= classes:
        raise ConfigError(
            f"{path}[y]",
            f"holds the label {int(y.max())}, but there are {classes} classes",
            "number the classes from 0, or correct the array classes",
        )
    if not tokens:
        return Shard(npz.finite_f32(x, x_where), y, classes, x.shape[1:])
    x = npz.labels_of(x, x_where, x.shape[1:])
    if int(x.max()) >= classes:
        raise ConfigError(
            x_where,
            f"holds the token {int(x.max())}, but there are {classes} classes",
            "number the tokens from 0, or correct the array classes",
        )
    return Shard(x, y, classes, x.shape[1:])
