"""Reader of idx files, the format of MNIST and Fashion-MNIST, optionally gzipped.

Format (LeCun, Cortes, Burges, "The MNIST database of handwritten digits"): two zero bytes, a byte each for
element type and number of dimensions, a big-endian u32 per dimension, the elements, last index fastest. Only
unsigned bytes (type 0x08) are supported.
"""

import gzip
import hashlib
import io
import math
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import numpy.typing as npt

from securefl.base.errors import ConfigError
from securefl.training.data.files import IN_DATA_DIR, MAX_BYTES, OWN, not_gzip, read_bytes

U8 = npt.NDArray[np.uint8]

UNSIGNED_BYTE = 0x08


def read_idx(path: Path, dimensions: int, sha256: str | None = None) -> U8:
    """Read the array in the idx file ``path``: u8, with ``dimensions`` axes, writable.

    A file whose name ends in ``.gz`` is unpacked. ``sha256`` is the required digest of the packed file in
    hex, or None.

    Raises:
        ConfigError: the file is missing, unreadable, not the expected one, cut short, corrupt or too long.
    """
    packed = read_bytes(path, OWN if sha256 is None else IN_DATA_DIR)
    if sha256 is not None:
        found = hashlib.sha256(packed).hexdigest()
        if found != sha256:
            raise ConfigError(
                str(path),
                f"is not the original file: its sha256 is {found}, expected {sha256}",
                "fetch the original file again, or use npz:PATH for a data set of your own",
            )
    if path.suffix != ".gz":
        return _parse(io.BytesIO(packed), path, dimensions)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            return _parse(cast("BinaryIO", file), path, dimensions)
    except (OSError, EOFError, zlib.error) as error:
        raise not_gzip(path) from error


def _parse(file: BinaryIO, path: Path, dimensions: int) -> U8:
    magic = _exactly(file, 4, path)
    if magic != bytes([0, 0, UNSIGNED_BYTE, dimensions]):
        raise ConfigError(
            str(path),
            f"is not an idx file of unsigned bytes with {dimensions} dimensions: 0x{magic.hex()}",
            "fetch the original file again",
        )
    header = _exactly(file, 4 * dimensions, path)
    shape = tuple(int.from_bytes(header[i : i + 4], "big") for i in range(0, len(header), 4))
    size = math.prod(shape)
    if size > MAX_BYTES:
        raise ConfigError(
            str(path),
            f"is damaged: its header states {size} bytes, more than {MAX_BYTES}",
            "fetch the original file again",
        )
    array = np.frombuffer(bytearray(_exactly(file, size, path)), dtype=np.uint8).reshape(shape)
    # At its end gzip checks the CRC.
    if file.read(1):
        raise ConfigError(
            str(path),
            f"is damaged: more bytes than the {size} of its header",
            "fetch the original file again",
        )
    return array


def _exactly(file: BinaryIO, size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise ConfigError(
            str(path),
            f"is cut short: {len(data)} of {size} bytes in its last part",
            "fetch the original file again",
        )
    return data
