"""Data of one's own, by every name that ``data.set`` and ``--data`` take: one layout for all who read it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from securefl.base.errors import ConfigError
from securefl.scenario import SCHEMES
from securefl.scenario.data import Data, Standardise
from securefl.scenario.tables import Column, TableSchema
from securefl.training.data import npz, sources
from securefl.training.data.datasets import load_data
from securefl.training.data.shards import Shard, load_samples
from tests.unit.training.builders import pack_idx, write_gzip

RNG = np.random.default_rng(5)
BYTES = RNG.integers(0, 256, (12, 4, 3), dtype=np.uint8)
LABELS = np.arange(12) % 3
HALF = Standardise(mean=0.5, deviation=0.25)


def own(given: str | Path, config: Data, half: Literal["train", "test"] = "train") -> Shard:
    return load_samples(Path(given), config, half)


def refusal(given: str | Path, config: Data, half: Literal["train", "test"] = "train") -> str:
    with pytest.raises(ConfigError) as caught:
        own(given, config, half)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return str(caught.value)


def whole_refusal(config: Data) -> str:
    with pytest.raises(ConfigError) as caught:
        load_data(config, None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_scheme_is_a_file() -> None:
    found = {name.removesuffix("_files") for _, name, _ in pkgutil.iter_modules(sources.__path__)}
    assert found == {*SCHEMES, "function"}
    for name in found:
        assert callable(importlib.import_module(f"{sources.__name__}.{name}_files").source)


# npz


def archive(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "own.npz", **arrays)
    return folder / "own.npz"


def halves() -> dict[str, Any]:
    return {"x_train": BYTES[:9], "y_train": LABELS[:9], "x_test": BYTES[9:], "y_test": LABELS[9:]}


def test_one_archive_is_a_data_set_a_partys_samples_and_the_servers(tmp_path: Path) -> None:
    path, config = archive(tmp_path, **halves()), Data(classes=3, standardise=HALF)
    whole = load_data(Data(set=f"npz:{path}", standardise=HALF), None)
    party, server = own(path, config), own(path, config, "test")
    np.testing.assert_array_equal(party.x, whole.standardise(whole.x_train))
    np.testing.assert_array_equal(server.x, whole.standardise(whole.x_test))
    assert (party.y.tolist(), server.y.tolist()) == (LABELS[:9].tolist(), LABELS[9:].tolist())
    assert (party.classes, party.input_shape) == (3, (4, 3))
    np.testing.assert_allclose(party.x, (BYTES[:9] / 255 - 0.5) / 0.25, atol=1e-6)
    np.testing.assert_array_equal(own(f"npz:{path}", config).x, party.x)


def test_nothing_is_computed_from_a_partys_samples(tmp_path: Path) -> None:
    path = archive(tmp_path, x_train=BYTES, y_train=LABELS, classes=np.uint8(3))
    np.testing.assert_array_equal(own(path, Data()).x, BYTES.astype(np.float32) / np.float32(255))
    path = archive(tmp_path, x_train=7 * np.ones((2, 2)), y_train=[0, 1], classes=2)
    assert own(path, Data()).x.tolist() == [[7, 7], [7, 7]]


def test_what_securefl_has_prepared_stays_as_it_is(tmp_path: Path) -> None:
    x = RNG.normal(size=(3, 2)).astype(np.float32)
    path = archive(tmp_path, x=x, y=[0, 1, 1], classes=np.int64(2))
    for half in ("train", "test"):
        np.testing.assert_array_equal(own(path, Data(standardise=HALF), half).x, x)
    assert "has 2 classes, but data.classes states 3" in refusal(path, Data(classes=3))
    assert "has samples of shape (2,), but data.shape states (4,)" in refusal(path, Data(shape=(4,)))
    assert whole_refusal(Data(set=f"npz:{path}")) == (
        f"{path}: holds one party's samples x, y, which are standardised already (name a file with x_train, "
        "y_train, x_test and y_test (docs/data.md))"
    )
    path = archive(tmp_path, x=x, y=[0, 1, 1], **halves())
    assert "holds x, one party's prepared samples, and x_test, x_train" in refusal(path, Data())


BAD_NPZ: dict[str, tuple[dict[str, Any], Data, str]] = {
    "only a test half": (
        {"x_test": BYTES, "y_test": LABELS},
        Data(classes=3),
        "[x_train]: is missing; the archive",
    ),
    "no classes": ({}, Data(), "data.classes: is missing, and "),
    "list of classes": ({"classes": [3]}, Data(), "[classes]: has dtype int64 and shape (1,) (one integer"),
    "real classes": ({"classes": 3.0}, Data(), "[classes]: has dtype float64 and shape ()"),
    "one class": ({"classes": 1}, Data(), "[classes]: is 1, must be in [2, 65536]"),
    "other classes": (
        {"classes": 4},
        Data(classes=3),
        ": has 4 classes, but data.classes states 3 (number",
    ),
    "labels beyond": ({}, Data(classes=2), "[y_train]: holds the label 2, but there are 2 classes"),
    "other shape": (
        {},
        Data(classes=3, shape=(3, 4)),
        "[x_train]: has samples of shape (4, 3), but data.shape states",
    ),
    "objects": (
        {"x_train": np.array([[None]])},
        Data(classes=3),
        "[x_train]: holds Python objects, not numbers",
    ),
    "other dtype": (
        {"x_train": np.zeros((9, 1), int)},
        Data(classes=3),
        "[x_train]: has dtype int64, expected",
    ),
    "NaN": (
        {"x_train": np.full((9, 1), np.nan)},
        Data(classes=3),
        "[x_train]: holds 9 values that are not finite",
    ),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_a_partys_archive_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    change, config, reason = BAD_NPZ[case]
    arrays = {} if case == "only a test half" else halves()
    path = archive(tmp_path, **(arrays | change))
    with pytest.raises(ConfigError) as caught:
        own(path, config)
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_archive_that_unpacks_to_far_more_than_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = np.zeros((100_000, 1), np.uint8)
    np.savez_compressed(tmp_path / "own.npz", x_train=zeros, y_train=np.zeros(100_000, int))
    monkeypatch.setattr(npz, "MAX_BYTES", 50_000)
    assert re.search(r"\[x_train\]: unpacks from \d+ to 100,128 bytes", refusal(tmp_path / "own.npz", Data()))
    np.savez(tmp_path / "own.npz", x_train=zeros, y_train=np.zeros(100_000, int))
    assert len(own(tmp_path / "own.npz", Data(classes=2)).y) == 100_000, "large, and not packed"


def test_files_that_are_not_there_and_folders_of_unknown_kind(tmp_path: Path) -> None:
    assert "file not found (paths are relative to the working directory)" in refusal(
        tmp_path / "gone.npz", Data()
    )
    assert f"is a folder (write idx:{tmp_path} or folder:{tmp_path})" in refusal(tmp_path, Data())
    assert refusal("gone:load", Data()).startswith("data.set: gone:load cannot be imported")


def test_code_of_ones_own_that_exits_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaves_at_once.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "leaves_later.py").write_text("import sys\ndef load():\n    sys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "leaves_at_once:load cannot be imported: SystemExit: 3" in refusal("leaves_at_once:load", Data())
    assert "leaves_later:load failed: SystemExit: 3" in refusal("leaves_later:load", Data())


# tables

SCHEMA = TableSchema(
    label="ill",
    features=(
        Column(name="age", mean=50, deviation=10, lower=0, upper=120),
        Column(name="sex", categories=("f", "m")),
    ),
    missing=("", "?"),
    incomplete="drop",
)
TABLE = Data(set="csv:-", table=SCHEMA, classes=("no", "yes"), test_fraction=0.5)
LINES = ["age,sex,ill", "30,f,no", "40,m,yes", "50,f,no", "?,m,no", "60,f,yes", ""]


def named(config: Data, name: str) -> Data:
    return Data(
        set=name, table=config.table, classes=config.classes, test_fraction=config.test_fraction
    )  # fmt: skip


def table_file(folder: Path, kind: str, name: str = "own") -> Path:
    """The same table as CSV or Parquet."""
    path = folder / f"{name}.{kind}"
    if kind == "csv":
        path.write_text("\n".join(LINES))
        return path
    frame = pd.DataFrame([line.split(",") for line in LINES[1:-1]], columns=LINES[0].split(","))
    frame["age"] = [float(one) if one != "?" else None for one in frame["age"]]
    frame.to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_is_a_data_set_and_a_partys_samples(tmp_path: Path, kind: str) -> None:
    path = table_file(tmp_path, kind)
    party = own(path, TABLE)
    assert party.x.tolist() == [[-2, 1, 0], [-1, 0, 1], [0, 1, 0], [1, 1, 0]]
    assert (party.y.tolist(), party.classes) == ([0, 1, 0, 1], 2)
    np.testing.assert_array_equal(own(path, TABLE, "test").x, party.x)
    whole = load_data(named(TABLE, f"{kind}:{path}"), None)
    assert (len(whole.y_train), len(whole.y_test), whole.classes) == (2, 2, 2)
    assert sorted(whole.y_test) == [0, 1], "half of each class"
    assert (whole.mean, whole.std, whole.measured) == (0, 1, False)
    both = np.concatenate([whole.standardise(whole.x_train), whole.standardise(whole.x_test)])
    assert sorted(both.tolist()) == sorted(party.x.tolist())
    assert whole.title == "own (2/2 samples)"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_may_have_a_file_for_each_half(tmp_path: Path, kind: str) -> None:
    table_file(tmp_path, kind, "train")
    config = named(TABLE, f"{kind}:{tmp_path}")
    assert len(own(config.set, config).y) == 4
    with pytest.raises(ConfigError, match=f"has no test.{kind}"):
        load_data(config, None)
    table_file(tmp_path, kind, "test")
    whole = load_data(config, None)
    assert (len(whole.y_train), len(whole.y_test)) == (4, 4)
    np.testing.assert_array_equal(whole.x_test, own(config.set, config, "test").x)
    (tmp_path / f"test.{'csv.gz' if kind == 'csv' else 'pq'}").write_bytes(b"")
    assert "name one file for train" in refusal(config.set, config, "test")


def test_labels_may_be_numbers(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("age,sex,ill\n30,f,0\n40,m,2\n")
    config = Data(table=SCHEMA, classes=3)
    assert own(path, config).y.tolist() == [0, 2]
    path.write_text("age,sex,ill\n30,f,0\n40,m,3\n")
    assert f"{path}, line 3, column 'ill': holds '3', which is not one of the declared 0, 1, 2" in refusal(
        path, config
    )


def test_tables_need_a_schema_and_other_files_its_shape(tmp_path: Path) -> None:
    path = table_file(tmp_path, "csv")
    assert refusal(path, Data(classes=2)) == (
        f"data.table: is missing, and {path} is a table file (declare label, features and classes "
        "(docs/data.md))"
    )
    assert refusal(path, Data(table=SCHEMA)).startswith("data.classes: is missing, and ")
    other = archive(tmp_path, x_train=np.zeros((2, 4)), y_train=[0, 1])
    assert "has samples of shape (4,), but data.table states (3,)" in refusal(other, TABLE)
    path.write_text("age,sex\n1,f\n")
    assert "has no column 'ill'" in refusal(path, TABLE)


def test_a_class_that_would_be_for_the_test_alone(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("age,sex,ill\n30,f,no\n40,m,yes\n50,m,no\n")
    message = (
        "data.test_fraction: 0.5 takes all 1 samples of class yes for the test (a smaller fraction, or more"
    )
    assert whole_refusal(named(TABLE, f"csv:{path}")).startswith(message)


# idx


def idx_folder(
    folder: Path, stem: str, images: Any = BYTES, labels: Any = LABELS, *, packed: bool = True
) -> Path:
    for array, what in ((images, "images-idx3"), (labels, "labels-idx1")):
        content = pack_idx(np.asarray(array, dtype=np.uint8))
        if packed:
            write_gzip(folder / f"{stem}-{what}-ubyte.gz", content)
        else:
            (folder / f"{stem}-{what.replace('-', '.')}-ubyte").write_bytes(content)
    return folder


def test_idx_folders(tmp_path: Path) -> None:
    config = Data(set=f"idx:{tmp_path}", classes=4)
    idx_folder(tmp_path, "train")
    party = own(config.set, config)
    assert (party.input_shape, party.classes, party.y.tolist()) == ((1, 4, 3), 4, LABELS.tolist())
    np.testing.assert_array_equal(party.x[:, 0], BYTES.astype(np.float32) / np.float32(255))
    assert "lacks the file t10k-images-idx3-ubyte (add it, packed as .gz or not)" in refusal(
        config.set, config, "test"
    )
    idx_folder(tmp_path, "test", BYTES[:6], LABELS[:6], packed=False)
    whole = load_data(config, None)
    assert (str(whole.x_train.dtype), len(whole.y_test), whole.classes) == ("uint8", 6, 4)
    np.testing.assert_array_equal(whole.x_test[:, 0], BYTES[:6])
    assert load_data(Data(set=f"idx:{tmp_path}"), None).classes == 3
    assert "data.classes: is missing" in refusal(config.set, Data())
    idx_folder(tmp_path, "t10k")
    assert "holds t10k-images-idx3-ubyte.gz and test-images.idx3-ubyte" in refusal(config.set, config, "test")
    assert "is not a folder" in refusal(f"idx:{tmp_path}/gone", config)


BAD_IDX: dict[str, tuple[Callable[[Path], object], str]] = {
    "fewer labels": (lambda f: idx_folder(f, "train", BYTES, LABELS[:5]), "has 5 labels for the 12 samples"),
    "no samples": (lambda f: idx_folder(f, "train", BYTES[:0], LABELS[:0]), "has shape (0, 1, 4, 3)"),
    "labels for images": (
        lambda f: write_gzip(f / "train-images-idx3-ubyte.gz", pack_idx(LABELS.astype(np.uint8))),
        "is not an idx file of unsigned bytes with 3 dimensions",
    ),
    "not packed": (lambda f: (f / "train-images-idx3-ubyte.gz").write_bytes(pack_idx(BYTES)), "gzip"),
    "packed": (
        lambda f: (f / "train-images-idx3-ubyte.gz").rename(f / "train-images-idx3-ubyte"),
        "is not an idx file",
    ),
}


@pytest.mark.parametrize("case", BAD_IDX)
def test_bad_idx_folders(tmp_path: Path, case: str) -> None:
    idx_folder(tmp_path, "train")
    spoil, reason = BAD_IDX[case]
    spoil(tmp_path)
    with pytest.raises(ConfigError) as caught:
        own(f"idx:{tmp_path}", Data(classes=3))
    assert reason in str(caught.value)
    assert "train-" in caught.value.path


@settings(deadline=None)
@given(
    head=st.binary(max_size=16), body=st.binary(max_size=40), sizes=st.lists(st.integers(0, 9), max_size=4)
)
def test_any_head_of_an_idx_file_is_an_array_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, body: bytes, sizes: list[int]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "idx"
    folder.mkdir(exist_ok=True)
    plausible = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
    (folder / "train-labels-idx1-ubyte").write_bytes(pack_idx(np.zeros(2, np.uint8)))
    for start in (head, plausible, plausible + head):
        (folder / "train-images-idx3-ubyte").write_bytes(start + body)
        try:
            found = own(f"idx:{folder}", Data(classes=2))
        except ConfigError:
            continue
        assert len(found.x) == 2
        assert sizes[0] == 2


# folders of pictures


def test_a_partys_folder_may_lack_a_class_whose_name_is_declared(tmp_path: Path) -> None:
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
        for index in range(3):
            Image.fromarray(BYTES[index]).save(tmp_path / name / f"{index}.png")
    given = f"folder:{tmp_path}"
    party = own(given, Data(classes=("a", "b", "c")))
    assert (party.y.tolist(), party.classes, party.input_shape) == ([1, 1, 1, 2, 2, 2], 3, (1, 4, 3))
    assert own(given, Data(classes=2)).y.tolist() == [0, 0, 0, 1, 1, 1]
    assert own(given, Data()).classes == 2
    assert "has folders of 2 classes, but data.classes is 3 (list" in refusal(given, Data(classes=3))
    assert f"{tmp_path / 'c'}: is not one of data.classes (rename it to one of a, b" in refusal(
        given, Data(classes=("a", "b"))
    )


# functions

FUNCTIONS = """
import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

