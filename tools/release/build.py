"""Reproducible builds of wheel and sdist from a commit, and the check that both are complete."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from securefl.base.errors import ConfigError

BUNDLED = PurePosixPath("securefl/bundled")
"""Folder of `scenarios/` in the wheel."""
NOT_IN_SDIST = (".ci/", ".github/", ".git", ".pre-commit-config.yaml")
"""Beginnings of tracked paths that only serve the repository."""
ADDED_BY_SETUPTOOLS = ("PKG-INFO", "setup.cfg", "securefl.egg-info/")


def command(words: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return its output.

    Raises:
        ConfigError: the command failed; with its last line.
    """
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=None if environment is None else dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        shown = " ".join(str(word) for word in words)
        raise ConfigError(shown, f"exit code {done.returncode}: {lines[-1]}", f"run it in {folder}")
    return done.stdout


def tracked(root: Path, commit: str) -> dict[str, str]:
    """Return the SHA-256 of each file of the commit, by path."""
    archive = subprocess.run(["git", "archive", commit], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name: hashlib.sha256(_read(tar, member)).hexdigest() for member in tar if member.isfile()
        }


def export(root: Path, commit: str, folder: Path) -> None:
    """Write the files of the commit, without those that git does not track."""
    archive = subprocess.run(["git", "archive", commit], cwd=root, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def commit_time(root: Path, commit: str) -> int:
    """Return the commit's time in seconds, the `SOURCE_DATE_EPOCH` of the build."""
    return int(command(["git", "log", "-1", "--format=%ct", commit], root))


def build(root: Path, commit: str, builder: Path, folder: Path) -> tuple[Path, Path]:
    """Build sdist and wheel of the commit in ``folder``; return their paths.

    The wheel is built from the sdist, so that the sdist is known to be sufficient. ``builder`` is an
    interpreter with the pinned `build` and `setuptools`.
    """
    seconds = commit_time(root, commit)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONPATH", None)
    source, out = folder / "source", folder / "out"
    out.mkdir(parents=True)
    export(root, commit, source)
    words: list[str | Path] = [builder, "-m", "build", "--no-isolation", "--outdir", out]
    command([*words, "--sdist"], source, environment)
    (sdist,) = out.glob("*.tar.gz")
    normalise(sdist, seconds)
    with tarfile.open(sdist) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    command([*words, "--wheel"], unpacked, environment)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def normalise(sdist: Path, seconds: int) -> None:
    """Rewrite an sdist with sorted members, one time, one owner and plain modes.

    setuptools takes times, owners and modes from the build machine.
    """
    with tarfile.open(sdist) as tar:
        members = sorted((member for member in tar if member.isfile()), key=lambda member: member.name)
        contents = [(member, _read(tar, member)) for member in members]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in contents:
            entry = tarfile.TarInfo(member.name)
            entry.size, entry.mtime = len(content), seconds
            entry.mode = 0o755 if member.mode & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(content))
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=seconds) as zipped:
        zipped.write(packed.getvalue())


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def package_path(path: str) -> str | None:
    """Return the path in the wheel of a tracked file; None if it does not belong there."""
    pure = PurePosixPath(path)
    if pure.parts[0] == "scenarios":
        return str(BUNDLED.joinpath(*pure.parts[1:]))
    return path if pure.parts[0] == "securefl" else None


def check_wheel(wheel: Path, files: Mapping[str, str]) -> None:
    """Compare a wheel with the tracked files: none missing, changed or added.

    Raises:
        ConfigError: files differ; names the first five.
    """
    expected = {inside: sha for path, sha in files.items() if (inside := package_path(path)) is not None}
    with zipfile.ZipFile(wheel) as archive:
        found = {
            name: hashlib.sha256(archive.read(name)).hexdigest()
            for name in archive.namelist()
            if ".dist-info/" not in name
        }
    _compare(wheel, expected, found, "add it to package_data in setup.py")


def check_sdist(sdist: Path, files: Mapping[str, str]) -> None:
    """Compare an sdist with the tracked files.

    Raises:
        ConfigError: files differ; names the first five.
    """
    expected = {path: sha for path, sha in files.items() if not path.startswith(NOT_IN_SDIST)}
    with tarfile.open(sdist) as tar:
        found = {
            member.name.partition("/")[2]: hashlib.sha256(_read(tar, member)).hexdigest()
            for member in tar
            if member.isfile()
        }
    own = {name: sha for name, sha in found.items() if not name.startswith(ADDED_BY_SETUPTOOLS)}
    _compare(sdist, expected, own, "add it to MANIFEST.in")


def _compare(archive: Path, expected: Mapping[str, str], found: Mapping[str, str], remedy: str) -> None:
    faults = {
        "lacks": sorted(expected.keys() - found.keys()),
        "has changed": sorted(
            name for name in expected.keys() & found.keys() if expected[name] != found[name]
        ),
        "has the untracked": sorted(found.keys() - expected.keys()),
    }
    for fault, names in faults.items():
        if names:
            more = f" and {len(names) - 5} others" if len(names) > 5 else ""
            raise ConfigError(archive.name, f"{fault} {', '.join(names[:5])}{more}", remedy)


def _read(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    if file is None:
        raise ConfigError(member.name, "is not a regular file in the archive")
    return file.read()
