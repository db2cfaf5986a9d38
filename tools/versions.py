"""Run the tests that need no torch on other versions of Python.

``make versions`` makes a virtual environment for each version, ``.venv-3.12`` and ``.venv-3.13``, with the
versions of ``constraints.txt``, and runs vectors, contracts, simulations and unit tests in it. The torch of
the constraints is for Python 3.11, so the environments have no package of ``ABSENT``. Tests that need one are
left out by name (``tools/left_out.py``).

A version without an interpreter is named and left out. The exit code is 1 if a test fails, if an
environment cannot be made, or if no interpreter is found.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.12", "3.13")
EXTRAS = "embedded-broker,dp,tables,plots,dev"
"""None of them requires a package of ``ABSENT``."""
ABSENT = ("torch", "sklearn", "crypten")
TESTS = (
    "tests/vectors",
    "tests/contracts",
    "tests/simulation",
    "tests/unit",
    "tests/fuzz",
    "tests/statistics",
)
SOURCES = ("pyproject.toml", "constraints.txt")
"""Files that an environment is made from."""
HEADINGS = ("Python", "passed", "failed", "left out", "skipped")


class UnusableEnvironmentError(Exception):
    """An environment could not be made, or is not what the tests expect."""


@dataclass(frozen=True)
class Outcomes:
    """Outcomes of the tests on one version."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Reasons by module or test that needs an absent package."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Reasons by test that skips itself."""

    @classmethod
    def read(cls, path: Path) -> Outcomes:
        """Read the file that the plugin has written."""
        found = json.loads(path.read_text())
        return cls(tuple(found["passed"]), tuple(found["failed"]), found["left_out"], found["skipped"])

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that could not be imported."""
        return tuple(test for test in self.left_out if "::" not in test)


@dataclass(frozen=True)
class Result:
    """Row of the table; ``problem`` is empty if the tests ran to their end."""

    version: str
    outcomes: Outcomes = Outcomes()
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """True if tests passed and none failed."""
        return not self.problem and not self.outcomes.failed and bool(self.outcomes.passed)


def interpreter(version: str, environ: Mapping[str, str]) -> Path | None:
    """Return an interpreter of the version: on PATH first, then one that pyenv has installed.

    A file of the right name is not enough. A shim of pyenv runs only if its version is selected, so each
    candidate has to report the version.
    """
    name = f"python{version}"
    folders = [Path(entry) for entry in environ.get("PATH", "").split(os.pathsep) if entry]
    pyenv = Path(environ.get("PYENV_ROOT") or Path(environ.get("HOME", "/nonexistent")) / ".pyenv")
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin"), key=_numbers, reverse=True)
    for folder in (*folders, *installed):
        candidate = folder / name
        if candidate.is_file() and os.access(candidate, os.X_OK) and reported_version(candidate) == version:
            return candidate
    return None


