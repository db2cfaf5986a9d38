"""Small wheels, kits and sources for tests."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tools.cuda.manifest import Manifest, Wheel, describe

RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
BACKEND = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        archive.writestr("{stem}.py", "VALUE = 'built'")
        info = "{stem}-{version}.dist-info/"
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "RECORD", "")
    return name
"""
"""A build backend that needs no package."""


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    requires: Iterable[str] = (),
    tag: str = "py3-none-any",
    python: str = "",
) -> Path:
    """Write a wheel of one module, whose ``VALUE`` is the version."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = name.replace("-", "_")
    path = folder / f"{stem}-{version}-{tag}.whl"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {line}" for line in requires]
    lines += [f"Requires-Python: {python}"] if python else []
    info = f"{stem}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{stem}.py", f"VALUE = {version!r}\n")
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def make_source(folder: Path, name: str, version: str = "1.0") -> Path:
    """Write a source distribution that pip builds without downloading a backend."""
    top = folder / "unpacked" / f"{name}-{version}"
    top.mkdir(parents=True)
    (top / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "{name}"\nversion = "{version}"\n'
    )
    (top / "backend.py").write_text(
        BACKEND.replace("{stem}", name).replace("{name}", name).replace("{version}", version)
    )
    (top / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(top, top.name)
    return path


def make_fake_kit(kit: Path, names: Iterable[str] = ("alpha", "beta"), tag: str = "py3-none-any") -> Manifest:
    """Write a kit of wheels and one data file for this interpreter."""
    wheels = []
    for name in names:
        file = describe(make_wheel(kit / "wheels", name, tag=tag), kit)
        wheels.append(Wheel(file.path, file.size, file.sha256, name, "1.0"))
    data = kit / "data" / "numbers" / "one.bin"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"1" * 100)
    manifest = Manifest(RUNNING, tuple(wheels), (describe(data, kit),), {"pytest": ("pytest>=1 (alpha)",)})
    manifest.write(kit)
    return manifest
