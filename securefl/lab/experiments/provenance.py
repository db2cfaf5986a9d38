"""Provenance of a result: program and draws of clusters."""

import functools
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from securefl.base.errors import ConfigError
from securefl.base.version import __version__, package_folder
from securefl.scenario import Scenario, drawn_digest

_ROOT = package_folder().parent
_PROGRAM = ("securefl", "parties", "scenarios")


def versions() -> dict[str, str]:
    """Return the versions of the program and its libraries, and processor and number of cores."""
    return {
        "securefl": __version__,
        "python": platform.python_version(),
        "torch": version("torch"),
        "numpy": version("numpy"),
        "processor": f"{_processor()} x {os.cpu_count()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


@functools.cache
def commit() -> str:
    """Return the running commit, 12 hex digits, with ``+`` for changes; empty outside a checkout."""
    git = shutil.which("git")
    # An installed package may lie in another project's checkout.
    if git is None or not (_ROOT / "pyproject.toml").exists():
        return ""

    def ask(*words: str) -> str | None:
        call = [git, "-C", str(_ROOT), *words]
        done = subprocess.run(call, capture_output=True, text=True, check=False)  # noqa: S603 - git, and words of ours
        return done.stdout.strip() if done.returncode == 0 else None

    head = ask("rev-parse", "--short=12", "HEAD")
    if not head:
        return ""
    return head + ("+" if ask("status", "--porcelain", "--", *_PROGRAM) else "")


def draws_of(scenario: Scenario) -> str:
    """Return the digest (32 hex digits) under which a scenario's clusters are drawn."""
    return drawn_digest(scenario).hex()[:32]


def refuse_mixed(label: str, draws: Mapping[int, str]) -> None:
    """Refuse to average over seeds whose clusters were drawn under different digests.

    ``draws`` has them by seed; early results have an empty one.

    Raises:
        ConfigError: there are several.
    """
    if len(set(draws.values())) > 1:
        by_digest: dict[str, list[str]] = {}
        for seed, digest in sorted(draws.items()):
            by_digest.setdefault(digest[:8] or "an earlier program", []).append(str(seed))
        drawn = " and ".join(f"seed {', '.join(seeds)} under {name}" for name, seeds in by_digest.items())
        raise ConfigError(
            f"curve {label!r}",
            f"its seeds cannot be averaged: versions of securefl drew their clusters differently ({drawn})",
            "--fresh repeats all of them",
        )
