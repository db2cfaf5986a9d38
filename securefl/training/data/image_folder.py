"""Reader of folders of pictures, one subfolder per class. Pillow is an optional extra, imported when needed.

A picture is taken as it is stored: 8 bits of grey, or of red, green and blue. What cannot be taken without
loss (transparency, 16 bits, several pages) is refused; nothing in a class's folder is passed over but hidden
files.
"""

from __future__ import annotations

import importlib.util
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.scenario import ImageFolder
from securefl.training.data.apportion import largest_remainders
from securefl.training.data.dataset import Dataset, standardised_by_train
from securefl.training.data.files import MAX_BYTES
from securefl.training.data.idx import U8

_FORMATS = ("PNG", "JPEG", "TIFF")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
_ENDINGS = ", ".join(_SUFFIXES)
_REMEDY = "fetch or save it again, or move it out of the class's folder"


def load_folder(path: Path, config: ImageFolder) -> Dataset:
    """The pictures ``path/<class>/<file>``, PNG, JPEG or TIFF, as u8 ``(n, channels, height, width)``.

    Classes are numbered from 0 in the order of their folders' names, samples come in the order of their
    files' names, so that neither the file system nor the machine matters. There are three channels as soon
    as one picture has colours. Resizing is Pillow's, bilinear over all pixels that a new one covers.
    :func:`_test_rows` draws the test half.

    Raises:
        ConfigError: Pillow or the folder is missing, there are no classes, a file is no such picture or
            has another size, or a half would lack a class; names the file or the field.
    """
    if importlib.util.find_spec("PIL") is None:
        raise ConfigError("data.set", "folder needs Pillow", "pip install 'securefl[images]'")
    folders = [entry for entry in _entries(path) if entry.is_dir()]
    if not folders:
        raise ConfigError(str(path), "holds no folders", "one folder of pictures per class")
    files = [_pictures_of(folder) for folder in folders]
    x = _stacked([file for own in files for file in own], config.size)
    y = np.repeat(np.arange(len(files), dtype=np.int64), [len(own) for own in files])
    test = _test_rows(y, config, folders)
    whole = standardised_by_train(
        path.resolve().name or "folder", x[~test], y[~test], x[test], y[test], where=str(path)
    )
    return replace(whole, title=f"{whole.name} ({np.sum(~test):,}/{np.sum(test):,} pictures)")


def _entries(folder: Path) -> list[Path]:
    """What is in ``folder``, by name; hidden files left out."""
    try:
        found = list(folder.iterdir())
    except OSError as error:
        raise ConfigError(
            str(folder), f"cannot be read: {error.strerror}", "data.set = folder:PATH"
        ) from error
    return sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _pictures_of(folder: Path) -> list[Path]:
    files = _entries(folder)
    if not files:
        raise ConfigError(str(folder), "holds no pictures", "remove the folder: each is a class")
    for file in files:
        if file.suffix.lower() not in _SUFFIXES or not file.is_file():
            raise ConfigError(
                str(file), f"is no file that ends in {_ENDINGS}", "move it out of the class's folder"
            )
    return files


def _stacked(files: list[Path], size: tuple[int, int] | None) -> U8:
    """All pictures, u8 ``(n, channels, height, width)``."""
    read = _reader(size)
    pictures: list[U8] = []
    total = 0
    for file in files:
        picture = read(file)
        height, width = picture.shape[:2]
        if pictures and pictures[0].shape[:2] != (height, width):
            first = "x".join(map(str, pictures[0].shape[:2]))
            raise ConfigError(
                str(file),
                f"is {height}x{width}, and {files[0].name} is {first}",
                "set data.images.size, such as [64, 64], to which all are resized",
            )
        total += 3 * height * width
        if total > MAX_BYTES:
            raise ConfigError(
                str(file), f"is one too many for {MAX_BYTES} bytes of pixels", "set data.images.size"
            )
        pictures.append(picture)
    if any(picture.ndim == 3 for picture in pictures):
        coloured = (p if p.ndim == 3 else np.repeat(p[:, :, None], 3, axis=2) for p in pictures)
        return np.stack([picture.transpose(2, 0, 1) for picture in coloured])
    return np.stack(pictures)[:, None]


def _reader(size: tuple[int, int] | None) -> Callable[[Path], U8]:
    """What reads one picture: u8 ``(height, width)``, or ``(height, width, 3)`` if it is in colours."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - an optional extra

    defects = (
        OSError,
        EOFError,
        ValueError,
        TypeError,
        SyntaxError,  # a broken PNG
        struct.error,
        zlib.error,
        Image.DecompressionBombWarning,  # so many pixels that Pillow takes it for an attack
        Image.DecompressionBombError,
    )

    def read(path: Path) -> U8:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(path, formats=_FORMATS) as picture:
                    unfit = _unfit(picture.mode, picture.info, getattr(picture, "n_frames", 1))
                    if unfit:
                        raise ConfigError(str(path), unfit, "save it as one page of plain grey or RGB")
                    plain = picture.convert("L" if picture.mode in {"1", "L"} else "RGB")
                    if size is not None:
                        plain = plain.resize((size[1], size[0]), Image.Resampling.BILINEAR)
                    pixels: npt.NDArray[np.uint8] = np.asarray(plain, dtype=np.uint8)
        except UnidentifiedImageError as error:
            raise ConfigError(str(path), "is no PNG, JPEG or TIFF picture", _REMEDY) from error
        except defects as error:
            raise ConfigError(str(path), f"is no readable picture: {error}", _REMEDY) from error
        return pixels

    return read


def _unfit(mode: str, info: Mapping[Any, Any], pages: int) -> str:
    """Why a picture cannot be taken without loss; empty if it can."""
    if pages != 1:
        return f"holds {pages} pages"
    if "transparency" in info:
        return "has transparent pixels"
    if mode not in {"1", "L", "P", "RGB"}:
        return f"has pixels of kind {mode}, not 8 bits of grey or of red, green and blue"
    return ""


def _test_rows(labels: I64, config: ImageFolder, folders: list[Path]) -> npt.NDArray[np.bool_]:
    """Which samples are for the test: of each class its share, by largest remainders, drawn by the seed."""
    counts = np.bincount(labels)
    total = round(config.test_fraction * len(labels))
    if not total:
        raise ConfigError(
            "data.images.test_fraction",
            f"{config.test_fraction:g} of {len(labels)} pictures is none",
            f"at least {1 / len(labels):.2g}",
        )
    sizes = largest_remainders(total, counts.astype(np.float64))
    rng = np.random.Generator(np.random.PCG64(config.seed))
    test = np.zeros(len(labels), dtype=np.bool_)
    for label, size in enumerate(sizes):
        if size == counts[label]:
            raise ConfigError(
                "data.images.test_fraction",
                f"{config.test_fraction:g} takes all {size} pictures of {folders[label].name} for the test",
                "a smaller fraction, or more pictures",
            )
        test[rng.permutation(np.flatnonzero(labels == label))[:size]] = True
    return test
