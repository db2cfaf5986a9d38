"""Data of one's own: a file, a folder or a function, read alike as a whole data set and as one party's."""

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from securefl import scenario
from securefl.base.arrays import I64, BoolArray
from securefl.base.errors import ConfigError, UsageError
from securefl.training.data import dataset, npz
from securefl.training.data.partition import largest_remainders

Half = Literal["train", "test", "all"]
"""``all`` of data that come undivided."""


class Labelled(NamedTuple):
    """Arrays of a source, not yet checked."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    x_name: str
    y_name: str
    """What errors call them."""
    classes: int | tuple[str, ...] | None = None
    """What the source says of its classes."""


class SampleSource:
    """What is behind a name such as ``csv:PATH``. Nothing but names is looked at before :meth:`read`."""

    standardised: ClassVar[bool] = False
    """Whether its samples are as the model takes them, by constants that the scenario declares."""
    noun: ClassVar[str] = "samples"
    title: str
    name: str
    """What errors call it."""
    divided: bool
    """Whether it has a training and a test half of its own."""
    prepared: Path | None = None
    """An archive that securefl wrote: a party's samples as the model takes them."""
    inputs: tuple[str, ...] = ()
    """Names of the model's inputs, if they have names."""
    remarks: tuple[str, ...] = ()
    """After :meth:`read`: what was left out."""

    def read(self, half: Half) -> Labelled:
        """``train`` or ``test`` if it is divided, else ``all``.

        Raises:
            ConfigError: naming file, place, reason and remedy.
        """
        raise NotImplementedError


def source_named(name: str, config: scenario.Data) -> SampleSource:
    """The source that ``data.set`` names by a scheme and a path or as ``module:function``.

    Raises:
        ConfigError: it is no such name.
    """
    scheme, colon, place = name.partition(":")
    if colon and scheme in scenario.SCHEMES:
        return _of_scheme(scheme, Path(place), config)
    if not scenario.OWN_NAME.fullmatch(name):
        raise ConfigError("data.set", f"{name!r} is not a data set", scenario.DATA_FORMS)
    return _of_scheme("function", Path(name), config)


def own_source(given: Path, config: scenario.Data) -> SampleSource:
    """The source that a party names as ``--data``: as ``data.set``, or a file alone.

    Raises:
        ConfigError: it is a folder, of which it does not say what it holds.
    """
    name = str(given)
    scheme = name.partition(":")[0]
    if scheme in scenario.SCHEMES and ":" in name:
        return source_named(name, config)
    if given.is_dir():
        raise ConfigError(name, "is a folder", f"write idx:{name} or folder:{name}")
    if not given.exists() and scenario.OWN_NAME.fullmatch(name):
        return source_named(name, config)
    ending = given.name.removesuffix(".gz").rpartition(".")[2]
    return _of_scheme({"csv": "csv", "parquet": "parquet", "pq": "parquet"}.get(ending, "npz"), given, config)


def _of_scheme(scheme: str, place: Path, config: scenario.Data) -> SampleSource:
    module = importlib.import_module(f"securefl.training.data.sources.{scheme}_files")
    found: SampleSource = module.source(place, config)
    return found


def whole_set(source: SampleSource, config: scenario.Data, *, fraction: float, field: str) -> dataset.Dataset:
    """A data set with its halves; the test half is drawn if the source has none.

    Args:
        source: of the samples.
        config: declares classes and shape, or does not.
        fraction: of each class, for the test.
        field: names ``fraction`` in errors.

    Raises:
        ConfigError: the source cannot be read, is not as declared, or there is nothing to learn.
    """
    if source.prepared:
        raise ConfigError(
            source.name,
            "holds one party's samples x, y, which are standardised already",
            "name a file with x_train, y_train, x_test and y_test (docs/data.md)",
        )
    if source.divided:
        train, test = source.read("train"), source.read("test")
        x_train, y_train = check_samples(train, source, config)
        x_test, y_test = check_samples(test, source, config)
        if x_train.shape[1:] != x_test.shape[1:]:
            reason = f"has samples of shape {x_test.shape[1:]}, x_train {x_train.shape[1:]}"
            raise ConfigError(test.x_name, reason)
        if x_train.dtype != x_test.dtype:
            raise ConfigError(test.x_name, f"has dtype {x_test.dtype}, x_train {x_train.dtype}")
    else:
        train = source.read("all")
        x, y = check_samples(train, source, config)
        names = train.classes if isinstance(train.classes, tuple) else config.class_names
        rows = drawn_for_test(y, fraction, names, field)
        x_train, y_train, x_test, y_test = x[~rows], y[~rows], x[rows], y[rows]
    classes = class_count(train, source, config)
    sizes = "" if source.divided else f" ({len(y_train):,}/{len(y_test):,} {source.noun})"
    title = source.title + sizes
    if source.standardised:
        if classes is None:
            raise UsageError(f"{source.name}: standardised samples without declared classes")
        halves, shape = (x_train, y_train, x_test, y_test), x_train.shape[1:]
        return dataset.Dataset(source.title, *halves, classes, shape, 0.0, 1.0, title)
    whole = dataset.standardised_by_train(
        source.title, x_train, y_train, x_test, y_test, where=train.x_name, classes=classes
    )
    return replace(whole, title=title)


