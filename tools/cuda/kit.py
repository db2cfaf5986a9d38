"""Make a kit: ``python -m tools.cuda.kit``, or ``make cuda-kit``.

A kit has what securefl and its tests need on a GPU machine without a network, and what that machine lacks
(``present.txt``): wheels for CPython 3.12 on Linux x86-64, and Fashion-MNIST.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from tools.cuda.closure import Closure, Distribution, Resolver
from tools.cuda.manifest import DATA, NAME, WHEELS, Manifest, Wheel, describe, sha256
from tools.cuda.refusal import FailedError, RefusedError, last_line, progress, run
from tools.cuda.target import ABI, PLATFORMS, PRESENT, PYTHON, read_versions

ROOT = Path(__file__).parents[2]
KIT = ROOT / ".cuda-kit"
MIB = 1 << 20
LIMIT = 42 * MIB
"""Bytes that a kit may have."""
EXTRAS = ("crypten", "dp", "embedded-broker", "images", "learn", "plots", "tables")
TEST_PACKAGES = ("hypothesis", "pandas", "psutil", "pycryptodome", "pytest", "pytest-xdist")
"""Packages of the extra ``dev`` that tests import; the linters stay here."""
ALONE = frozenset({canonicalize_name("crypten")})
"""Packages that are installed without their declared requirements (docs/adr/0023)."""
DATA_SET = "fashion-mnist"
DATA_FILES = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
"""Files of the data set and their SHA-256, as in ``securefl.training.data.datasets``."""


@dataclass(frozen=True)
class Downloader:
    """Source of wheels for the target: an index, through pip, which keeps its own configuration."""

    folder: Path
    """Folder of the downloaded wheels."""

    def __call__(self, requirement: Requirement) -> Path:
        """Download the wheel of a requirement; build it if the index has only sources.

        Raises:
            FailedError: pip finds no distribution, or cannot reach an index.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
            python = ["--python-version", PYTHON, "--implementation", "cp", "--abi", ABI]
            only = ["--only-binary", ":all:", *platforms, *python, "--dest", scratch]
            first = _pip("download", *only, str(requirement))
            if first.returncode != 0:
                progress(f"{requirement}: no wheel to download, trying to build one")
                built = _pip("wheel", "--wheel-dir", scratch, str(requirement))
                if built.returncode != 0:
                    raise FailedError(
                        f"{requirement} cannot be downloaded ({last_line(first.stderr)}) or built"
                        f" ({last_line(built.stderr)})",
                        "check the network and the version in constraints.txt",
                    )
            [wheel] = Path(scratch).glob("*.whl")
            progress(f"{wheel.name}: {_size(wheel.stat().st_size)}")
            return wheel.rename(self.folder / wheel.name)


