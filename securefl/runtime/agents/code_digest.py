"""Digest of a site's installed code, which a policy names."""

from __future__ import annotations

import hashlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from securefl.base import files
from securefl.base.errors import ConfigError


def digest_of_code(site: str, folder: Path) -> str:
    """Return the SHA-256 of the module or package of a site, without importing it.

    Of a package all its Python files count, with their names; other packages that it imports do not.

    Args:
        site: ``module:name``.
        folder: of the kit, searched before the installed packages.

    Raises:
        ConfigError: there is no such module with source code.
    """
    top = site.partition(":")[0].partition(".")[0]
    found = PathFinder.find_spec(top, [str(folder), *sys.path])
    origin = None if found is None or found.origin is None else Path(found.origin)
    if origin is None or origin.suffix != ".py":
        raise ConfigError(
            site, f"has no source code {top}.py in {folder} or the installation", "put it into this folder"
        )
    package = origin.name == "__init__.py"
    paths = sorted(origin.parent.rglob("*.py")) if package else [origin]
    hashed = hashlib.sha256(b"securefl/1 code\n")
    for path in paths:
        with files.reading(path):
            content = path.read_bytes()
        name = path.relative_to(origin.parent).as_posix().encode()
        for part in (name, content):
            hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()
