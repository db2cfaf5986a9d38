"""Files that appear whole or not at all, and stay once that is said."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from securefl.base.errors import ConfigError


def write_whole(path: Path, content: bytes, *, durable: bool = False, private: bool = False) -> None:
    """Write a file under a temporary name beside it, and give it its name once it is whole.

    Args:
        path: of the file; what stood there stays until then.
        content: all of it.
        durable: wait for the disk (fsync), for the file and for its name.
        private: let only the owner read it.

    Raises:
        OSError: it cannot be written; nothing is left of it.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "wb", opener=_private if private else None) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):  # there may be no such folder
            partial.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def append_durably(handle: int, at: int, content: bytes) -> None:
    """Write behind the first ``at`` bytes of an open file and wait for the disk.

    Raises:
        OSError: it cannot be written; the file has its first ``at`` bytes.
    """
    try:
        os.ftruncate(handle, at)
        os.lseek(handle, at, os.SEEK_SET)
        written = 0
        while written < len(content):
            written += os.write(handle, content[written:])
        os.fsync(handle)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, at)
        raise


@contextlib.contextmanager
def reading(path: Path, remedy: str = "") -> Iterator[None]:
    """Refuse ``path`` with one line if it cannot be read within.

    Raises:
        ConfigError: it cannot be read, or is not text in its encoding.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", remedy) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "is not a text file", remedy) from error


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none.

    Raises:
        ConfigError: it cannot be read.
    """
    with reading(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder.

    Raises:
        OSError: it does not take them.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
