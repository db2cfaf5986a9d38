"""The closure: requirements of wheels, followed for the target."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from tests.unit.cuda.fake_wheels import make_wheel
from tools.cuda.closure import Closure, Distribution, Resolver
from tools.cuda.refusal import RefusedError

Versions = dict[NormalizedName, Version | None]


def versions(**entries: str | None) -> Versions:
    return {canonicalize_name(name): Version(text) if text else None for name, text in entries.items()}


class Index:
    """Wheels by name; the first of a name whose version is allowed is fetched."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._wheels: list[Path] = []
        self.fetched: list[str] = []

    def add(self, name: str, version: str = "1.0", *requires: str, tag: str = "py3-none-any") -> None:
        self._wheels.append(make_wheel(self._folder, name, version, requires, tag))

    def fetch(self, requirement: Requirement) -> Path:
        self.fetched.append(str(requirement))
        for path in self._wheels:
            name, version = path.name.split("-")[:2]
            if canonicalize_name(name) == requirement.name and version in requirement.specifier:
                return path
        raise AssertionError(f"{requirement} was asked for")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path)


def resolve(
    index: Index,
    *requires: str,
    present: Mapping[NormalizedName, Version | None] | None = None,
    pins: Mapping[NormalizedName, Version | None] | None = None,
    alone: str = "",
    extras: str = "",
) -> Closure:
    project = Distribution(
        canonicalize_name("app"), Version("0"), tuple(Requirement(line) for line in requires)
    )
    resolver = Resolver(present or {}, pins or {}, index.fetch, frozenset({canonicalize_name(alone)}))
    return resolver.resolve(project, [Requirement(f"app[{extras}]")])


def names(closure: Closure) -> list[str]:
    return [f"{one.name} {one.version}" for one, _ in closure.wheels]


def test_requirements_of_requirements_are_followed(index: Index) -> None:
    index.add("first", "1.0", "second>=2")
    index.add("second", "2.5", "first")
    closure = resolve(index, "first")
    assert names(closure) == ["first 1.0", "second 2.5"]
    assert [path.name for _, path in closure.wheels] == [
        "first-1.0-py3-none-any.whl",
        "second-2.5-py3-none-any.whl",
    ]
    assert index.fetched == ["first", "second>=2"]


@pytest.mark.parametrize(
    ("marker", "followed"),
    [
        ("python_version >= '3.12'", True),
        ("python_version < '3.12'", False),
        ("python_full_version >= '3.12.3'", True),
        ("sys_platform == 'win32'", False),
        ("platform_machine == 'x86_64' and os_name == 'posix'", True),
        ("platform_python_implementation == 'PyPy'", False),
        ("extra == 'more'", False),
    ],
)
def test_markers_are_those_of_the_target(index: Index, marker: str, followed: bool) -> None:
    index.add("first", "1.0", f"second; {marker}")
    index.add("second")
    assert names(resolve(index, "first")) == ["first 1.0", *(["second 1.0"] if followed else [])]


def test_extras_count_although_the_package_was_taken_without_them(index: Index) -> None:
    index.add(
        "first", "1.0", "second; extra == 'one-more' and python_version >= '3'", "third; extra == 'other'"
    )
    index.add("second")
    index.add("third")
    index.add("late", "1.0", "first[One_More]")
    assert names(resolve(index, "first", "late")) == ["first 1.0", "late 1.0", "second 1.0"]


def test_extras_of_the_project_are_chosen(index: Index) -> None:
    index.add("first")
    index.add("second")
    requires = ("first; extra == 'a'", "second; extra == 'b'", "app[a]; extra == 'all'")
    assert names(resolve(index, *requires, extras="b")) == ["second 1.0"]
    assert names(resolve(index, *requires, extras="all")) == ["first 1.0"]


def test_packages_of_the_target_are_neither_fetched_nor_followed(index: Index) -> None:
    index.add("first", "1.0", "torch>=2", "NumPy[fast]<3")
    present = versions(torch="2.11.0+cu130", numpy=None)
    closure = resolve(index, "first", "numpy>=1.26", present=present)
    assert names(closure) == ["first 1.0"]
    assert closure.relied_on == {
        "numpy": ("numpy>=1.26 (app)", "numpy[fast]<3 (first)"),
        "torch": ("torch>=2 (first)",),
    }


def test_a_known_version_of_the_target_that_does_not_satisfy_is_refused(index: Index) -> None:
    index.add("first", "1.0", "numpy<2.5")
    with pytest.raises(RefusedError, match=r"first needs numpy<2\.5, the target has numpy 2\.5\.2; pin"):
        resolve(index, "first", present=versions(numpy="2.5.2"))


def test_a_local_version_of_the_target_satisfies(index: Index) -> None:
    closure = resolve(index, "torch==2.11.0", present=versions(torch="2.11.0+cu130"))
    assert not closure.wheels


def test_pins_choose_versions(index: Index) -> None:
    index.add("first", "2.0")
    index.add("first", "1.5")
    assert names(resolve(index, "first>=1")) == ["first 2.0"]
    assert names(resolve(index, "first>=1", pins=versions(first="1.5"))) == ["first 1.5"]


def test_a_pin_outside_a_requirement_is_refused(index: Index) -> None:
    with pytest.raises(RefusedError, match=r"app needs first>=2, constraints.txt pins 1\.5; pin another"):
        resolve(index, "first>=2", pins=versions(first="1.5"))
    assert index.fetched == []


def test_requirements_that_contradict_each_other_are_refused(index: Index) -> None:
    index.add("first", "2.0")
    index.add("second", "1.0", "first<2")
    with pytest.raises(RefusedError, match=r"second needs first<2, app takes 2\.0; pin another version"):
        resolve(index, "first", "second")


def test_requirements_of_a_package_that_comes_alone_are_ignored(index: Index) -> None:
    index.add("crypten", "1.0", "sklearn")
    assert names(resolve(index, "crypten", alone="crypten")) == ["crypten 1.0"]


@pytest.mark.parametrize("tag", ["cp311-cp311-manylinux_2_17_x86_64", "cp312-cp312-linux_x86_64"])
def test_a_wheel_for_another_machine_is_refused(index: Index, tag: str) -> None:
    index.add("first", "1.0", tag=tag)
    with pytest.raises(RefusedError, match=re.escape(f"first-1.0-{tag}.whl does not run on CPython 3.12")):
        resolve(index, "first")


def test_a_wheel_for_a_later_python_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "first", python=">=3.13")
    with pytest.raises(RefusedError, match=r"first-1\.0-py3-none-any\.whl needs Python >=3\.13"):
        Resolver({}, {}, lambda _requirement: path).resolve(
            Distribution(canonicalize_name("app"), Version("0"), ()), [Requirement("first")]
        )


def test_a_wheel_of_another_package_or_version_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "other")
    for wanted in ("first", "other>=2"):
        with pytest.raises(RefusedError, match=r"other-1\.0-py3-none-any\.whl is not"):
            Resolver({}, {}, lambda _requirement: path).resolve(
                Distribution(canonicalize_name("app"), Version("0"), ()), [Requirement(wanted)]
            )


@pytest.mark.parametrize("name", ["first-1.0-py3-none-any.whl", "first.whl"])
def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("not an archive")
    with pytest.raises(RefusedError, match=f"{name} is not a wheel that can be read"):
        Resolver({}, {}, lambda _requirement: path).resolve(
            Distribution(canonicalize_name("app"), Version("0"), ()), [Requirement("first")]
        )
