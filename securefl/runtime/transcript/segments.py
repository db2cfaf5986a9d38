"""Segments of long transcripts: ``segments/<name>.0001.jsonl`` and so on, then ``<name>.jsonl``.

The name is a vantage point, with the number of a later start (``p00.2``).
"""

import re
from pathlib import Path
from typing import Final

SEGMENTS: Final = "segments"
SHARE: Final = 8
"""A segment is closed at 1/8 of the bound."""
_SUFFIX: Final = ".jsonl"
_FORMER: Final = re.compile(r"(?P<name>.+)\.(?P<number>\d{4,})\.jsonl")


def former_path(path: Path, number: int) -> Path:
    """Return the path of closed segment ``number`` (from 1)."""
    return path.parent / SEGMENTS / f"{path.stem}.{number:04d}{_SUFFIX}"


def former_segments(path: Path) -> tuple[tuple[int, Path], ...]:
    """Return numbers and paths of existing closed segments, ascending."""
    found = []
    for file in (path.parent / SEGMENTS).glob(f"{path.stem}.*{_SUFFIX}"):
        named = _FORMER.fullmatch(file.name)
        if named is not None and named["name"] == path.stem:
            found.append((int(named["number"]), file))
    return tuple(sorted(found))


def files_of(path: Path) -> tuple[Path, ...]:
    """Return all files of the transcript at ``path``, in order."""
    former = tuple(file for _, file in former_segments(path))
    return (*former, path) if path.exists() else former


def names_in(folder: Path) -> tuple[str, ...]:
    """Return names of a folder's transcripts, empty ones and later starts included."""
    names = {path.stem for path in folder.glob(f"*{_SUFFIX}")}
    former = map(_FORMER.fullmatch, (path.name for path in (folder / SEGMENTS).glob(f"*{_SUFFIX}")))
    names.update(named["name"] for named in former if named is not None)
    return tuple(sorted(names))


def is_taken(path: Path) -> bool:
    """Return True if there is a transcript at ``path``, or a remnant of a killed process."""
    return path.exists() or bool(former_segments(path))


def start_of(name: str) -> tuple[str, int]:
    """Return the vantage point and the number of its process start."""
    vantage, _, number = name.partition(".")
    return vantage, int(number) if number.isdecimal() else 1


def beyond(path: Path, bound: int) -> tuple[Path, ...]:
    """Return the oldest files to delete so that a vantage point's files before ``path`` hold ``bound`` bytes.

    Raises:
        OSError: a file cannot be examined.
    """
    vantage = start_of(path.stem)[0]
    starts = sorted((name for name in names_in(path.parent) if start_of(name)[0] == vantage), key=start_of)
    files: list[Path] = []
    for name in starts:
        whole = path.with_name(name + _SUFFIX)
        files += [file for file in files_of(whole) if file != path]
    sizes = [file.stat().st_size for file in files]
    delete, total = 0, sum(sizes)
    while total > bound:
        total -= sizes[delete]
        delete += 1
    return tuple(files[:delete])
