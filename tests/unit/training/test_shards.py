from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId
from securefl.scenario.data import Data
from securefl.training.data.dataset import Dataset
from securefl.training.data.datasets import load_dataset
from securefl.training.data.partitions.dirichlet import Dirichlet
from securefl.training.data.partitions.labels import LabelsPerParty
from securefl.training.data.shards import load_shard, shards_of, write_shards
from securefl.training.data.split import split

PARTIES = tuple(PartyId(f"p{i}") for i in range(5))


def numbered(train: int = 100, test: int = 20) -> Dataset:
    """A data set whose samples say which row they are (mean 0 and deviation 1, so nothing moves)."""
    x_train = np.repeat(np.arange(train, dtype=np.float32)[:, None], 2, axis=1)
    x_test = np.repeat(1000 + np.arange(test, dtype=np.float32)[:, None], 2, axis=1)
    y_train, y_test = np.arange(train, dtype=np.int64) % 4, np.arange(test, dtype=np.int64) % 4
    return Dataset("numbered", x_train, y_train, x_test, y_test, 4, (2,), 0.0, 1.0)


def test_every_sample_goes_to_one_party_with_its_label(tmp_path: Path) -> None:
    files = write_shards(numbered(), Data(), PARTIES, 7, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"{p}.npz" for p in PARTIES] + ["test.npz"]
    )
    shards = [load_shard(files.parties[party]) for party in PARTIES]
    rows = np.concatenate([shard.x[:, 0] for shard in shards])
    assert sorted(rows.tolist()) == list(range(100))
    for party, shard in zip(PARTIES, shards, strict=True):
        assert files.counts[party] == len(shard.y) == 20
        assert (shard.classes, shard.input_shape) == (4, (2,))
        np.testing.assert_array_equal(shard.y, shard.x[:, 0].astype(np.int64) % 4)
    test = load_shard(files.test)
    assert sorted(test.x[:, 0].tolist()) == list(range(1000, 1020))


def test_shards_are_standardised(tmp_path: Path) -> None:
    files = write_shards(load_dataset("digits", None), Data(), PARTIES, 7, tmp_path)
    x = np.concatenate([load_shard(path).x for path in files.parties.values()])
    assert x.dtype == np.float32
    assert x.shape == (1442, 1, 8, 8)
    assert abs(x.mean(dtype=np.float64)) < 1e-6
    assert abs(x.std(dtype=np.float64) - 1) < 1e-6


def test_the_seed_decides(tmp_path: Path) -> None:
    def rows(seed: int, name: str) -> list[float]:
        folder = tmp_path / name
        folder.mkdir()
        config = Data(train_limit=40, partition=Dirichlet(alpha=0.5))
        files = write_shards(numbered(), config, PARTIES, seed, folder)
        return [float(v) for path in files.parties.values() for v in load_shard(path).x[:, 0]]

    assert rows(1, "a") == rows(1, "b")
    assert rows(1, "c") != rows(2, "d")


def test_limits_are_seeded_prefixes(tmp_path: Path) -> None:
    def used(limit: int) -> set[float]:
        files = write_shards(numbered(), Data(train_limit=limit, test_limit=limit), PARTIES, 7, tmp_path)
        assert len(load_shard(files.test).y) == min(limit, 20)
        return {float(v) for path in files.parties.values() for v in load_shard(path).x[:, 0]}

    small, large, everything = used(10), used(30), used(10_000)
    assert (len(small), len(large), len(everything)) == (10, 30, 100)
    assert small < large
    assert small != set(range(10))


def test_partition_sees_the_limited_labels(tmp_path: Path) -> None:
    files = write_shards(numbered(), Data(partition=LabelsPerParty(labels=1)), PARTIES, 7, tmp_path)
    assert all(len(np.unique(load_shard(path).y)) == 1 for path in files.parties.values())


def test_the_servers_own_samples_lie_in_their_own_file(tmp_path: Path) -> None:
    config = Data(server_fraction=0.2)
    files = write_shards(numbered(), config, PARTIES, 7, tmp_path)
    assert files.server == tmp_path / "server.npz"
    server = load_shard(files.server)
    assert np.bincount(server.y).tolist() == [5] * 4
    rows = {float(v) for path in files.parties.values() for v in load_shard(path).x[:, 0]}
    assert rows | {float(v) for v in server.x[:, 0]} == set(range(100))
    assert len(rows) == sum(files.counts.values()) == 80
    in_memory = shards_of(numbered(), split(numbered(), config, PARTIES, 7))
    assert in_memory.server is not None
    np.testing.assert_array_equal(in_memory.server.x, server.x)
    np.testing.assert_array_equal(in_memory.server.y, server.y)
    assert shards_of(numbered(), split(numbered(), Data(), PARTIES, 7)).server is None
    assert write_shards(numbered(), Data(), PARTIES, 7, tmp_path).server is None


