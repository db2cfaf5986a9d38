"""Reader of folders of pictures, one subfolder per class. Needs Pillow."""

import importlib.util
import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from securefl import scenario
from securefl.base.arrays import I64
from securefl.base.errors import ConfigError
from securefl.training.data.files import MAX_BYTES
from securefl.training.data.idx import U8


class PictureArrays(NamedTuple):
    """Pictures u8 ``(n, channels, height, width)``, classes i64 ``(n,)``, and the classes' names."""

    x: U8
    y: I64
    classes: tuple[str, ...]


_FORMATS = ("PNG", "JPEG", "TIFF")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
_ENDINGS = ", ".join(_SUFFIXES)
_REMEDY = "fetch or save it again, or move it out of the class's folder"


def pictures_in(
    path: Path, config: scenario.ImageFolder, classes: int | tuple[str, ...] | None = None
) -> PictureArrays:
    """Read the pictures ``path/<class>/<file>``, PNG, JPEG or TIFF, as u8 ``(n, channels, height, width)``.

    There are three channels if any picture has colours. Pictures that would lose information (transparency,
    16 bits, several pages) are refused. Only hidden files are skipped. Classes are numbered from 0 by their
    folders' names, or as in ``classes``; samples are ordered by class and file name. Resizing is Pillow's,
    bilinear. ``classes`` are names, also without a folder, or their number.

    Raises:
        ConfigError: Pillow or the folder is missing, classes are missing or differ from the declared ones, or
            a file is not such a picture or has another size.
    """
    if importlib.util.find_spec("PIL") is None:
        raise ConfigError(
            "data.set", "folder needs Pillow, which is not installed", "pip install 'securefl[images]'"
        )
    folders = [entry for entry in _entries(path) if entry.is_dir()]
    if not folders:
        raise ConfigError(str(path), "holds no folders", "make one folder of pictures for each class")
    names = classes if isinstance(classes, tuple) else tuple(folder.name for folder in folders)
    unknown = [folder for folder in folders if folder.name not in names]
    if unknown:
        raise ConfigError(
            str(unknown[0]),
            "is not one of data.classes",
            f"rename it to one of {', '.join(names)}, or move it",
        )
    if isinstance(classes, int) and len(names) != classes:
        reason = f"has folders of {len(names)} classes, but data.classes is {classes}"
        raise ConfigError(str(path), reason, "list all classes in data.classes")
    files = [_pictures_of(folder) for folder in folders]
    x = _stack_images([file for own in files for file in own], config.size)
    numbers = np.array([names.index(folder.name) for folder in folders], dtype=np.int64)
    y = np.repeat(numbers, [len(own) for own in files])
    return PictureArrays(x, y, names)


def _entries(folder: Path) -> list[Path]:
    """Return the entries of ``folder`` by name, without hidden files."""
    try:
        found = list(folder.iterdir())
    except OSError as error:
        raise ConfigError(
            str(folder),
            f"cannot be read: {error.strerror}",
            "check its permissions, and data.set = folder:DIR",
        ) from error
    return sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _pictures_of(folder: Path) -> list[Path]:
    files = _entries(folder)
    if not files:
        raise ConfigError(str(folder), "holds no pictures", "remove it: each folder is a class")
    for file in files:
        if file.suffix.lower() not in _SUFFIXES or not file.is_file():
            raise ConfigError(
                str(file), f"is not a file that ends in {_ENDINGS}", "move it out of the class's folder"
            )
    return files


def _stack_images(files: list[Path], size: tuple[int, int] | None) -> U8:
    """Return all pictures, u8 ``(n, channels, height, width)``."""
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
                str(file), f"exceeds the limit of {MAX_BYTES} bytes of pixels", "set data.images.size"
            )
        pictures.append(picture)
    if any(picture.ndim == 3 for picture in pictures):
        coloured = (p if p.ndim == 3 else np.repeat(p[:, :, None], 3, axis=2) for p in pictures)
        return np.stack([picture.transpose(2, 0, 1) for picture in coloured])
    return np.stack(pictures)[:, None]


def _reader(size: tuple[int, int] | None) -> Callable[[Path], U8]:
    """Return a reader of one picture: u8 ``(height, width)``, or ``(height, width, 3)`` in colours."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - an optional extra

    defects = (
        OSError,
        EOFError,
        ValueError,
        TypeError,
        SyntaxError,  # a broken PNG
        struct.error,
        zlib.error,
        Image.DecompressionBombWarning,  # suspected of an attack by Pillow
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
            raise ConfigError(str(path), "is not a PNG, JPEG or TIFF picture", _REMEDY) from error
        except defects as error:
            raise ConfigError(str(path), f"is not a readable picture: {error}", _REMEDY) from error
        return pixels

    return read


def _unfit(mode: str, info: Mapping[Any, Any], pages: int) -> str:
    """Return the reason why a picture would lose information; empty if it would not."""
    if pages != 1:
        return f"holds {pages} pages"
    if "transparency" in info:
        return "has transparent pixels"
    if mode not in {"1", "L", "P", "RGB"}:
        return f"has pixels of kind {mode}, not 8 bits of grey or of red, green and blue"
    return ""
