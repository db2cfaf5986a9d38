"""Atomic and durable writing of files, and locks of folders."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from securefl.base.errors import ConfigError


def write_whole(path: Path, content: bytes, *, durable: bool = False, private: bool = False) -> None:
    """Write a file atomically: to a temporary file beside it, then renamed.

    Args:
        path: replaced if it exists.
        content: all of it.
        durable: fsync file and directory entry.
        private: mode 0600.

    Raises:
        OSError: the write failed; the temporary file is removed.
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
        with contextlib.suppress(OSError):  # the folder may not exist
            partial.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def append_durably(handle: int, at: int, content: bytes) -> None:
    """Truncate an open file to ``at`` bytes, append ``content`` and fsync.

    Raises:
        OSError: the write failed; the file has its first ``at`` bytes.
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
def reading(path: Path, remedy: str = "name a file that you may read") -> Iterator[None]:
    """Turn read errors of ``path`` in the block into ConfigError.

    Raises:
        ConfigError: unreadable, or not text in its encoding.
    """
    try:
        yield
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}", remedy) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "is not a text file", remedy) from error


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a file, or None if it does not exist.

    Raises:
        ConfigError: it cannot be read.
    """
    with reading(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


@contextlib.contextmanager
def lock_folder(folder: Path, other: str, remedy: str) -> Iterator[None]:
    """Hold a folder in the block; ``other`` names the program that may hold it.

    Raises:
        ConfigError: it is held already.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(str(folder), f"is in use by another {other}", remedy) from None
        yield
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to disk (fsync).

    Raises:
        OSError: the flush failed.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
