"""Folders that commands write reports to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from securefl.base.errors import ConfigError


def make_folder(folder: Path) -> None:
    """Make a folder that a command writes to, if it is not there.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(str(folder), f"cannot be made: {error.strerror}", "choose another --out") from error


def check_free(folder: Path, names: Iterable[str], *, force: bool) -> None:
    """Refuse to write over an earlier report, before anything is computed.

    Raises:
        ConfigError: ``folder`` is a file, or holds one of ``names`` and ``force`` is not given.
    """
    former = [folder / name for name in names if (folder / name).exists()]
    if former and not force:
        raise ConfigError(str(former[0]), "exists already", "choose another --out, or replace it by --force")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(str(folder), "is no directory", "choose another --out")
