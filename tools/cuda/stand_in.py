"""A stand-in for the target: a virtual environment with the packages of ``present.txt``, and torch as a stub.

Packages that the kit relies on are installed, in the known versions or else the newest that fit together. The
others are a name and a version, as far as pip can see; torch cannot be imported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name

from tools.cuda.refusal import FailedError, RefusedError, last_line, progress
from tools.cuda.target import PYTHON, Present

STUBS = frozenset({canonicalize_name("torch")})
"""Packages that stay stubs although the kit relies on them."""
STUB_MESSAGE = "torch is a stub in this rehearsal"
_ATTEMPTS = 10
"""Resolutions until no package outside ``present.txt`` is needed; each excludes at least one."""


def find_interpreter() -> str:
    """Return the path of an interpreter of the target's version.

    Raises:
        RefusedError: there is none.
    """
    program = f"python{PYTHON}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(program), *sorted(map(str, pyenv.glob(f"versions/{PYTHON}*/bin/{program}")))]
    for path in candidates:
        # A launcher of pyenv may be on the PATH and fail, as no such version is selected.
        if path is not None and _version_of(path) == PYTHON:
            return path
    raise RefusedError(f"{program} was not found", f"install Python {PYTHON} so that {program} runs")


def _version_of(path: str) -> str | None:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([path, "-I", "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def make_stand_in(folder: Path, present: Present, relied_on: Iterable[str]) -> Path:
    """Make the environment in a new folder and return its interpreter.

    Args:
        folder: where; it does not exist.
        present: packages of the target.
        relied_on: names of those that the kit needs.
    """
    _call([find_interpreter(), "-m", "venv", str(folder)], "the environment cannot be made")
    python = folder / "bin" / "python"
    names = {canonicalize_name(name) for name in relied_on} - STUBS
    real = _resolve(python, present, names)
    progress(f"installing {len(real)} packages that the kit relies on")
    lines = [f"{name}=={version}" for name, version in sorted(real.items())]
    _call([*_pip(python), "install", "--no-deps", "--only-binary", ":all:", *lines], "pip failed")
    [packages] = folder.glob("lib/python*/site-packages")
    for name in sorted(present.keys() - real.keys() - {canonicalize_name("pip")}):
        write_stub(packages, name, str(present[name] or "0"))
    (packages / "torch").mkdir()
    (packages / "torch" / "__init__.py").write_text(f"raise ImportError({STUB_MESSAGE!r})\n")
    _check_exact(python, present)
    return python


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]


def _call(command: list[str], problem: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FailedError(f"{problem}: {last_line(done.stderr)}", "check the network and present.txt")
    return done.stdout


def _resolve(python: Path, present: Present, names: set[NormalizedName]) -> dict[NormalizedName, str]:
    """Return versions of the packages and of all that they need, with nothing that the target lacks."""
    excluded: set[NormalizedName] = set()
    pins = [f"{name}=={version}" for name, version in present.items() if version and name not in STUBS]
    for _ in range(_ATTEMPTS):
        with tempfile.TemporaryDirectory() as scratch:
            constraints = Path(scratch) / "constraints.txt"
            constraints.write_text("\n".join([*pins, *(f"{name}<0" for name in sorted(excluded))]) + "\n")
            progress("resolving versions of the packages that the kit relies on")
            options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--report", "-"]
            output = _call(
                [*_pip(python), "install", *options, "-c", str(constraints), *sorted(names)],
                "the packages of present.txt do not fit together",
            )
        rows = [row["metadata"] for row in json.loads(output)["install"]]
        found = {canonicalize_name(row["name"]): str(row["version"]) for row in rows}
        if not (absent := found.keys() - present.keys()):
            return found
        progress(f"the target lacks {', '.join(sorted(absent))}: excluded")
        excluded |= absent
    raise FailedError("packages of present.txt need others that it lacks", "correct present.txt")


def write_stub(packages: Path, name: str, version: str) -> None:
    """Write the metadata of a distribution that has no module."""
    folder = packages / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "INSTALLER").write_text("stand-in\n")
    (folder / "RECORD").write_text("")


def _check_exact(python: Path, present: Present) -> None:
    code = (
        "import json; from importlib.metadata import distributions;"
        " print(json.dumps([(d.name, d.version) for d in distributions()]))"
    )
    rows = json.loads(_call([str(python), "-I", "-c", code], "the environment cannot be listed"))
    found = {canonicalize_name(name): version for name, version in rows}
    wrong = [name for name, version in present.items() if version and found.get(name) != str(version)]
    if found.keys() != present.keys() or wrong:
        differing = sorted({*(found.keys() ^ present.keys()), *wrong})
        raise FailedError(f"the environment differs from present.txt: {', '.join(differing)}", "report it")