X, Y = torch.arange(24, dtype=torch.float32).reshape(12, 2), torch.arange(12) % 3

class Items(Dataset):
    def __init__(self, length=12, x=lambda i: X[i], y=lambda i: int(Y[i])):
        self.length, self.x, self.y = length, x, y
    def __len__(self): return self.length
    def __getitem__(self, i):
        if i >= self.length: raise IndexError(i)
        return self.x(i), self.y(i)

class Stream(IterableDataset):
    def __iter__(self):
        while True: yield X[0], 0

def pair(): return X.numpy(), Y.numpy()
def one(): return Items()
def tensors(): return TensorDataset(X, Y)
def two(): return TensorDataset(X[:9], Y[:9]), TensorDataset(X[9:], Y[9:])
def arrays(): return Items(x=lambda i: X[i].numpy(), y=lambda i: np.int64(i % 3))
def stream(): return Stream()
def empty(): return Items(0)
def ragged(): return Items(x=lambda i: X[i, : 1 + (i != 4)])
def mixed(): return Items(x=lambda i: X[i].double() if i == 2 else X[i])
def picture(): return Items(x=lambda i: __import__("PIL.Image").Image.new("L", (2, 2)))
def attached(): return Items(x=lambda i: X[i].clone().requires_grad_())
def real(): return Items(y=lambda i: 0.5)
def crash(): return Items(x=lambda i: 1 / 0)
def single(): return X.numpy()
class Bare(Items):
    def __getitem__(self, i): return X[i, 0]
