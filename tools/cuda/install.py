"""Install a kit without a network: ``python3 -m tools.cuda.install --kit KIT --target FOLDER``.

Standard library only: on the target this runs before any package of the kit is there. Afterwards securefl
runs from its checkout, with ``PYTHONPATH=CHECKOUT:FOLDER``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from tools.cuda.manifest import Manifest, read_manifest, verify
from tools.cuda.refusal import FailedError, RefusedError, last_line, progress, run


def install(kit: Path, scratch: Path) -> None:
    """Verify the kit and install its wheels into the folder ``scratch``, which is new or empty.

    Raises:
        RefusedError: the kit or the folder is not as it has to be, or the interpreter is another version.
        FailedError: pip could not install the wheels.
    """
    manifest = read_manifest(kit)
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if manifest.python != running:
        raise RefusedError(
            f"the kit is for Python {manifest.python}, not {running}", f"use python{manifest.python}"
        )
    verify(kit, manifest)
    if scratch.is_file() or (scratch.is_dir() and any(scratch.iterdir())):
        raise RefusedError(f"{scratch} is not an empty folder", "name an empty or a new one")
    for line in unmet(manifest):
        progress(f"note: {line}")
    wheels = [str(kit / wheel.path) for wheel in manifest.wheels]
    options = ["--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(scratch), *wheels],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
    )
    if done.returncode != 0:
        raise FailedError(
            f"pip could not install the kit: {last_line(done.stderr)}",
            f"check that python{running} has pip, and remove {scratch} before the next attempt",
        )


def _environment() -> dict[str, str]:
    """Return the environment without any setting of pip, so that only the kit decides what is installed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**kept, "PIP_CONFIG_FILE": os.devnull}


def unmet(manifest: Manifest) -> list[str]:
    """Describe each package of this machine that the kit needs and that is missing or of another version.

    Versions are compared only if ``packaging`` is installed.
    """
    lines = []
    for name, requirements in sorted(manifest.relied_on.items()):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} is not installed; needed by {', '.join(requirements)}")
            continue
        lines.extend(
            f"{name} {version} is installed; needed is {line}"
            for line in requirements
            if not _allows(line, version)
        )
    return lines


def _allows(line: str, version: str) -> bool:
    try:
        from packaging.requirements import Requirement  # noqa: PLC0415 - not on every target
    except ImportError:
        return True
    requirement = Requirement(line.partition(" (")[0])
    return requirement.specifier.contains(version, prereleases=True)


def main() -> int:
    """Install a kit; exit code 2 if something is refused, 3 if pip fails."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python3 -m tools.cuda.install")
    parser.add_argument("--kit", type=Path, default=Path(".cuda-kit"), help="folder that make cuda-kit made")
    parser.add_argument("--target", type=Path, required=True, help="new or empty folder for the packages")
    options = parser.parse_args()
    return run(lambda: install(options.kit, options.target))


if __name__ == "__main__":
    sys.exit(main())
