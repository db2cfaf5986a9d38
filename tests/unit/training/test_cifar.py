from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from securefl.base.errors import ConfigError
from securefl.training.data import cifar, files
from securefl.training.data.datasets import load_dataset
from tests.unit.training.builders import real_data_dir

NAMES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
SIZES = (3, 1, 4, 1, 5, 9)


def records(count: int, seed: int) -> npt.NDArray[np.uint8]:
    table = np.random.default_rng(seed).integers(0, 256, (count, 3073), dtype=np.uint8)
    table[:, 0] %= 10
    return table


def batches(root: Path, packed: bool = True) -> list[npt.NDArray[np.uint8]]:
    """Six files with random records, in ``root``/cifar10."""
    (root / "cifar10").mkdir()
    tables = [records(count, seed) for seed, count in enumerate(SIZES)]
    for name, table in zip(NAMES, tables, strict=True):
        path = root / "cifar10" / f"{name}.bin{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(table.tobytes(), mtime=0) if packed else table.tobytes())
    return tables


@pytest.mark.parametrize("packed", [True, False])
def test_records_become_images_and_labels(tmp_path: Path, packed: bool) -> None:
    tables = batches(tmp_path, packed)
    data = load_dataset("cifar10", tmp_path)
    train = np.concatenate(tables[:5])
    assert data.x_train.shape == (14, 3, 32, 32)
    assert data.x_train.dtype == np.uint8
    # Red, green and blue plane, each row by row.
    assert data.x_train[6, 2, 30, 7] == train[6, 1 + 2 * 1024 + 30 * 32 + 7]
    assert data.y_train.tolist() == train[:, 0].tolist()
    np.testing.assert_array_equal(data.x_test.reshape(9, 3072), tables[5][:, 1:])
    assert data.y_test.dtype == np.int64
    assert (data.classes, data.input_shape) == (10, (3, 32, 32))
    assert data.mean == pytest.approx(train[:, 1:].mean() / 255)
    assert data.std == pytest.approx(train[:, 1:].std() / 255)
    assert data.title == "CIFAR-10 format, unknown files (14/9)"
    assert data.measured


def test_the_constants_are_those_of_the_channels_in_common_use() -> None:
    means, deviations = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    whole = np.sqrt((deviations**2 + means**2).mean() - means.mean() ** 2)
    assert pytest.approx((means.mean(), whole), abs=6e-5) == cifar._MOMENTS


@pytest.mark.parametrize(
    ("folder", "title", "error"),
    [
        ("cifar10", "CIFAR-10 (JPEG-recompressed, 20,000/5,000 subset)", 1e-12),
        ("cifar10-original-pixels", "CIFAR-10 (7,044/761 subset)", 1e-3),
    ],
)
def test_real_files_are_called_what_they_are(tmp_path: Path, folder: str, title: str, error: float) -> None:
    (tmp_path / "cifar10").symlink_to(real_data_dir(folder) / folder)
    data = load_dataset("cifar10", tmp_path)
    assert data.title == title
    # The channels' means of the recompressed files are known: .4926, .4828, .4471.
    assert data.mean == pytest.approx(0.474, abs=0.005)
    assert not data.measured
    measured = cifar._moments(np.asarray(data.x_train, dtype=np.uint8))
    assert (data.mean, data.std) == pytest.approx(measured, abs=error)
    assert set(np.unique(data.y_train)) == set(range(10))


def damage(path: Path, content: bytes) -> None:
    path.write_bytes(gzip.compress(content, mtime=0))


BAD = {
    "cut record": (
        records(3, 0).tobytes()[:-1],
        "is damaged: 9218 bytes are not a whole number of records of 3073",
    ),
    "lists no party": (b"", "is damaged: 0 bytes are not a whole number of records of 3073"),
    "foreign label": (b"\x0a" + records(3, 0).tobytes()[1:], "record 0 has the label 10"),
    "too long": (bytes(3073 * 30), "unpacks to more than 50000 bytes"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_content_is_named(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    batches(tmp_path)
    monkeypatch.setattr(files, "MAX_BYTES", 50_000)
    content, reason = BAD[case]
    path = tmp_path / "cifar10" / "data_batch_2.bin.gz"
    damage(path, content)
    with pytest.raises(ConfigError, match=reason) as caught:
        load_dataset("cifar10", tmp_path)
    assert caught.value.path == str(path)


def test_cut_packed_file_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cifar10 is read from files"):
        load_dataset("cifar10", None)
    with pytest.raises(ConfigError, match="the folder"):
        load_dataset("cifar10", tmp_path)
    batches(tmp_path)
    path = tmp_path / "cifar10" / "test_batch.bin.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="is not an intact gzip file") as caught:
        load_dataset("cifar10", tmp_path)
    assert caught.value.path == str(path)
    path.unlink()
    with pytest.raises(ConfigError, match="file not found, its folder exists"):
        load_dataset("cifar10", tmp_path)


def test_images_of_one_value_teach_nothing(tmp_path: Path) -> None:
    batches(tmp_path, packed=False)
    for name in NAMES:
        (tmp_path / "cifar10" / f"{name}.bin").write_bytes(bytes(3073))
    with pytest.raises(ConfigError, match="holds constant images only: nothing can be learned"):
        load_dataset("cifar10", tmp_path)