def _numbers(path: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", path.parent.name)]


def reported_version(python: Path) -> str | None:
    """Return the version that the interpreter reports, such as 3.12; None if it does not start."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def is_current(stamp: Path, sources: Iterable[Path]) -> bool:
    """Return True if the environment was completed after its sources last changed."""
    return stamp.exists() and all(stamp.stat().st_mtime >= source.stat().st_mtime for source in sources)


def environment(version: str, python: Path, root: Path = ROOT) -> Path:
    """Return the interpreter of the version's environment; make or update the environment if needed.

    Raises:
        UnusableEnvironmentError: a command failed, or a package of ``ABSENT`` was installed.
    """
    folder = root / f".venv-{version}"
    own, stamp = folder / "bin" / "python", folder / ".installed"
    if not is_current(stamp, [root / source for source in SOURCES]):
        pip = (own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _do(python, "-m", "venv", "--clear", folder)
        _do(*pip, "-c", root / "constraints.txt", "-e", f"{root}[{EXTRAS}]")
        stamp.touch()
    unwanted = installed_among(own, ABSENT)
    if unwanted:
        raise UnusableEnvironmentError(
            f"{folder.name} has {', '.join(unwanted)}; remove the folder, or its extra"
        )
    return own


def _do(*command: str | Path) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        raise UnusableEnvironmentError(f"exit code {done.returncode}: {' '.join(map(str, command))}")


def installed_among(python: Path, packages: Sequence[str]) -> tuple[str, ...]:
    """Return the packages that the interpreter would import.

    Raises:
        UnusableEnvironmentError: the interpreter does not start.
    """
    code = "import importlib.util, sys; print(*filter(importlib.util.find_spec, sys.argv[1:]))"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnusableEnvironmentError(f"{python} does not start: {done.stderr.strip()}")
    return tuple(done.stdout.split())


def run_tests(version: str, python: Path, workers: str, arguments: Sequence[str]) -> Result:
    """Run the tests, or those that ``arguments`` name, and return their outcomes."""
    with tempfile.TemporaryDirectory(prefix="versions-") as folder:
        outcomes = Path(folder) / "outcomes.json"
        command: list[str | Path] = [
            *(python, "-m", "pytest", "-p", "tools.left_out", "-p", "no:cacheprovider", "-q", "--tb=short"),
            *("-n", workers, "--dist", "worksteal", "--continue-on-collection-errors"),
            *(f"--absent={','.join(ABSENT)}", f"--outcomes={outcomes}"),
            *(arguments if names_tests(arguments) else (*TESTS, *arguments)),
        ]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if not outcomes.exists():
            return Result(version, problem=f"pytest ended with exit code {done.returncode}")
        result = Result(version, Outcomes.read(outcomes))
    if done.returncode not in (0, 1) or (done.returncode == 1 and not result.outcomes.failed):
        return Result(version, result.outcomes, f"pytest ended with exit code {done.returncode}")
    return result


def names_tests(arguments: Iterable[str], root: Path = ROOT) -> bool:
    """Return True if one of the arguments of pytest is a path."""
    return any(not one.startswith("-") and (root / one.partition("::")[0]).exists() for one in arguments)


def left_out_lines(left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each module that is left out, and for each module of which tests are."""
    tests: dict[tuple[str, str], Counter[str]] = {}
    for name, reason in sorted(left_out.items()):
        module, _, test = name.partition("::")
        found = tests.setdefault((module, reason), Counter())
        if test:
            found[test.partition("[")[0]] += 1
    for (module, reason), found in tests.items():
        cases = (test if count == 1 else f"{test} ({count} cases)" for test, count in found.items())
        yield f"  {module}: {reason}" + (f": {', '.join(cases)}" if found else "")


def table(results: Sequence[Result]) -> str:
    """Return the table of the results."""
    rows = [HEADINGS, *map(_row, results)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEADINGS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _row(result: Result) -> tuple[str, ...]:
    found = result.outcomes
    modules = len(found.modules)
    left_out = f"{modules} modules, {len(found.left_out) - modules} tests"
    failed = f"{len(found.failed)} ({result.problem})" if result.problem else str(len(found.failed))
    return result.version, str(len(found.passed)), failed, left_out, str(len(found.skipped))


def report(results: Sequence[Result]) -> Iterator[str]:
    """Yield the names of what is left out and of what failed, then the table."""
    for result in results:
        if result.outcomes.left_out:
            yield f"\nPython {result.version}, left out:"
            yield from left_out_lines(result.outcomes.left_out)
    for result in results:
        if result.outcomes.failed:
            yield f"\nPython {result.version}, failed:"
            yield from (f"  {test}" for test in result.outcomes.failed)
    yield f"\n{table(results)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests on each version that is installed; return the exit code."""
    parser = argparse.ArgumentParser(description="Run the tests on other versions of Python.")
    parser.add_argument("--only", choices=VERSIONS, help="one version")
    parser.add_argument("--workers", default="auto", help="test processes")
    options, others = parser.parse_known_args(arguments)
    results: list[Result] = []
    for version in (options.only,) if options.only else VERSIONS:
        python = interpreter(version, os.environ)
        if python is None:
            print(f"Python {version} is not installed: not tested", flush=True)
            continue
        print(f"Python {version}: {python}", flush=True)
        try:
            results.append(run_tests(version, environment(version, python), options.workers, others))
        except UnusableEnvironmentError as failure:
            results.append(Result(version, problem=str(failure)))
    if not results:
        print("no interpreter found: install one of", ", ".join(f"python{one}" for one in VERSIONS))
        return 1
    print("\n".join(report(results)))
    return 0 if all(result.is_good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
