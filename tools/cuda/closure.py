"""Closure of requirements: the packages that a target lacks, found through the metadata of wheels.

Versions come from pins, or else from the newest release that the first requirement allows. A version is never
revised: a later requirement that excludes it is an error, and a pin is the remedy.
"""

from __future__ import annotations

import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tools.cuda.refusal import RefusedError
from tools.cuda.target import MARKERS, PYTHON, Present, tags

Fetch = Callable[[Requirement], Path]
"""Download a wheel that satisfies the requirement, and return its path."""


@dataclass(frozen=True)
class Distribution:
    """Name, version and requirements of a package."""

    name: NormalizedName
    version: Version
    requires: tuple[Requirement, ...]


@dataclass(frozen=True)
class Closure:
    """Result of a resolution."""

    wheels: tuple[tuple[Distribution, Path], ...]
    """Packages that the target lacks, with their wheels, by name."""
    relied_on: dict[NormalizedName, tuple[str, ...]]
    """Packages of the target that something needs, with these requirements and who has them."""


@dataclass
class Resolver:
    """Resolution for one target.

    Attributes:
        present: packages of the target.
        pins: versions to take.
        fetch: source of wheels.
        alone: packages whose own requirements are ignored.
    """

    present: Present
    pins: Mapping[NormalizedName, Version | None]
    fetch: Fetch
    alone: frozenset[NormalizedName] = frozenset()
    _taken: dict[NormalizedName, Distribution] = field(default_factory=dict)
    _paths: dict[NormalizedName, Path] = field(default_factory=dict)
    _extras: dict[NormalizedName, set[str]] = field(default_factory=dict)
    _reasons: dict[NormalizedName, str] = field(default_factory=dict)
    _relied_on: dict[NormalizedName, dict[str, None]] = field(default_factory=dict)

    def resolve(self, project: Distribution, roots: Iterable[Requirement]) -> Closure:
        """Return the closure of ``roots``, which may name extras of the project.

        Raises:
            RefusedError: requirements, pins and the target contradict each other, or a wheel does not fit.
        """
        self._taken[project.name] = project
        self._reasons[project.name] = "the checkout"
        queue = deque((root, "this kit") for root in roots)
        while queue:
            requirement, parent = queue.popleft()
            name = canonicalize_name(requirement.name)
            if name in self.present:
                self._rely_on(name, requirement, parent)
                continue
            if name not in self._taken:
                self._take(name, requirement, parent)
            taken = self._taken[name]
            if not requirement.specifier.contains(taken.version, prereleases=True):
                raise RefusedError(
                    f"{parent} needs {name}{requirement.specifier},"
                    f" {self._reasons[name]} takes {taken.version}",
                    f"pin another version of {name} or of {parent} in constraints.txt",
                )
            queue.extend((needed, str(name)) for needed in self._news(taken, requirement.extras))
        return Closure(
            tuple((self._taken[name], path) for name, path in sorted(self._paths.items())),
            {name: tuple(lines) for name, lines in sorted(self._relied_on.items())},
        )

    def _rely_on(self, name: NormalizedName, requirement: Requirement, parent: str) -> None:
        version = self.present[name]
        if version is not None and not requirement.specifier.contains(version, prereleases=True):
            raise RefusedError(
                f"{parent} needs {name}{requirement.specifier}, the target has {name} {version}",
                f"pin another version of {parent} in constraints.txt, or correct present.txt",
            )
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        line = f"{name}{extras}{requirement.specifier} ({parent})"
        self._relied_on.setdefault(name, {})[line] = None

    def _take(self, name: NormalizedName, requirement: Requirement, parent: str) -> None:
        wanted = Requirement(f"{name}{requirement.specifier}")
        reason = parent
        if (pin := self.pins.get(name)) is not None:
            wanted, reason = Requirement(f"{name}=={pin}"), "constraints.txt"
            if not requirement.specifier.contains(pin, prereleases=True):
                raise RefusedError(
                    f"{parent} needs {name}{requirement.specifier}, constraints.txt pins {pin}",
                    f"pin another version of {name} or of {parent} in constraints.txt",
                )
        self._paths[name] = path = self.fetch(wanted)
        self._taken[name] = read_wheel(path, wanted)
        self._reasons[name] = reason

    def _news(self, taken: Distribution, extras: set[str]) -> list[Requirement]:
        """Return the requirements that the extras, or the first use of the package, add."""
        first = taken.name not in self._extras
        known = self._extras.setdefault(taken.name, set())
        added = {str(canonicalize_name(extra)) for extra in extras} - known
        known |= added
        if taken.name in self.alone:
            return []
        asked = [*([""] if first else []), *sorted(added)]
        return [one for one in taken.requires if any(_applies(one, extra) for extra in asked)]


def _applies(requirement: Requirement, extra: str) -> bool:
    if requirement.marker is None:
        return extra == ""
    return requirement.marker.evaluate({**MARKERS, "extra": extra})


def read_wheel(path: Path, wanted: Requirement) -> Distribution:
    """Read the metadata of a wheel.

    Raises:
        RefusedError: the file is not a wheel, is of another package or version, or does not fit the target.
    """
    remedy = f"pin another version of {wanted.name} in constraints.txt"
    try:
        name, version, _, built_for = parse_wheel_filename(path.name)
        with zipfile.ZipFile(path) as archive:
            [inside] = [
                one
                for one in archive.namelist()
                if one.endswith(".dist-info/METADATA") and one.count("/") == 1
            ]
            metadata = BytesParser(policy=compat32).parsebytes(archive.read(inside))
        requires = tuple(Requirement(line) for line in metadata.get_all("Requires-Dist", []))
        pythons = SpecifierSet(metadata.get("Requires-Python", ""))
    except (
        InvalidWheelFilename,
        InvalidRequirement,
        InvalidSpecifier,
        zipfile.BadZipFile,
        ValueError,
    ) as error:
        raise RefusedError(f"{path.name} is not a wheel that can be read ({error})", remedy) from error
    if name != canonicalize_name(wanted.name) or not wanted.specifier.contains(version, prereleases=True):
        raise RefusedError(f"{path.name} is not {wanted}", remedy)
    if built_for.isdisjoint(tags()):
        raise RefusedError(f"{path.name} does not run on CPython {PYTHON} of Linux x86-64", remedy)
    if not pythons.contains(MARKERS["python_full_version"]):
        raise RefusedError(f"{path.name} needs Python {pythons}", remedy)
    return Distribution(name, version, requires)