def test_infeasible_and_unwritable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="5 parties cannot share 4 samples"):
        write_shards(numbered(), Data(train_limit=4), PARTIES, 7, tmp_path)
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        write_shards(numbered(), Data(), PARTIES, 7, tmp_path / "nowhere")
    assert caught.value.path == str(tmp_path / "nowhere" / "p0.npz")


@pytest.mark.parametrize("names", [("a", "a"), ("a", "test")])
def test_names_that_would_share_a_file(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="distinct"):
        write_shards(numbered(), Data(), tuple(PartyId(name) for name in names), 7, tmp_path)
    assert not list(tmp_path.iterdir())


def test_repr_shows_no_samples(tmp_path: Path) -> None:
    files = write_shards(numbered(), Data(), PARTIES, 7, tmp_path)
    assert repr(load_shard(files.test)) == "Shard(samples=20, classes=4, input_shape=(2,))"


GOOD: dict[str, Any] = {
    "x": np.zeros((3, 2), dtype=np.float32),
    "y": np.array([0, 1, 1], dtype=np.int64),
    "classes": np.array(2, dtype=np.int64),
}
BAD: dict[str, tuple[str, npt.NDArray[Any] | None, str]] = {
    "no samples": ("x", None, "missing"),
    "no classes": ("classes", None, "missing"),
    "f64 samples": ("x", np.zeros((3, 2)), "float64"),
    "flat samples": ("x", np.zeros(3, dtype=np.float32), "expected float32"),
    "empty samples": ("x", np.zeros((0, 2), dtype=np.float32), "expected float32"),
    "NaN": ("x", np.full((3, 2), np.nan, dtype=np.float32), "6 values"),
    "infinity": ("x", np.full((3, 2), np.inf, dtype=np.float32), "6 values"),
    "too many labels": ("y", np.zeros(4, dtype=np.int64), "4 labels for 3 samples"),
    "label beyond classes": ("y", np.array([0, 1, 2]), "label 2, but there are 2"),
    "negative label": ("y", np.array([0, 1, -1]), "negative"),
    "float labels": ("y", np.zeros(3), "float64"),
    "one class": ("classes", np.array(1, dtype=np.int64), "is 1, must be in"),
    "huge classes": ("classes", np.array(2**62, dtype=np.int64), "must be in"),
    "classes as a list": ("classes", np.array([2], dtype=np.int64), "shape"),
    "float classes": ("classes", np.array(2.0), "float64"),
    "objects": ("y", np.array([None] * 3), "holds Python objects"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_shards_name_file_and_array(tmp_path: Path, case: str) -> None:
    key, value, reason = BAD[case]
    content = {name: array for name, array in GOOD.items() if name != key}
    if value is not None:
        content[key] = value
    path = tmp_path / "p0.npz"
    np.savez(path, **content)
    with pytest.raises(ConfigError, match=reason) as caught:
        load_shard(path)
    assert caught.value.path == f"{path}[{key}]"


TEXT: dict[str, Any] = {
    "x": np.array([[0, 1, 2], [2, 2, 1]]),
    "y": np.array([[1, 2, 0], [2, 1, 1]]),
    "classes": np.array(3, dtype=np.int64),
}
BAD_TEXT: dict[str, tuple[str, npt.NDArray[Any], str]] = {
    "token beyond classes": ("x", np.array([[0, 1, 2], [2, 3, 1]]), "token 3, but there are 3"),
    "negative token": ("x", np.array([[0, 1, 2], [2, -1, 1]]), "negative"),
    "images of integers": ("x", np.zeros((2, 3, 3), dtype=np.int64), "expected \\(n, length\\)"),
    "narrow tokens": ("x", np.zeros((2, 3), dtype=np.int32), "int32"),
    "one label per sample": ("y", np.array([0, 1]), "expected integers \\(n, 3\\)"),
    "shorter labels": ("y", np.zeros((2, 2), dtype=np.int64), "expected integers \\(n, 3\\)"),
    "fewer labels": ("y", np.zeros((1, 3), dtype=np.int64), "1 labels for 2 samples"),
    "label beyond classes": ("y", np.full((2, 3), 3), "label 3, but there are 3"),
}


@pytest.mark.parametrize("case", BAD_TEXT)
def test_bad_shards_of_text(tmp_path: Path, case: str) -> None:
    key, value, reason = BAD_TEXT[case]
    path = tmp_path / "p0.npz"
    np.savez(path, **(TEXT | {key: value}))
    with pytest.raises(ConfigError, match=reason) as caught:
        load_shard(path)
    assert caught.value.path == f"{path}[{key}]"


def test_good_shard(tmp_path: Path) -> None:
    np.savez(tmp_path / "p0.npz", **GOOD)
    shard = load_shard(tmp_path / "p0.npz")
    assert (shard.classes, shard.input_shape, shard.y.tolist()) == (2, (2,), [0, 1, 1])
    with pytest.raises(ConfigError, match="not found"):
        load_shard(tmp_path / "p1.npz")
