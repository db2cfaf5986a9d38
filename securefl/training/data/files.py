"""Reading of data files into memory, packed or not."""

import gzip
import io
import zlib
from pathlib import Path
from typing import Final

from securefl.base.errors import ConfigError

MAX_BYTES = 2**30
"""Size limit of an unpacked file: a few packed bytes, or a header, can claim any size."""


IN_DATA_DIR: Final = "name the folder of the data sets with --data-dir"
OWN: Final = "paths are relative to the working directory"
"""Remedies, for published files and for users' files."""


def read_bytes(path: Path, remedy: str = IN_DATA_DIR) -> bytes:
    """Return the content of ``path``.

    Raises:
        ConfigError: it is missing, unreadable or longer than :data:`MAX_BYTES`; ``remedy`` is its advice.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(
                str(path), f"has {size:,} bytes, more than {MAX_BYTES:,}", "make a smaller file"
            )
        return path.read_bytes()
    except FileNotFoundError:
        there = "its folder exists" if path.parent.is_dir() else f"the folder {path.parent} does not exist"
        raise ConfigError(str(path), f"file not found, {there}", remedy) from None
    except OSError as error:
        check = "check --data-dir" if remedy == IN_DATA_DIR else "name a file that you may read"
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", check) from error


def read_unpacked(path: Path, remedy: str = IN_DATA_DIR) -> bytes:
    """Return the content of ``path``, unpacked if its name ends in ``.gz``.

    Raises:
        ConfigError: it is missing, unreadable, cut short, corrupt or longer than :data:`MAX_BYTES`.
    """
    raw = read_bytes(path, remedy)
    if path.suffix != ".gz":
        return raw
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise not_gzip(path) from error
    if len(content) > MAX_BYTES:
        raise ConfigError(str(path), f"unpacks to more than {MAX_BYTES} bytes", "fetch the file again")
    return content


def not_gzip(path: Path) -> ConfigError:
    """Return the error for a file that ``gzip`` cannot read to its end."""
    return ConfigError(str(path), "is not an intact gzip file", "fetch the file again")
