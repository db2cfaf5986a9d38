"""Files that appear whole or not at all, and stay once that is said."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


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
