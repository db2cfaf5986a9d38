"""Folders that commands write reports to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from securefl.base.errors import ConfigError


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
