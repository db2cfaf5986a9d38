from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from securefl.base.errors import ConfigError
from securefl.scenario.data import Data, Standardise
from securefl.training.data import datasets
from securefl.training.data.datasets import load_data, load_dataset
from tests.unit.training.builders import pack_idx, real_data_dir, write_gzip


def test_digits_split_is_stratified_and_complete() -> None:
    digits = load_dataset("digits", None)
    assert (len(digits.y_train), len(digits.y_test)) == (1442, 355)
    assert digits.input_shape == (1, 8, 8) == digits.x_train.shape[1:] == digits.x_test.shape[1:]
    assert digits.classes == 10
    shares = np.bincount(digits.y_test) / (np.bincount(digits.y_test) + np.bincount(digits.y_train))
    assert np.all(np.abs(shares - 0.2) < 0.01)
    both = np.concatenate([digits.x_train, digits.x_test])
    assert (both.min(), both.max()) == (0.0, 1.0)
    assert repr(digits) == "Dataset('digits', train=1442, test=355, classes=10, input_shape=(1, 8, 8))"


def test_digits_standardised_have_zero_mean_and_unit_deviation() -> None:
    digits = load_dataset("digits", None)
    x = digits.standardise(digits.x_train)
    assert x.dtype == np.float32
    assert abs(x.mean(dtype=np.float64)) < 1e-6
    assert abs(x.std(dtype=np.float64) - 1) < 1e-6
    # Constants, and so no secret of those who hold the samples; in f32 the very numbers of the samples.
    assert not digits.measured
    assert np.float32(digits.mean) == np.float32(digits.x_train.mean(dtype=np.float64))
    assert np.float32(digits.std) == np.float32(digits.x_train.std(dtype=np.float64))


@pytest.mark.parametrize(
    ("name", "published"), [("fashion-mnist", (0.2860, 0.3530)), ("mnist", (0.1307, 0.3081))]
)
def test_real_idx_sets(name: str, published: tuple[float, float]) -> None:
    """``published``: the constants of Xiang et al. 2023, from their code."""
    data = load_dataset(name, real_data_dir(name))
    assert data.x_train.shape == (60_000, 1, 28, 28)
    assert data.x_test.shape == (10_000, 1, 28, 28)
    assert data.x_train.dtype == np.uint8
    assert data.y_train.shape == (60_000,)
    assert np.unique(data.y_train).tolist() == np.unique(data.y_test).tolist() == list(range(10))
    assert (data.mean, data.std) == published
    assert not data.measured
    assert data.mean == pytest.approx(data.x_train.mean() / 255, abs=6e-5)
    assert data.std == pytest.approx(data.x_train.std() / 255, abs=6e-5)
    x = data.standardise(data.x_train[:100])
    np.testing.assert_allclose(x, (data.x_train[:100] / 255 - data.mean) / data.std, atol=1e-5)


def test_idx_set_without_folder() -> None:
    with pytest.raises(ConfigError, match="fashion-mnist is read from files") as caught:
        load_dataset("fashion-mnist", None)
    assert "--data-dir" in caught.value.remedy


def test_idx_set_in_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the folder .* does not exist") as caught:
        load_dataset("mnist", tmp_path)
    assert caught.value.path == str(tmp_path / "mnist" / "train-images-idx3-ubyte.gz")
    assert "--data-dir" in caught.value.remedy


def test_idx_set_with_another_file(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    write_gzip(tmp_path / "mnist" / "train-images-idx3-ubyte.gz", pack_idx(np.zeros((2, 28, 28), np.uint8)))
    with pytest.raises(ConfigError, match=r"its sha256 is \w+, expected 440fcabf"):
        load_dataset("mnist", tmp_path)


def test_unknown_set() -> None:
    with pytest.raises(ConfigError, match="'cifar' is not a data set"):
        load_dataset("cifar", None)


def arrays() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "x_train": rng.random((6, 3)),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": rng.random((2, 3)),
        "y_test": np.array([3, 0], dtype=np.uint8),
    }


