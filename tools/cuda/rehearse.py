"""Rehearse the installation of a kit: ``python -m tools.cuda.rehearse``, or ``make cuda-rehearsal``.

In a stand-in for the target and without a network: install the kit, import securefl from its checkout, call
its commands, start the processes of a run, and run tests that need no torch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.cuda import offline
from tools.cuda.kit import KIT, ROOT
from tools.cuda.manifest import read_manifest
from tools.cuda.refusal import FailedError, progress, run
from tools.cuda.stand_in import STUB_MESSAGE, make_stand_in
from tools.cuda.target import PRESENT, read_versions

FOLDER = ROOT / ".cuda" / "rehearsal"
TESTS = (
    "tests/vectors/test_wire_vectors.py",
    "tests/vectors/test_crypto_vectors.py",
    "tests/vectors/test_defaults.py",
    "tests/contracts/test_rules.py",
    "tests/contracts/test_pre_aggregation.py",
    "tests/contracts/test_server_rules.py",
    "tests/unit/crypto",
    "tests/unit/encoding",
    "tests/unit/messages",
    "tests/unit/robust",
    "tests/unit/transport",
    "tests/unit/privacy/test_calibration.py",
)
"""Tests that need no torch and whose results do not depend on the version of Python."""
_TAIL = 12
"""Lines of output that are shown of a step that failed."""


@dataclass(frozen=True)
class Step:
    """A command of the rehearsal; it passes if its exit code is 0 and its output has the expected words."""

    title: str
    arguments: tuple[str, ...]
    """Of the interpreter."""
    expected: str = ""
    exit_code: int = 0


def steps(kit: Path, scratch: Path, folder: Path) -> list[Step]:
    """Return the steps after the stand-in was made."""
    program = ("-m", "securefl")
    plan = ("plan", "--parties", "20", "--byzantine", "0.1", "--out", str(folder / "plan"))
    return [
        Step("install", ("-m", "tools.cuda.install", "--kit", str(kit), "--target", str(scratch))),
        Step("import", ("-m", "tools.cuda.imports", STUB_MESSAGE), "0 failed"),
        Step("help", (*program, "--help"), "Usage:"),
        Step("help of a command", (*program, "plan", "--help"), "Usage:"),
        Step("plan", (*program, *plan)),
        # Each process imports securefl and packages of the kit before it fails at the stub of torch.
        Step(
            "processes of a run",
            (*program, "run", "quickstart", "--broker", "embedded", "--out", str(folder / "run")),
            f"p11: internal error (ImportError: {STUB_MESSAGE})",
            3,
        ),
        Step("tests", ("-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS), " passed"),
    ]


def environment(scratch: Path, home: Path) -> dict[str, str]:
    """Return the whole environment of the steps: no index, no proxy, an empty cache, no user packages."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PIP_CACHE_DIR": str(home / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{scratch}",
    }


def rehearse(kit: Path, present: Path, folder: Path) -> None:
    """Make the stand-in and take each step; print a summary.

    Raises:
        FailedError: a step failed.
    """
    manifest = read_manifest(kit)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    versions = read_versions(present)
    progress("making the stand-in for the target")
    python = make_stand_in(folder / "stand-in", versions, manifest.relied_on)
    print(f"stand-in: the {len(versions)} packages of {present.name}, torch a stub")
    if not (cut := offline.prefix(str(python))):
        print("note: the network is not cut, as this machine permits no namespaces; pip has no index")
    scratch = folder / "packages"
    failed = []
    with tempfile.TemporaryDirectory() as home:
        settings = environment(scratch, Path(home))
        for step in steps(kit.resolve(), scratch, folder):
            progress(f"{step.title} ...")
            began = time.monotonic()
            output = take(step, [*cut, str(python)], settings)
            seconds = time.monotonic() - began
            print(f"{'failed' if output else 'passed'}  {step.title} ({seconds:.0f} s)", flush=True)
            if output:
                failed.append(step.title)
                print("\n".join(f"    {line}" for line in output))
    if failed:
        raise FailedError(f"the rehearsal failed: {', '.join(failed)}", f"the stand-in is in {folder}")
    print("the rehearsal passed" + (", without a network" if cut else ""))


def take(step: Step, interpreter: Sequence[str], settings: dict[str, str]) -> list[str]:
    """Take a step; return the last lines of its output if it failed."""
    done = subprocess.run(
        [*interpreter, *step.arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=ROOT,
        env=settings,
    )
    for line in done.stdout.splitlines():
        if line.startswith("note: ") or "modules imported" in line or " passed in " in line:
            print(f"    {line.strip()}")
    if done.returncode == step.exit_code and step.expected in done.stdout:
        return []
    return [*done.stdout.splitlines()[-_TAIL:], f"exit code {done.returncode}"]


def main() -> int:
    """Rehearse; exit code 2 if something is refused, 3 if a step fails."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.cuda.rehearse")
    parser.add_argument("--kit", type=Path, default=KIT, help="folder that make cuda-kit made")
    parser.add_argument("--present", type=Path, default=PRESENT, help="packages of the target")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the stand-in, replaced")
    options = parser.parse_args()
    return run(lambda: rehearse(options.kit, options.present, options.folder))


if __name__ == "__main__":
    sys.exit(main())
