from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from securefl.base.errors import ConfigError
from securefl.training.data.npz import MAX_CLASSES, finite_f32, labels_of, read_npz


class _Loaded:
    """Leaves a trace if anybody unpickles it."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.trace,))


def test_reads_only_the_keys_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3), other=np.array([object()], dtype=object))
    assert list(read_npz(path, ("x",))) == ["x"]


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path, trace = tmp_path / "a.npz", tmp_path / "trace"
    np.savez(path, x=np.array([_Loaded(trace)], dtype=object))
    with pytest.raises(ConfigError, match="holds Python objects, not numbers") as caught:
        read_npz(path, ("x",))
    assert caught.value.path == f"{path}[x]"
    assert "pickle" not in caught.value.reason + caught.value.remedy, (
        "numpy's advice runs what is in the file"
    )
    assert not trace.exists()


def test_a_bare_pickle_is_never_loaded(tmp_path: Path) -> None:
    path, trace = tmp_path / "a.npz", tmp_path / "trace"
    np.save(tmp_path / "a.npy", np.array([_Loaded(trace)], dtype=object), allow_pickle=True)
    (tmp_path / "a.npy").rename(path)
    with pytest.raises(ConfigError, match="not a readable npz") as caught:
        read_npz(path, ("x",))
    assert "pickle" not in caught.value.reason + caught.value.remedy
    assert not trace.exists()


def test_missing_key_lists_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3), y=np.arange(3))
    with pytest.raises(ConfigError, match="the archive holds x, y") as caught:
        read_npz(path, ("x", "z"))
    assert caught.value.path == f"{path}[z]"


def test_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with pytest.raises(ConfigError, match="not found"):
        read_npz(path, ("x",))
    with pytest.raises(ConfigError, match="not a readable npz"):
        read_npz(tmp_path, ("x",))
    for content in (b"", b"PK\3\4 not a zip", b"\x93NUMPY nonsense", b"text"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="not a readable npz") as caught:
            read_npz(path, ("x",))
        assert "pickle" not in caught.value.reason + caught.value.remedy
        assert "\n" not in str(caught.value)
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ConfigError, match="bare array"):
        read_npz(path, ("x",))


def test_any_single_damaged_byte_is_a_config_error_or_the_same_array(tmp_path: Path) -> None:
    path, array = tmp_path / "a.npz", np.arange(4, dtype=np.int64)
    np.savez(path, x=array)
    whole = path.read_bytes()
    refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x41
        path.write_bytes(damaged)
        try:
            read = read_npz(path, ("x",))["x"]
        except ConfigError:
            refused += 1
        else:
            np.testing.assert_array_equal(read, array)
    assert refused > len(whole) // 2


def test_labels_become_i64() -> None:
    for dtype in (np.uint8, np.int32, np.uint64):
        labels = labels_of(np.array([0, 2, 1], dtype=dtype), "y")
        assert labels.dtype == np.int64
        assert labels.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([0.0, 1.0]), "float64"),
        (np.array([[0], [1]]), "shape"),
        (np.array([True, False]), "bool"),
        (np.array([], dtype=np.int64), "empty"),
        (np.array([0, -1]), "negative label -1"),
        (np.array([0, MAX_CLASSES]), "label 65536"),
        (np.array([0, 2**64 - 1], dtype=np.uint64), "label 18446744073709551615"),
        (np.array(["a"]), "<U1"),
    ],
)
def test_bad_labels(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        labels_of(array, "file[y]")
    assert caught.value.path == "file[y]"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_values_must_be_finite_in_32_bits(value: float) -> None:
    with pytest.raises(ConfigError, match="1 values that are not finite"):
        finite_f32(np.array([0.0, value]), "x")


def test_integers_are_no_floats() -> None:
    with pytest.raises(ConfigError, match="int64"):
        finite_f32(np.array([1, 2]), "x")
    assert finite_f32(np.array([0.5], dtype=np.float16), "x").dtype == np.float32
