"""Users' data, as a whole data set or as one party's samples."""

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
"""Half of the data; ``all`` for undivided data."""


class Labelled(NamedTuple):
    """Arrays of a source, not yet checked."""

    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    x_name: str
    y_name: str
    """Names of the arrays in errors."""
    classes: int | tuple[str, ...] | None = None
    """Classes that the source states, or None."""


class SampleSource:
    """Source behind a name such as ``csv:PATH``. It inspects only names before :meth:`read`."""

    standardised: ClassVar[bool] = False
    """True if its samples are model inputs, by declared constants."""
    noun: ClassVar[str] = "samples"
    title: str
    name: str
    """Name in errors."""
    divided: bool
    """True if it has a training and a test half."""
    prepared: Path | None = None
    """Archive of securefl with a party's samples as model inputs; None for other sources."""
    inputs: tuple[str, ...] = ()
    """Names of the model's inputs, if any."""
    remarks: tuple[str, ...] = ()
    """Columns and rows that :meth:`read` left out."""

    def read(self, half: Half) -> Labelled:
        """Read ``train`` or ``test`` if the source is divided, else ``all``.

        Raises:
            ConfigError: the data are invalid.
        """
        raise NotImplementedError


def source_named(name: str, config: scenario.Data) -> SampleSource:
    """Return the source that ``data.set`` names: a scheme and a path, or ``module:function``.

    Raises:
        ConfigError: it is not such a name.
    """
    scheme, colon, place = name.partition(":")
    if colon and scheme in scenario.SCHEMES:
        return _of_scheme(scheme, Path(place), config)
    if not scenario.OWN_NAME.fullmatch(name):
        raise ConfigError("data.set", f"{name!r} is not a data set", scenario.DATA_FORMS)
    return _of_scheme("function", Path(name), config)


def own_source(given: Path, config: scenario.Data) -> SampleSource:
    """Return the source that a party names by ``--data``: as for ``data.set``, or a file.

    Raises:
        ConfigError: it is a folder without a scheme.
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
    """Read a data set with its halves; draw ``fraction`` of each class as test half if the source has none.

    ``field`` names ``fraction`` in errors.

    Raises:
        ConfigError: the source cannot be read, contradicts the declarations, or nothing can be learned.
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
            raise ConfigError(
                test.x_name, f"has dtype {x_test.dtype}, x_train {x_train.dtype}", "store both in one dtype"
            )
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
            raise UsageError(
                f"data source {source.name} must declare classes, as its samples are standardised"
            )
        halves, shape = (x_train, y_train, x_test, y_test), x_train.shape[1:]
        return dataset.Dataset(source.title, *halves, classes, shape, 0.0, 1.0, title)
    whole = dataset.standardised_by_train(
        source.title, x_train, y_train, x_test, y_test, where=train.x_name, classes=classes
    )
    return replace(whole, title=title)


def check_samples(
    found: Labelled, source: SampleSource, config: scenario.Data
) -> tuple[dataset.Samples, I64]:
    """Return samples u8 or f32 ``(n, *shape)`` and labels i64 ``(n,)`` of a source.

    Raises:
        ConfigError: the arrays are of another kind, or contradict the declarations.
    """
    x, y = _samples_of(found.x, found.x_name), npz.labels_of(found.y, found.y_name)
    if len(x) != len(y):
        samples = found.x_name.rpartition("[")[2].rstrip("]")
        raise ConfigError(
            found.y_name,
            f"has {len(y)} labels for the {len(x)} samples of {samples}",
            "store one label per sample",
        )
    check_declared(found.x_name, x.shape[1:], None, config)
    classes = class_count(found, source, config)
    if classes is not None and int(y.max()) >= classes:
        raise ConfigError(
            found.y_name,
            f"holds the label {int(y.max())}, but there are {classes} classes",
            "number the classes from 0, or correct their number",
        )
    return x, y


def check_declared(name: str, shape: tuple[int, ...], classes: int | None, config: scenario.Data) -> None:
    """Raise a ConfigError unless samples match the scenario; ``classes`` is None if unknown."""
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
    """Return the number of classes that source or scenario state, or None.

    Raises:
        ConfigError: they contradict each other.
    """
    declared = len(found.classes) if isinstance(found.classes, tuple) else found.classes
    if declared is not None:
        check_declared(source.name, config.declared_shape or (), declared, config)
    return declared if config.class_count is None else config.class_count


def drawn_for_test(labels: I64, fraction: float, names: tuple[str, ...], field: str) -> BoolArray:
    """Draw the test samples, the same in all runs: each class's share, by largest remainders.

    Raises:
        ConfigError: no sample would be drawn, or all of a class; ``field`` names it.
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
            where,
            f"has shape {array.shape}, expected (n, ...) with at least one value per sample",
            "store at least one sample",
        )
    return array if array.dtype == np.uint8 else npz.finite_f32(array, where)
