"""Digest of a machine's installed code, which a policy names."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from securefl.base import files
from securefl.base.errors import ConfigError

_IMPORTED: Final = frozenset({".py", ".pyc", ".pyd", ".so"})
"""Endings of files that Python imports: sources, compiled ones without sources, extensions."""


def digests_of(names: Iterable[str], allowed: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the digest of the installed code by ``module:name``, empty for a name that is not allowed.

    Args:
        names: of the code that a run would import.
        allowed: digest by name, of a policy.
        folder: of the kit.

    Raises:
        ConfigError: as for :func:`digest_of_code`, about a name that is allowed.
    """
    return {name: digest_of_code(name, folder) if name in allowed else "" for name in names}


def digest_of_code(name: str, folder: Path) -> str:
    """Return the SHA-256 of the module or package of a name, without importing it.

    Of a package all files count that Python imports, with their names; other packages that it imports do not.

    Args:
        name: ``module:name``.
        folder: of the kit, searched like the installed packages.

    Raises:
        ConfigError: there is no such module with source code, or two that differ: which one a process imports
            depends on how it was started.
    """
    top = name.partition(":")[0].partition(".")[0]
    found: dict[str, Path] = {}
    for origin in _origins(top, folder):
        if origin.suffix != ".py":
            raise ConfigError(name, f"{origin} is not source code", "install its source")
        found.setdefault(_digest(origin), origin)
    if not found:
        raise ConfigError(
            name, f"has no source code {top}.py in {folder} or the installation", "put it into this folder"
        )
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise ConfigError(name, f"is in {first} and, with other code, in {second}", "remove one of them")
    return next(iter(found))


def _origins(top: str, folder: Path) -> Iterator[Path]:
    """Yield the file of a top module, for each folder of the search path that has it."""
    for place in dict.fromkeys([str(folder), *sys.path]):
        found = PathFinder.find_spec(top, [place])
        # Without an origin it is a folder without __init__.py, which any module of the name precedes.
        if found is not None and found.origin is not None:
            yield Path(found.origin)


def _imported_files(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    """Yield the files of a package that Python imports, as it finds them: also through links to folders."""
    real = folder.resolve()
    if real in above:
        return
    for one in folder.iterdir():
        if one.is_dir():
            # Its files are made from the sources beside it.
            if one.name != "__pycache__":
                yield from _imported_files(one, (*above, real))
        elif one.suffix in _IMPORTED:
            yield one


def _digest(origin: Path) -> str:
    package = origin.name == "__init__.py"
    with files.reading(origin.parent):
        paths = sorted(_imported_files(origin.parent)) if package else [origin]
    hashed = hashlib.sha256(b"securefl/1 code\n")
    for path in paths:
        with files.reading(path):
            content = path.read_bytes()
        name = path.relative_to(origin.parent).as_posix().encode()
        for part in (name, content):
            hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()
