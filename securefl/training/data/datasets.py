"""Loading of whole data sets."""

import gzip
import hashlib
import importlib.util
import io
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from securefl import scenario
from securefl.base.errors import ConfigError
from securefl.training.data import source
from securefl.training.data.cifar import load_cifar10
from securefl.training.data.dataset import Dataset
from securefl.training.data.idx import read_idx
from securefl.training.data.text import load_shakespeare


class _IdxFiles(NamedTuple):
    """Digests of four packed files; mean and deviation of the training pixels in [0, 1]."""

    title: str
    train_images: str
    train_labels: str
    test_images: str
    test_labels: str
    mean: float
    std: float


# Digests are those of the first publication (LeCun et al.; Zalando SE), mean and deviation the common values.
_IDX_SETS = {
    "mnist": _IdxFiles(
        "MNIST",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        mean=0.1307,
        std=0.3081,
    ),
    "fashion-mnist": _IdxFiles(
        "Fashion-MNIST",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        mean=0.2860,
        std=0.3530,
    ),
}


KNOWN = frozenset({"digits", "cifar10", "shakespeare", *_IDX_SETS})
_DIGITS_SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"
_DIGITS_MOMENTS = (0.30513582, 0.37615756)
"""Mean and deviation of the training half, to the precision of f32."""


def load_data(config: scenario.Data, data_dir: Path | None) -> Dataset:
    """Load the scenario's data set, with the server's own set in ``servers`` if the scenario names one.

    Raises:
        ConfigError: as for :func:`load_dataset`; ``data.standardise`` is set for a text; or the two sets
            differ in kind.
    """
    dataset = _load(config, config.set, data_dir)
    if config.server_set is None:
        return dataset
    try:
        servers = _load(config, config.server_set, data_dir)
    except ConfigError as error:
        path = "data.server_set" if error.path == "data.set" else error.path
        raise ConfigError(path, error.reason, error.remedy) from error
    kinds = [f"samples of shape {one.input_shape} in {one.classes} classes" for one in (servers, dataset)]
    if kinds[0] != kinds[1]:
        raise ConfigError(
            "data.server_set",
            f"{servers.name} has {kinds[0]}, {dataset.name} {kinds[1]}",
            "choose a set with samples of that shape and as many classes, or leave it out",
        )
    return replace(dataset, servers=servers)


def _load(config: scenario.Data, name: str, data_dir: Path | None) -> Dataset:
    dataset = _load_named(config, name, data_dir)
    chosen = config.standardise
    if chosen is None:
        return dataset
    if dataset.x_train.dtype == np.int64:
        raise ConfigError(
            "data.standardise", f"{dataset.name} is text, which cannot be standardised", "remove it"
        )
    return replace(dataset, mean=chosen.mean, std=chosen.deviation, measured=False)


def load_dataset(
    set: str,  # noqa: A002 - the name of the scenario's field
    data_dir: Path | None,
    sequence_length: int = 80,
) -> Dataset:
    """Load the data set named by the scenario's ``data.set``, with the defaults of ``[data]``.

    Raises:
        ConfigError: a file is missing or wrong, or ``--data-dir`` is needed and not given.
    """
    return _load_named(scenario.Data(sequence_length=sequence_length), set, data_dir)


def _load_named(config: scenario.Data, name: str, data_dir: Path | None) -> Dataset:
    """Load a data set by name.

    ``digits`` comes with scikit-learn (8x8, 1,797 samples). ``mnist`` and ``fashion-mnist`` are read from
    ``<data_dir>/<name>/*.gz`` and checked against the published digests. ``cifar10`` and ``shakespeare``, in
    sequences of ``sequence_length``, are read from ``<data_dir>/<name>/``; their title states if the files
    are unknown. All others are users' data (:mod:`securefl.training.data.source`).
    """
    if name not in KNOWN:
        pictures = name.startswith("folder:")
        return source.whole_set(
            source.source_named(name, config),
            config,
            fraction=config.images.test_fraction if pictures else config.test_fraction,
            field="data.images.test_fraction" if pictures else "data.test_fraction",
        )
    dataset = _load_published(config, name, data_dir)
    if config.class_count not in {None, dataset.classes}:
        reason = f"{name} has {dataset.classes} classes, but {config.class_count} are declared"
        raise ConfigError("data.classes", reason, "leave it out")
    if config.shape not in {None, dataset.input_shape}:
        raise ConfigError("data.shape", f"{name} has samples of shape {dataset.input_shape}", "leave it out")
    return dataset


def _load_published(config: scenario.Data, name: str, data_dir: Path | None) -> Dataset:
    if name == "digits":
        return _load_digits()
    if name == "cifar10":
        return load_cifar10(_folder(name, data_dir))
    if name == "shakespeare":
        return load_shakespeare(_folder(name, data_dir) / "plays.txt.gz", config.sequence_length)
    return _load_idx_set(name, data_dir)


def _folder(name: str, data_dir: Path | None) -> Path:
    if data_dir is None:
        raise ConfigError("data.set", f"{name} is read from files", "name their folder by --data-dir")
    return data_dir / name


def _load_digits() -> Dataset:
    # Importing scikit-learn would take two seconds.
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise ConfigError(
            "data.set", "digits needs scikit-learn, which is not installed", "pip install 'securefl[learn]'"
        )
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        raw = path.read_bytes()
    except OSError as error:
        remedy = "reinstall scikit-learn, or use another data set"
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", remedy) from error
    if hashlib.sha256(raw).hexdigest() != _DIGITS_SHA256:
        raise ConfigError(str(path), "is not the digits data set as published", "reinstall scikit-learn")
    table = np.loadtxt(io.BytesIO(gzip.decompress(raw)), delimiter=",", dtype=np.int64)
    x = (table[:, :-1].astype(np.float32) / np.float32(16.0)).reshape(-1, 1, 8, 8)
    y = table[:, -1].copy()
    # A stratified test half, the same on every machine.
    test = np.zeros(y.shape, dtype=np.bool_)
    for label in np.unique(y):
        test[np.flatnonzero(y == label)[4::5]] = True
    mean, std = _DIGITS_MOMENTS
    return Dataset("digits", x[~test], y[~test], x[test], y[test], 10, (1, 8, 8), mean, std, "digits")


def _load_idx_set(name: str, data_dir: Path | None) -> Dataset:
    folder = _folder(name, data_dir)
    files = _IDX_SETS[name]
    x_train = read_idx(folder / "train-images-idx3-ubyte.gz", 3, files.train_images)[:, None]
    y_train = read_idx(folder / "train-labels-idx1-ubyte.gz", 1, files.train_labels).astype(np.int64)
    x_test = read_idx(folder / "t10k-images-idx3-ubyte.gz", 3, files.test_images)[:, None]
    y_test = read_idx(folder / "t10k-labels-idx1-ubyte.gz", 1, files.test_labels).astype(np.int64)
    shape = x_train.shape[1:]
    return Dataset(name, x_train, y_train, x_test, y_test, 10, shape, files.mean, files.std, files.title)
