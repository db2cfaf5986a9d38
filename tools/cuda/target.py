"""The machine that a kit is for: interpreter, platform, and the packages that it has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from tools.cuda.refusal import RefusedError

PRESENT = Path(__file__).with_name("present.txt")
PYTHON = "3.12"
_FULL = "3.12.3"
ABI = "cp312"
# The newest glibc first; older aliases of three of them. Wheels for a later glibc than 2.28 are not taken.
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in range(28, 16, -1)),
    "manylinux2014_x86_64",
    *(f"manylinux_2_{minor}_x86_64" for minor in range(16, 11, -1)),
    "manylinux2010_x86_64",
    *(f"manylinux_2_{minor}_x86_64" for minor in range(11, 4, -1)),
    "manylinux1_x86_64",
)

MARKERS: dict[str, str] = {
    "implementation_name": "cpython",
    "implementation_version": _FULL,
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "Linux",
    "platform_version": "",
    "python_full_version": _FULL,
    "python_version": PYTHON,
    "sys_platform": "linux",
}
"""Environment of markers (PEP 508). Releases of kernels, which no requirement is known to name, are empty."""

Present = Mapping[NormalizedName, Version | None]
"""Packages of the target; None if the version is not known."""


@cache
def tags() -> frozenset[Tag]:
    """Return the tags of wheels that the target can install."""
    major, minor = map(int, PYTHON.split("."))
    return frozenset(
        (
            *cpython_tags((major, minor), abis=[ABI], platforms=PLATFORMS),
            *compatible_tags((major, minor), interpreter=ABI, platforms=PLATFORMS),
        )
    )


def read_versions(path: Path) -> dict[NormalizedName, Version | None]:
    """Read a file of lines ``NAME`` or ``NAME==VERSION``; ``#`` starts a comment.

    Raises:
        RefusedError: the file cannot be read, or a line is malformed.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RefusedError(f"{path} cannot be read: {error.strerror}", "name a file that exists") from error
    versions: dict[NormalizedName, Version | None] = {}
    for number, line in enumerate(lines, 1):
        if not (text := line.partition("#")[0].strip()):
            continue
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise RefusedError(
                f"{path}:{number}: {text!r} is malformed", "write NAME or NAME==VERSION"
            ) from error
        pins = list(requirement.specifier)
        if len(pins) > 1 or any(pin.operator != "==" or pin.version.endswith("*") for pin in pins):
            raise RefusedError(f"{path}:{number}: {text!r} is not one version", "write NAME or NAME==VERSION")
        versions[canonicalize_name(requirement.name)] = Version(pins[0].version) if pins else None
    return versions