def bare(): return Bare()
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_torch.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_torch", None)


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize("name", ["pair", "one", "tensors", "arrays"])
def test_a_torch_data_set_or_a_pair_of_arrays_comes_undivided(name: str) -> None:
    x = np.arange(24, dtype=np.float32).reshape(12, 2)
    party = own(f"own_torch:{name}", Data(classes=3))
    np.testing.assert_array_equal(party.x, x)
    assert (party.y.tolist(), str(party.x.dtype)) == (LABELS.tolist(), "float32")
    whole = load_data(Data(set=f"own_torch:{name}", test_fraction=0.25), None)
    assert (len(whole.y_train), np.bincount(whole.y_test).tolist()) == (9, [1, 1, 1])
    assert sorted(np.concatenate([whole.x_train, whole.x_test])[:, 0]) == x[:, 0].tolist()
    again = load_data(Data(set=f"own_torch:{name}", test_fraction=0.25), None)
    assert again.x_test.tolist() == whole.x_test.tolist()


@pytest.mark.usefixtures("functions")
def test_two_torch_data_sets_are_two_halves() -> None:
    whole = load_data(Data(set="own_torch:two"), None)
    assert (len(whole.y_train), whole.x_test[:, 0].tolist()) == (9, [18, 20, 22])
    assert own("own_torch:two", Data(classes=3), "test").x[:, 0].tolist() == [18, 20, 22]


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stream", "data.set: own_torch:stream returned Stream (return the arrays x_train"),
        ("single", "data.set: own_torch:single returned ndarray (return the arrays x_train"),
        ("empty", "own_torch:empty: has no items"),
        ("ragged", "own_torch:ragged, item 4: is float32 (1,), and item 0 is float32 (2,)"),
        ("mixed", "own_torch:mixed, item 2: is float64 (2,), and item 0 is float32 (2,)"),
        (
            "picture",
            "own_torch:picture, item 0: has a sample of type Image (return a tensor or an array; for "
            "pictures",
        ),
        ("attached", "own_torch:attached, item 0: is not an array: Can't call numpy()"),
        ("real", "own_torch:real, item 0: has the label 0.5 (return the number of a class"),
        ("crash", "own_torch:crash, item 0: is not a pair of sample and label: ZeroDivisionError"),
        ("bare", "own_torch:bare, item 0: is not a pair of sample and label: TypeError"),
    ],
)
def test_a_data_set_that_is_none_is_refused_in_one_line(name: str, message: str) -> None:
    assert whole_refusal(Data(set=f"own_torch:{name}")).startswith(message)
