"""Folders of pictures: what is read, in which order, which half is for the test, and what is refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from securefl.base.errors import ConfigError
from securefl.scenario.data import Data, ImageFolder
from securefl.training.data import image_folder
from securefl.training.data.dataset import Dataset
from securefl.training.data.datasets import load_data
from securefl.training.data.source import drawn_for_test
from tests.tiers import examples

HALF = ImageFolder(test_fraction=0.5)
FIELD = "data.images.test_fraction"


def load_folder(path: Path, config: ImageFolder) -> Dataset:
    return load_data(Data(set=f"folder:{path}", images=config), None)


def pixels(seed: int, shape: tuple[int, ...] = (5, 4, 3)) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def put(path: Path, array: npt.NDArray[np.uint8]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)
    return path


def pictures(
    root: Path, counts: dict[str, int], suffix: str = ".png"
) -> dict[str, list[npt.NDArray[np.uint8]]]:
    """Random pictures by class, written in an order that is not that of their names."""
    made: dict[str, list[npt.NDArray[np.uint8]]] = {}
    for number, (name, count) in enumerate(counts.items()):
        made[name] = [pixels(100 * number + index) for index in range(count)]
        for index in sorted(range(count), key=lambda i: (i * 7) % 5):
            put(root / name / f"{index:03}{suffix}", made[name][index])
    return made


@pytest.mark.parametrize("suffix", [".png", ".tif", ".TIFF"])
def test_pixels_labels_and_order(tmp_path: Path, suffix: str) -> None:
    made = pictures(tmp_path, {"b_stroma": 4, "a_tumour": 6}, suffix)
    data = load_folder(tmp_path, HALF)
    assert data.x_train.dtype == np.uint8
    assert (data.classes, data.input_shape) == (2, (3, 5, 4))
    # Folders by name, whatever the order in which they were made.
    assert np.bincount(data.y_train).tolist() == [3, 2]
    assert np.bincount(data.y_test).tolist() == [3, 2]
    originals = [p.transpose(2, 0, 1).tobytes() for name in sorted(made) for p in made[name]]
    for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        places = [originals.index(np.ascontiguousarray(one).tobytes()) for one in x]
        assert places == sorted(places)
        assert [int(place >= 6) for place in places] == y.tolist()
    assert data.title == f"{tmp_path.name} (5/5 pictures)"
    assert data.measured


def test_jpeg_is_read_as_pillow_decodes_it(tmp_path: Path) -> None:
    pictures(tmp_path, {"a": 2, "b": 2}, ".JPG")
    data = load_folder(tmp_path, HALF)
    with Image.open(tmp_path / "a" / "000.JPG") as picture:
        first = np.asarray(picture).transpose(2, 0, 1)
    assert any(np.array_equal(first, one) for one in np.concatenate([data.x_train, data.x_test]))


@settings(deadline=None, max_examples=examples(30))
@given(
    counts=st.lists(st.integers(5, 40), min_size=2, max_size=6),
    fraction=st.floats(0.1, 0.6),
)
def test_every_picture_is_in_one_half_and_classes_keep_their_shares(
    counts: list[int], fraction: float
) -> None:
    labels = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    test = drawn_for_test(labels, fraction, (), FIELD)
    assert test.sum() == round(fraction * sum(counts))
    for label, count in enumerate(counts):
        assert abs(test[labels == label].sum() - fraction * count) < 1.5
        assert not test[labels == label].all()
    assert np.array_equal(test, drawn_for_test(labels, fraction, (), FIELD))


def test_the_papers_halves_of_colorectal() -> None:
    """8 classes of 625 pictures, 4,600 for training and 400 for the test (Xiang et al. 2023, A.4)."""
    labels = np.repeat(np.arange(8, dtype=np.int64), 625)
    test = drawn_for_test(labels, 0.08, (), FIELD)
    assert np.bincount(labels[test]).tolist() == [50] * 8
    assert test.sum() == 400


def test_all_are_resized_to_the_declared_size(tmp_path: Path) -> None:
    put(tmp_path / "a" / "0.png", np.full((6, 8, 3), 40, dtype=np.uint8))
    put(tmp_path / "a" / "1.png", np.full((4, 4, 3), 40, dtype=np.uint8))
    checks = np.array([[0, 200], [200, 0]], dtype=np.uint8).repeat(4, axis=0).repeat(4, axis=1)
    for name in ("0.png", "1.png"):
        put(tmp_path / "b" / name, checks)
    data = load_folder(tmp_path, ImageFolder(size=(2, 3), test_fraction=0.5))
    assert data.input_shape == (3, 2, 3)
    assert (data.x_train[data.y_train == 0] == 40).all()
    # The middle column lies over both halves.
    small = data.x_train[data.y_train == 1][0, 0].astype(int)
    assert small[:, 1].tolist() == [100, 100]
    assert small[0, 0] < 30
    assert small[0, 2] > 170


def test_grey_pictures_have_one_channel_and_three_beside_coloured_ones(tmp_path: Path) -> None:
    grey = [pixels(seed, (3, 3)) for seed in range(4)]
    for index, array in enumerate(grey):
        put(tmp_path / "ab"[index // 2] / f"{index}.png", array)
    data = load_folder(tmp_path, HALF)
    assert data.input_shape == (1, 3, 3)
    seen = [one.tobytes() for one in np.concatenate([data.x_train, data.x_test])[:, 0]]
    assert sorted(seen) == sorted(array.tobytes() for array in grey)
    put(tmp_path / "b" / "4.png", pixels(9, (3, 3, 3)))
    data = load_folder(tmp_path, HALF)
    assert data.input_shape == (3, 3, 3)
    first = np.concatenate([data.x_train[data.y_train == 0], data.x_test[data.y_test == 0]])
    assert (first == first[:, :1]).all()


def test_two_tones_and_palettes_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels(1, (4, 4)) > 100).save(tmp_path / "a" / "0.png")
    Image.fromarray(pixels(2, (4, 4)) > 100).save(tmp_path / "a" / "1.png")
    data = load_folder_with_second_class(tmp_path, (4, 4))
    assert data.input_shape == (1, 4, 4)
    mine = np.concatenate([data.x_train[data.y_train == 0], data.x_test[data.y_test == 0]])
    assert set(np.unique(mine)) == {0, 255}
    palette = Image.fromarray(pixels(3, (4, 4)) % 4, mode="P")
    palette.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9])
    palette.save(tmp_path / "a" / "2.png")
    data = load_folder(tmp_path, ImageFolder(test_fraction=0.25))
    assert data.input_shape == (3, 4, 4)


def load_folder_with_second_class(root: Path, shape: tuple[int, ...]) -> Dataset:
    for name in ("0.png", "1.png"):
        put(root / "b" / name, pixels(5, shape))
    return load_folder(root, HALF)


def test_hidden_files_and_files_beside_the_classes_are_left_alone(tmp_path: Path) -> None:
    pictures(tmp_path, {"a": 2, "b": 2})
    (tmp_path / "LICENSE.txt").write_text("free")
    (tmp_path / ".cache").mkdir()
    (tmp_path / "a" / ".DS_Store").write_bytes(b"\0")
    assert load_folder(tmp_path, HALF).classes == 2


def test_a_scenario_names_folder_and_options(tmp_path: Path) -> None:
    pictures(tmp_path, {"a": 3, "b": 3})
    config = Data(set=f"folder:{tmp_path}", images=ImageFolder(size=(2, 2), test_fraction=0.34))
    data = load_data(config, None)
    assert data.input_shape == (3, 2, 2)
    assert len(data.y_test) == 2


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def two_pages(file: Path) -> None:
    page = Image.fromarray(pixels(1))
    page.save(file, save_all=True, append_images=[page])


NO_PICTURE = "is not a PNG, JPEG or TIFF picture"
DEFECTS: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no picture": ("a/000.png", lambda file: file.write_bytes(b"not a picture"), NO_PICTURE),
    "lists no party": ("a/000.png", lambda file: file.write_bytes(b""), NO_PICTURE),
    "cut short": ("a/000.png", cut, "is not a readable picture"),
    "another format": ("a/000.png", lambda file: Image.new("L", (4, 5)).save(file, "GIF"), NO_PICTURE),
    "another size": ("b/001.png", lambda file: put(file, pixels(1, (5, 5, 3))), "is 5x5, and 000.png is 5x4"),
    "transparent": ("a/000.png", lambda file: put(file, pixels(1, (5, 4, 4))), "pixels of kind RGBA"),
    "transparent colour": (
        "a/000.png",
        lambda file: Image.new("RGB", (4, 5)).save(file, transparency=(1, 2, 3)),
        "has transparent pixels",
    ),
    "16 bits": ("a/000.png", lambda file: Image.new("I;16", (4, 5)).save(file), "pixels of kind I;16"),
    "two pages": ("a/x.tif", two_pages, "holds 2 pages"),
    "another ending": (
        "a/notes.txt",
        lambda file: file.write_text("x"),
        "is not a file that ends in .png, .jpg, .jpeg, .tif, .tiff",
    ),
    "folder in a class": ("a/deeper.png", lambda file: file.mkdir(), "is not a file that ends in"),
    "empty class": ("c", lambda file: file.mkdir(), "holds no pictures"),
}


@pytest.mark.parametrize("case", DEFECTS)
def test_a_defect_is_one_line_with_the_file(tmp_path: Path, case: str) -> None:
    pictures(tmp_path, {"a": 3, "b": 3})
    name, spoil, reason = DEFECTS[case]
    spoil(tmp_path / name)
    with pytest.raises(ConfigError) as caught:
        load_folder(tmp_path, HALF)
    assert caught.value.path == str(tmp_path / name)
    assert reason in caught.value.reason
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_picture_of_absurd_size_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures(tmp_path, {"a": 2, "b": 2})
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15)
    with pytest.raises(ConfigError, match=r"000\.png: is not a readable picture: Image size \(20 pixels\)"):
        load_folder(tmp_path, HALF)


def test_too_many_pixels_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures(tmp_path, {"a": 2, "b": 2})
    monkeypatch.setattr(image_folder, "MAX_BYTES", 3 * 60)
    with pytest.raises(ConfigError, match=r"001\.png: exceeds the limit of 180 bytes of pixels"):
        load_folder(tmp_path, HALF)


def test_folders_that_are_no_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file") as caught:
        load_folder(tmp_path / "absent", HALF)
    assert caught.value.path == str(tmp_path / "absent")
    with pytest.raises(ConfigError, match="holds no folders"):
        load_folder(tmp_path, HALF)
    pictures(tmp_path, {"a": 4})
    with pytest.raises(ConfigError, match="one class only"):
        load_folder(tmp_path, HALF)
    pictures(tmp_path, {"b": 1})
    with pytest.raises(ConfigError, match=r"0\.9 takes all 1 samples of class b for the test") as caught:
        load_folder(tmp_path, ImageFolder(test_fraction=0.9))
    assert caught.value.path == "data.images.test_fraction"
    with pytest.raises(ConfigError, match=r"0\.05 of 5 samples is less than one \(at least 0\.2\)"):
        load_folder(tmp_path, ImageFolder(test_fraction=0.05))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="folder needs Pillow, which is not installed"):
        load_folder(tmp_path, HALF)
