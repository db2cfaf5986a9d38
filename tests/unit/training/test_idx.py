from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.errors import ConfigError
from securefl.training.data import idx
from securefl.training.data.idx import read_idx
from tests.unit.training.builders import pack_idx, write_gzip

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (1, 1, 1), (0, 28, 28)])
def test_reads_what_was_packed(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    read = read_idx(write_gzip(tmp_path / "a.gz", pack_idx(array)), len(shape))
    assert read.dtype == np.uint8
    assert read.shape == shape
    np.testing.assert_array_equal(read, array)
    assert read.flags.writeable


def test_accepts_the_announced_digest_and_refuses_another(tmp_path: Path) -> None:
    path = write_gzip(tmp_path / "a.gz", pack_idx(IMAGES))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    np.testing.assert_array_equal(read_idx(path, 3, digest), IMAGES)
    with pytest.raises(ConfigError, match=f"its sha256 is {digest}, expected {'0' * 64}") as caught:
        read_idx(path, 3, "0" * 64)
    assert caught.value.path == str(path)


BAD = {
    "empty": (b"", "cut short"),
    "header cut": (pack_idx(IMAGES)[:10], "cut short"),
    "data cut": (pack_idx(IMAGES)[:-1], "cut short: 23 of 24"),
    "trailing byte": (pack_idx(IMAGES) + b"\0", "more bytes than the 24"),
    "labels instead of images": (pack_idx(np.zeros(24, dtype=np.uint8)), "3 dimensions: 0x00000801"),
    "float elements": (b"\0\0\x0d\x03" + pack_idx(IMAGES)[4:], "unsigned bytes"),
    "nonzero magic": (b"\1" + pack_idx(IMAGES)[1:], "not an idx file"),
    "absurd size": (
        b"\0\0\x08\x03" + b"\xff" * 12,
        "is damaged: its header states 79228162458924105385300197375 bytes",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses_bad_content(tmp_path: Path, case: str) -> None:
    content, reason = BAD[case]
    path = write_gzip(tmp_path / "bad.gz", content)
    with pytest.raises(ConfigError, match=reason) as caught:
        read_idx(path, 3)
    assert caught.value.path == str(path)


def test_refuses_an_array_just_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gzip(tmp_path / "a.gz", pack_idx(IMAGES))
    monkeypatch.setattr(idx, "MAX_BYTES", 24)
    assert read_idx(path, 3).size == 24
    monkeypatch.setattr(idx, "MAX_BYTES", 23)
    with pytest.raises(ConfigError, match="more than 23"):
        read_idx(path, 3)


def test_a_damaged_checksum_is_noticed(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(pack_idx(IMAGES), mtime=0))
    packed[-8] ^= 1
    path = tmp_path / "a.gz"
    path.write_bytes(packed)
    with pytest.raises(ConfigError, match="not an intact gzip file"):
        read_idx(path, 3)


def test_missing_file_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not found, its folder exists") as caught:
        read_idx(tmp_path / "a.gz", 3, "0" * 64)
    assert "--data-dir" in caught.value.remedy
    with pytest.raises(ConfigError, match="not found, its folder exists") as caught:
        read_idx(tmp_path / "a.gz", 3)
    assert "working directory" in caught.value.remedy
    with pytest.raises(ConfigError, match=r"the folder .* does not exist"):
        read_idx(tmp_path / "nowhere" / "a.gz", 3)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_idx(tmp_path, 3)


@settings(deadline=None)
@given(cut=st.integers(0, 10_000), flip=st.integers(0, 10_000), value=st.integers(0, 255))
def test_any_damage_is_a_config_error_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flip: int, value: int
) -> None:
    packed = bytearray(gzip.compress(pack_idx(IMAGES), mtime=0))
    packed[flip % len(packed)] = value
    path = tmp_path_factory.getbasetemp() / "fuzz.gz"
    path.write_bytes(packed[: cut % (len(packed) + 1)])
    try:
        read = read_idx(path, 3)
    except ConfigError:
        return
    np.testing.assert_array_equal(read, IMAGES)
