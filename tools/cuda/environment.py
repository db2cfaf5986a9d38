"""The machine, the versions and the sources that results belong to. Imports torch only as a program."""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tools.cuda.unit import Result, Task, add_arguments, run_unit, task_of

ROOT: Final = Path(__file__).parents[2]
_PACKAGES: Final = ("torch", "numpy", "scipy", "cryptography", "crypten", "amqtt")
_SMI_SECONDS: Final = 10
"""Time limit of a call of nvidia-smi, which can hang with its driver."""
_SOURCES: Final = ("securefl", "tools/cuda/measures", "tools/cuda/workloads", "tests/contracts", "scenarios")
_SUFFIXES: Final = (".py", ".toml")


def query_gpu(what: str, fields: str) -> list[list[str]]:
    """Return the rows of ``nvidia-smi --query-<what>=<fields>``; none if it is missing or fails."""
    command = ["nvidia-smi", f"--query-{what}={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in rows if len(row) == fields.count(",") + 1]


def mebibytes(cell: str) -> float | None:
    """Return a number of MiB that nvidia-smi prints; None for ``[N/A]`` and the like."""
    try:
        return float(cell)
    except ValueError:
        return None


def cpus() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def machine() -> str:
    """Return the name of the machine in results: its GPU, if it has one, and its processors."""
    gpus = query_gpu("gpu", "name")
    gpu = gpus[0][0] if gpus else "no GPU"
    return f"{gpu}, {cpus()} processors"


def commit(root: Path = ROOT) -> str:
    """Return the commit of the checkout, with ``+`` if files differ from it; empty without git."""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD").strip()
        changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *_SOURCES)
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if changed.strip() else "")


def code_digest(root: Path = ROOT) -> str:
    """Return a digest of the sources that results depend on: 16 hex digits."""
    digest = hashlib.sha256()
    for path in _source_files(root):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def describe(device: str) -> dict[str, Any]:
    """Return the environment: GPU, driver and memory, versions, processors.

    Raises:
        SystemExit: the device is ``cuda``, and torch finds none.
    """
    import torch  # noqa: PLC0415 - the program that starts this one works without torch

    found: dict[str, Any] = {
        "kind": "environment",
        "processor": _processor(),
        "processors": cpus(),
        "python": platform.python_version(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
        "built_for_cuda": torch.version.cuda,
    }
    rows = query_gpu("gpu", "name,driver_version,memory.total")
    if rows:
        name, driver, memory = rows[0]
        found |= {"gpu": name, "driver": driver, "gpu_mib": mebibytes(memory)}
    if device == "cuda":
        if not torch.cuda.is_available():
            reason = (
                "this build has no CUDA support" if torch.version.cuda is None else "no driver or no device"
            )
            sys.exit(f"torch finds no CUDA device: {reason}. Use --device cpu.")
        found["gpu"] = torch.cuda.get_device_name(0)
        found["capability"] = ".".join(map(str, torch.cuda.get_device_capability(0)))
        # The first kernel shows whether driver and build fit each other.
        torch.ones(8, device="cuda").sum().item()
    return found


def _source_files(root: Path) -> Iterator[Path]:
    for folder in _SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file():
                yield path


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, timeout=20, check=True
    ).stdout


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _main(task: Task) -> Iterator[Result]:
    yield describe(task.device)


if __name__ == "__main__":
    PARSER = argparse.ArgumentParser(description=__doc__)
    add_arguments(PARSER)
    sys.exit(run_unit(_main, task_of(PARSER.parse_args())))
