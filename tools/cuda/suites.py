"""Contract suites on a device, in pytest; the device comes in by ``SECUREFL_DEVICE``.

Each failed test is a line at once, with the last lines of its error; a line with the numbers of tests
follows at the end. With pytest-xdist the tests run in several processes: if a kernel fails, it spoils one
CUDA context, not all.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tools.cuda.environment import ROOT, cpus
from tools.cuda.runner import CODE_UNFINISHED
from tools.cuda.unit import Result, Task, add_arguments, reserved_output, task_of, write_line

if TYPE_CHECKING:
    import pytest

DEVICE_VARIABLE: Final = "SECUREFL_DEVICE"
_PROCESSES: Final = 4
"""Most test processes: each one on a GPU has a CUDA context."""
_HANG: Final = 100
"""Seconds after which pytest prints where a test is."""
_ERROR_LINES: Final = 8


class Suite(NamedTuple):
    """Tests that run in one pytest."""

    name: str
    title: str
    pattern: str
    """Files, below the checkout."""
    options: tuple[str, ...]
    estimate: float
    limit: float


SUITES: Final = (
    Suite("contracts", "device contracts", "tests/contracts/test_device_*.py", (), 20, 200),
    Suite("crypten", "CrypTen sums", "tests/contracts/test_secure_sum.py", ("-k", "crypten"), 15, 120),
)


class Recorder:
    """Plugin of pytest: passes on failed tests, and counts all."""

    def __init__(self, take: Callable[[Result], None]) -> None:
        self._take = take
        self._counts = Counter[str]()
        self._reasons = Counter[str]()
        self._began = time.monotonic()

    @property
    def ran(self) -> int:
        """The number of tests that passed or failed."""
        return self._counts["passed"] + self._counts["failed"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test when its call ends; errors of fixtures are failures of the test."""
        if report.failed:
            self._counts["failed"] += 1
            self._fail(report.nodeid, report.longreprtext)
        elif report.skipped:
            self._counts["skipped"] += 1
            self._reasons[_skip_reason(report)] += 1
        elif report.when == "call":
            self._counts["passed"] += 1

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a file that cannot be imported as a failed test."""
        if report.failed:
            self._counts["failed"] += 1
            self._fail(report.nodeid, report.longreprtext)

    def conclude(self, *, complete: bool) -> None:
        """Pass on the numbers of tests."""
        self._take(
            {
                "part": "tests",
                **{name: self._counts[name] for name in ("passed", "failed", "skipped")},
                "reasons": dict(self._reasons),
                "seconds": round(time.monotonic() - self._began, 1),
                "complete": complete,
            }
        )

    def _fail(self, test: str, error: str) -> None:
        lines = [line.rstrip().replace(str(ROOT), ".")[:300] for line in error.splitlines() if line.strip()]
        self._take({"kind": "test", "test": test, "outcome": "failed", "error": lines[-_ERROR_LINES:]})


def run_suite(
    suite: Suite,
    device: str,
    take: Callable[[Result], None],
    root: Path = ROOT,
    processes: int = _PROCESSES,
) -> int:
    """Run a suite; return the exit code of the unit: 0 if at least one test ran and none failed."""
    import pytest  # noqa: PLC0415 - the program that lists the suites works without pytest

    files = sorted(str(path) for path in root.glob(suite.pattern))
    if not files:
        sys.stderr.write(f"no file matches {suite.pattern}\n")
        return 2
    os.environ[DEVICE_VARIABLE] = device
    recorder = Recorder(take)
    options = ["-v", "--tb=short", "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={_HANG}"]
    # Cases that the fast tier leaves to `make slow`, too.
    options += ["-m", "not live"]
    processes = min(processes, cpus())
    if processes > 1 and importlib.util.find_spec("xdist") is not None:
        options += ["-n", str(processes), "--dist", "worksteal"]
    code = pytest.main([*options, *suite.options, *files], plugins=[recorder])
    recorder.conclude(complete=code != pytest.ExitCode.INTERRUPTED)
    if code == pytest.ExitCode.INTERRUPTED:
        return CODE_UNFINISHED
    return int(code)


def _skip_reason(report: pytest.TestReport) -> str:
    found: Any = report.longrepr
    reason = found[2] if isinstance(found, tuple) and len(found) == 3 else found
    return str(reason).removeprefix("Skipped: ")[:120]


def main(arguments: list[str] | None = None) -> int:
    """Run the suite that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=[suite.name for suite in SUITES])
    add_arguments(parser)
    given = parser.parse_args(arguments)
    task: Task = task_of(given)
    (suite,) = (suite for suite in SUITES if suite.name == given.suite)
    # pytest ends in order, with its numbers, when it is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with reserved_output() as file:
        return run_suite(suite, task.device, lambda line: write_line(file, line))


if __name__ == "__main__":
    sys.exit(main())
