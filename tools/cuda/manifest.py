"""The manifest of a kit: its files with sizes and SHA-256 digests. Standard library only.

A kit is a folder: ``manifest.json``, ``wheels/`` with the wheels that the target lacks, and ``data/``, a
folder for ``--data-dir``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from tools.cuda.refusal import RefusedError

NAME = "manifest.json"
WHEELS = "wheels"
DATA = "data"
FORMAT = 1
_REMEDY = "make the kit again: make cuda-kit"


@dataclass(frozen=True)
class File:
    """A file of a kit: path relative to the kit, size in bytes, SHA-256 in hex digits."""

    path: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        """Refuse a path that leads out of the kit."""
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts or path.parts[:1] not in ((WHEELS,), (DATA,)):
            raise RefusedError(f"the manifest lists {self.path!r}, which is not in the kit", _REMEDY)


@dataclass(frozen=True)
class Wheel(File):
    """A wheel of a kit, with the name and version of its distribution."""

    name: str
    version: str


@dataclass(frozen=True)
class Manifest:
    """Contents of a kit."""

    python: str
    """Version of the interpreter that the wheels are for, such as ``3.12``."""
    wheels: tuple[Wheel, ...]
    data: tuple[File, ...]
    relied_on: dict[str, tuple[str, ...]]
    """Packages of the target that the kit needs, with the requirements that they have to satisfy."""

    @property
    def size(self) -> int:
        """Size of all files in bytes, without the manifest."""
        return sum(file.size for file in (*self.wheels, *self.data))

    def write(self, kit: Path) -> None:
        """Write the manifest into the kit."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True)
        (kit / NAME).write_text(text + "\n", encoding="utf-8")


def describe(path: Path, kit: Path) -> File:
    """Return the entry of a file that is in the kit."""
    return File(path.relative_to(kit).as_posix(), path.stat().st_size, sha256(path))


def sha256(path: Path) -> str:
    """Return the digest of a file in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(kit: Path) -> Manifest:
    """Read the manifest of a kit.

    Raises:
        RefusedError: there is none, or it is malformed.
    """
    path = kit / NAME
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields["format"] != FORMAT:
            raise RefusedError(f"{path} has format {fields['format']}, not {FORMAT}", _REMEDY)
        return Manifest(
            str(fields["python"]),
            _entries(Wheel, fields["wheels"]),
            _entries(File, fields["data"]),
            {str(name): tuple(map(str, needs)) for name, needs in fields["relied_on"].items()},
        )
    except FileNotFoundError:
        raise RefusedError(f"{kit} is not a kit: it has no {NAME}", "make one: make cuda-kit") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"{path} cannot be read ({type(error).__name__}: {error})", _REMEDY) from error


_Entry = TypeVar("_Entry", bound=File)


def _entries(kind: type[_Entry], rows: Iterable[dict[str, Any]]) -> tuple[_Entry, ...]:
    return tuple(kind(**row) for row in rows)


def verify(kit: Path, manifest: Manifest) -> None:
    """Compare each file of the kit with the manifest.

    Raises:
        RefusedError: a file is missing, differs in size or digest, or is not in the manifest.
    """
    listed = {file.path: file for file in (*manifest.wheels, *manifest.data)}
    for file in listed.values():
        path = kit / file.path
        if not path.is_file():
            raise RefusedError(f"{path} is missing", _REMEDY)
        if path.stat().st_size != file.size or sha256(path) != file.sha256:
            raise RefusedError(f"{path} is not the file that the manifest describes", _REMEDY)
    for folder in (WHEELS, DATA):
        for path in sorted((kit / folder).rglob("*")):
            if path.is_file() and path.relative_to(kit).as_posix() not in listed:
                raise RefusedError(f"{path} is not in the manifest", _REMEDY)