def check_samples(
    found: Labelled, source: SampleSource, config: scenario.Data
) -> tuple[dataset.Samples, I64]:
    """Samples u8 or f32 ``(n, *shape)`` and labels i64 ``(n,)`` below the number of classes.

    Raises:
        ConfigError: they are no such arrays, or not as declared.
    """
    x, y = _samples_of(found.x, found.x_name), npz.labels_of(found.y, found.y_name)
    if len(x) != len(y):
        samples = found.x_name.rpartition("[")[2].rstrip("]")
        raise ConfigError(found.y_name, f"has {len(y)} labels for the {len(x)} samples of {samples}")
    check_declared(found.x_name, x.shape[1:], None, config)
    classes = class_count(found, source, config)
    if classes is not None and int(y.max()) >= classes:
        raise ConfigError(found.y_name, f"holds the label {int(y.max())}, but there are {classes} classes")
    return x, y


def check_declared(name: str, shape: tuple[int, ...], classes: int | None, config: scenario.Data) -> None:
    """Refuse samples that are not as the scenario says; ``classes`` is None where the data do not say it.

    Raises:
        ConfigError: naming what differs.
    """
    declared = config.declared_shape
    if declared is not None and shape != declared:
        field = "data.table" if config.shape is None else "data.shape"
        remedy = f"convert it to that shape, or correct {field} at all parties"
        raise ConfigError(name, f"has samples of shape {shape}, but {field} states {declared}", remedy)
    if classes is not None and config.class_count is not None and classes != config.class_count:
        raise ConfigError(
            name,
            f"has {classes} classes, but data.classes states {config.class_count}",
            "number the labels as other parties do, or correct data.classes at all parties",
        )


def class_count(found: Labelled, source: SampleSource, config: scenario.Data) -> int | None:
    """How many classes there are, by the source or the scenario, if either says it.

    Raises:
        ConfigError: they contradict each other.
    """
    said = len(found.classes) if isinstance(found.classes, tuple) else found.classes
    if said is not None:
        check_declared(source.name, config.declared_shape or (), said, config)
    return said if config.class_count is None else config.class_count


def drawn_for_test(labels: I64, fraction: float, names: tuple[str, ...], field: str) -> BoolArray:
    """Draw the samples for the test: of each class its share, by largest remainders.

    The draw has a seed of its own, so that all runs have the same test set.

    Raises:
        ConfigError: there would be none, or all of a class; ``field`` names the fraction.
    """
    counts = np.bincount(labels)
    total = round(fraction * len(labels))
    if not total:
        reason = f"{fraction:g} of {len(labels)} samples is less than one"
        raise ConfigError(field, reason, f"at least {1 / len(labels):.2g}")
    rng = np.random.Generator(np.random.PCG64(0))
    test = np.zeros(len(labels), dtype=np.bool_)
    for label, size in enumerate(largest_remainders(total, counts.astype(np.float64))):
        if counts[label] and size == counts[label]:
            name = names[label] if label < len(names) else str(label)
            raise ConfigError(
                field,
                f"{fraction:g} takes all {size} samples of class {name} for the test",
                "a smaller fraction, or more samples",
            )
        test[rng.permutation(np.flatnonzero(labels == label))[:size]] = True
    return test


def _samples_of(array: npt.NDArray[Any], where: str) -> dataset.Samples:
    if array.ndim < 2 or array.size == 0:
        raise ConfigError(
            where, f"has shape {array.shape}, expected (n, ...) with at least one value per sample"
        )
    return array if array.dtype == np.uint8 else npz.finite_f32(array, where)