def test_npz_of_floats(tmp_path: Path) -> None:
    path, content = tmp_path / "mine.npz", arrays()
    np.savez(path, **content)
    data = load_dataset(f"npz:{path}", None)
    assert (data.name, data.classes, data.input_shape) == ("mine", 4, (3,))
    assert data.x_train.dtype == np.float32
    assert data.y_test.dtype == np.int64
    expected = (content["x_test"] - content["x_train"].mean()) / content["x_train"].std()
    np.testing.assert_allclose(data.standardise(data.x_test), expected, atol=1e-5)


def test_a_scenario_may_name_the_constants(tmp_path: Path) -> None:
    path, content = tmp_path / "mine.npz", arrays()
    np.savez(path, **content)
    assert load_data(Data(set=f"npz:{path}"), None).measured
    chosen = Standardise(mean=0.2469, deviation=0.2853)
    data = load_data(Data(set=f"npz:{path}", standardise=chosen), None)
    assert not data.measured
    np.testing.assert_allclose(
        data.standardise(data.x_train), (content["x_train"] - 0.2469) / 0.2853, atol=1e-5
    )


def test_usps_as_an_archive(tmp_path: Path) -> None:
    """16x16 pixels as bytes, without an axis for the channel, and labels in some integer type."""
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 256, (40, 16, 16), dtype=np.uint8), (np.arange(40) % 10).astype(np.int32)
    np.savez_compressed(tmp_path / "usps.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    data = load_data(Data(set=f"npz:{tmp_path / 'usps.npz'}"), None)
    assert (data.classes, data.input_shape) == (10, (16, 16))
    assert data.y_train.dtype == np.int64


def test_text_has_no_mean(tmp_path: Path) -> None:
    (tmp_path / "shakespeare").mkdir()
    speech = "HAMLET:\n" + "To be, or not to be, that is the question.\n" * 60
    play = f"=== PLAY: Hamlet ===\n\n{speech}\n{speech.replace('HAMLET', 'OPHELIA')}"
    write_gzip(tmp_path / "shakespeare" / "plays.txt.gz", play.encode())
    config = Data(set="shakespeare", standardise=Standardise(mean=0.0, deviation=1.0))
    with pytest.raises(ConfigError, match="is text, which cannot be standardised") as caught:
        load_data(config, tmp_path)
    assert caught.value.path == "data.standardise"


def test_npz_of_bytes_equals_npz_of_floats(tmp_path: Path) -> None:
    content = arrays()
    for key in ("x_train", "x_test"):
        content[key] = (content[key] * 255).astype(np.uint8)
    np.savez(tmp_path / "bytes.npz", **content)
    for key in ("x_train", "x_test"):
        content[key] = content[key] / 255
    np.savez(tmp_path / "floats.npz", **content)
    as_bytes = load_dataset(f"npz:{tmp_path / 'bytes.npz'}", None)
    as_floats = load_dataset(f"npz:{tmp_path / 'floats.npz'}", None)
    assert as_bytes.x_train.dtype == np.uint8
    np.testing.assert_allclose(
        as_bytes.standardise(as_bytes.x_train), as_floats.standardise(as_floats.x_train), atol=1e-5
    )


BAD: dict[str, tuple[str, npt.NDArray[Any] | None, str]] = {
    "missing key": ("y_test", None, "missing"),
    "NaN": ("x_train", np.array([[0.0, np.nan, 1.0]] * 6), "6 values that are not finite"),
    "infinite test value": ("x_test", np.array([[0.0, np.inf, 1.0]] * 2), "2 values that are not finite"),
    "integer samples": ("x_train", np.zeros((6, 3), dtype=np.int64), "int64"),
    "text": ("x_train", np.array([["a"] * 3] * 6), "<U1"),
    "objects": ("x_train", np.array([[None] * 3] * 6), "holds Python objects, not numbers"),
    "complex samples": ("x_train", np.zeros((6, 3), dtype=np.complex64), "complex64"),
    "flat samples": ("x_train", np.arange(6.0), "expected (n, ...)"),
    "no samples": ("x_test", np.zeros((0, 3)), "expected (n, ...)"),
    "other sample shape": ("x_test", np.ones((2, 4)), "x_train (3,)"),
    "other sample dtype": ("x_test", np.ones((2, 3), dtype=np.uint8), "dtype uint8, x_train float32"),
    "constant samples": ("x_train", np.ones((6, 3)), "standard deviation"),
    "float labels": ("y_train", np.zeros(6), "float64"),
    "negative label": ("y_train", np.array([0, 1, 2, 0, 1, -1]), "negative label -1"),
    "absurd label": ("y_test", np.array([10**9, 0]), "label 1000000000"),
    "too few labels": ("y_train", np.array([0, 1]), "2 labels for the 6 samples"),
    "labels as a column": ("y_train", np.zeros((6, 1), dtype=np.int64), "(6, 1)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_npz_names_file_and_key(tmp_path: Path, case: str) -> None:
    key, value, reason = BAD[case]
    content = arrays()
    del content[key]
    if value is not None:
        content[key] = value
    path = tmp_path / "bad.npz"
    np.savez(path, **content)
    with pytest.raises(ConfigError, match=re.escape(reason)) as caught:
        load_dataset(f"npz:{path}", None)
    assert caught.value.path == f"{path}[{key}]"


def test_one_class_is_nothing_to_learn(tmp_path: Path) -> None:
    content = arrays() | {"y_train": np.zeros(6, dtype=np.int64), "y_test": np.zeros(2, dtype=np.int64)}
    np.savez(tmp_path / "a.npz", **content)
    with pytest.raises(ConfigError, match="one class only"):
        load_dataset(f"npz:{tmp_path / 'a.npz'}", None)


def test_missing_npz(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not found"):
        load_dataset(f"npz:{tmp_path / 'a.npz'}", None)


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="needs scikit-learn"):
        datasets.load_dataset("digits", None)


LONG = 0
OWN_SETS = """
import numpy as np

def good():
    x, y = np.arange(24, dtype="f4").reshape(12, 2), np.arange(12) % 3
    return x[:9], y[:9], x[9:], y[9:]

def pair(): return good()[:2]
def three(): return good()[:3]
def crash(): raise RuntimeError("disk gone")
def hollow(): return (*good()[:2], np.full((3, 2), np.nan, dtype="f4"), good()[3])
def whole(): return tuple(one.astype(int) for one in good())
def below(): return (good()[0], good()[1] - 1, *good()[2:])
def uneven(): return (good()[0], good()[1][:5], *good()[2:])
number = 3
"""


@pytest.fixture
def own_sets_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_sets.py").write_text(OWN_SETS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_sets", None)


@pytest.mark.usefixtures("own_sets_file")
def test_ones_own_set_is_what_its_function_returns() -> None:
    data = load_data(Data(set="own_sets:good"), None)
    assert (data.name, data.classes, data.input_shape) == ("good", 3, (2,))
    assert (len(data.x_train), len(data.x_test), data.measured) == (9, 3, True)


@pytest.mark.usefixtures("own_sets_file")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "own_sets:three",
            "data.set: own_sets:three returned ndarray, ndarray, ndarray (return the arrays x_",
        ),
        (
            "own_sets:crash",
            "data.set: own_sets:crash failed: RuntimeError: disk gone (call the function",
        ),
        ("own_sets:hollow", "own_sets:hollow[x_test]: holds 6 values that are not finite"),
        (
            "own_sets:whole",
            "own_sets:whole[x_train]: has dtype int64, expected floating-point",
        ),
        (
            "own_sets:below",
            "own_sets:below[y_train]: holds the negative label -1 (number the",
        ),
        (
            "own_sets:uneven",
            "own_sets:uneven[y_train]: has 5 labels for the 9 samples of x_train",
        ),
        (
            "own_sets:number",
            "data.set: own_sets:number failed: TypeError: 'int' object is not",
        ),
        ("own_sets:none", "data.set: own_sets:none has no none (name a class of this module)"),
        ("no_sets:good", "data.set: no_sets:good cannot be imported: ModuleNotFoundError"),
    ],
)
def test_ones_own_set_is_refused_in_one_line(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_data(Data(set=name), None)
    assert str(caught.value).startswith(message)