def _pip(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", command, "--no-deps", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def _size(number: int) -> str:
    return f"{number / MIB:.1f} MiB" if number >= MIB / 10 else f"{number / 1024:.0f} KiB"


def read_project(path: Path) -> Distribution:
    """Read the requirements of the checkout from its ``pyproject.toml``."""
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    lines: list[str] = list(project["dependencies"])
    for extra, needed in project["optional-dependencies"].items():
        lines.extend(f'{line}; extra == "{extra}"' for line in needed)
    name = canonicalize_name(project["name"])
    return Distribution(name, Version("0"), tuple(Requirement(line) for line in lines))


def roots(project: Distribution) -> list[Requirement]:
    """Return what a kit has to bring: the project with its extras, CrypTen, and the packages of the tests."""
    developer = {
        canonicalize_name(one.name): Requirement(f"{one.name}{one.specifier}")
        for one in project.requires
        if one.marker is not None and one.marker.evaluate({"extra": "dev"})
    }
    tests = [developer[canonicalize_name(name)] for name in TEST_PACKAGES]
    return [Requirement(f"{project.name}[{','.join(EXTRAS)}]"), *map(Requirement, sorted(ALONE)), *tests]


def pack_data(data_dir: Path, kit: Path) -> None:
    """Copy the data set into the kit.

    Raises:
        RefusedError: a file is missing, or is not the published one.
    """
    folder = kit / DATA / DATA_SET
    folder.mkdir(parents=True)
    for name, digest in DATA_FILES.items():
        path = data_dir / DATA_SET / name
        remedy = f"name a folder that has {DATA_SET}/: make cuda-kit ARGS='--data-dir FOLDER'"
        if not path.is_file():
            raise RefusedError(f"{path} is missing", remedy)
        if sha256(path) != digest:
            raise RefusedError(f"{path} is not the published file", remedy)
        # Contents only: the source may be read-only.
        shutil.copyfile(path, folder / name)


def describe_kit(kit: Path, closure: Closure) -> Manifest:
    """Return the manifest of the files that are in the kit."""
    wheels = []
    for one, path in closure.wheels:
        file = describe(path, kit)
        wheels.append(Wheel(file.path, file.size, file.sha256, one.name, str(one.version)))
    data = [describe(path, kit) for path in sorted((kit / DATA).rglob("*")) if path.is_file()]
    relied_on = {str(name): lines for name, lines in closure.relied_on.items()}
    return Manifest(PYTHON, tuple(wheels), tuple(data), relied_on)


def check_size(manifest: Manifest, rest: int, limit: int = LIMIT) -> None:
    """Check the size of a kit; ``rest`` are the bytes of the manifest itself.

    Raises:
        RefusedError: the kit is larger than the limit.
    """
    wheels, data = (sum(file.size for file in files) for files in (manifest.wheels, manifest.data))
    if (total := wheels + data + rest) > limit:
        largest = max(manifest.wheels, key=lambda wheel: wheel.size, default=None)
        raise RefusedError(
            f"the kit has {_size(total)} (wheels {_size(wheels)}, data {_size(data)}), and may have"
            f" {_size(limit)}",
            f"leave a package out; the largest is {largest.name if largest else 'none'}",
        )


def make_kit(data_dir: Path, kit: Path, present: Path) -> Manifest:
    """Make a kit in the folder ``kit``; a kit that is there is replaced when the new one is complete."""
    if kit.exists() and not (kit / NAME).is_file():
        raise RefusedError(f"{kit} exists and is not a kit", "remove it or name another folder with --kit")
    project = read_project(ROOT / "pyproject.toml")
    pins = read_versions(ROOT / "constraints.txt")
    has = read_versions(present)
    kit.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kit.parent, prefix=f"{kit.name}-") as folder:
        made = Path(folder) / "kit"
        (made / WHEELS).mkdir(parents=True)
        progress(f"copying {DATA_SET} from {data_dir}")
        pack_data(data_dir, made)
        progress("downloading the wheels that the target lacks")
        resolver = Resolver(has, pins, Downloader(made / WHEELS), ALONE)
        manifest = describe_kit(made, resolver.resolve(project, roots(project)))
        manifest.write(made)
        check_size(manifest, (made / NAME).stat().st_size)
        if kit.exists():
            shutil.rmtree(kit)
        made.rename(kit)
    return manifest


def _unknown(manifest: Manifest, has: dict[NormalizedName, Version | None]) -> list[str]:
    """Return the packages of the target whose versions the kit restricts and nothing states."""
    return [
        name
        for name, lines in manifest.relied_on.items()
        if has[canonicalize_name(name)] is None
        and any(Requirement(line.partition(" (")[0]).specifier for line in lines)
    ]


def main() -> int:
    """Make a kit; exit code 2 if something is refused, 3 if a download fails."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.cuda.kit")
    parser.add_argument("--data-dir", type=Path, default=ROOT.parent / "shared" / "data", help="data sets")
    parser.add_argument("--kit", type=Path, default=KIT, help="folder to make")
    parser.add_argument("--present", type=Path, default=PRESENT, help="packages of the target")
    options = parser.parse_args()

    def make() -> None:
        manifest = make_kit(options.data_dir, options.kit, options.present)
        if unknown := _unknown(manifest, read_versions(options.present)):
            print(f"not checked, as {options.present.name} has no version: {', '.join(unknown)}")
        wheels, data = (sum(file.size for file in files) for files in (manifest.wheels, manifest.data))
        print(
            f"{options.kit}: {len(manifest.wheels)} wheels ({_size(wheels)}) and"
            f" {len(manifest.data)} data files ({_size(data)}); {_size(manifest.size)} of {_size(LIMIT)}"
        )

    return run(make)


if __name__ == "__main__":
    sys.exit(main())
