"""Pytest plugin: name the tests that need an absent package, and count every outcome.

``tools/versions.py`` runs the tests with it in environments without torch. A module or test that fails
because a package of ``--absent`` cannot be imported is reported as skipped, with the reason "needs torch".
Any other failure stays a failure, an import of any other package included. ``--outcomes FILE`` writes the
outcomes as JSON.

A package counts only if it is not installed: a broken installation fails. A module is left out only if the
chain of its exceptions contains that ``ModuleNotFoundError``. A test that fails is left out also if it
searched for the package in vain, or if a process that it started ended with that line, since commands turn
the exception into a line and an exit code. Any other defect of such a test stays hidden on these versions.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType

import pytest

NAME = "securefl-left-out"
PROCESS_LINE = re.compile(r"ModuleNotFoundError: No module named \\?'(\w+)(?:\.[\w.]+)?\\?'")
"""Last line of a process that ended for want of a package; quotes are escaped in the text of some reports."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    group = parser.getgroup("securefl")
    group.addoption("--absent", default="", help="packages, separated by commas, whose tests are left out")
    group.addoption("--outcomes", default=None, help="file for the outcomes, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin's state."""
    names = frozenset(filter(None, config.getoption("--absent").split(",")))
    # The workers of xdist load the plugin too; the process that starts them writes the file.
    outcomes = None if hasattr(config, "workerinput") else config.getoption("--outcomes")
    searches = Searches(names)
    sys.meta_path.append(searches)
    config.add_cleanup(lambda: sys.meta_path.remove(searches))
    state = LeftOut(searches, config.rootpath, Path(outcomes) if outcomes else None)
    config.pluginmanager.register(state, NAME)


def missing_package(error: BaseException, names: frozenset[str]) -> str | None:
    """Return the first of ``names`` whose absence is in the chain of ``error``; None if there is none."""
    for link in chain(error):
        root = (link.name or "").partition(".")[0] if isinstance(link, ModuleNotFoundError) else ""
        if root in names and is_absent(root):
            return root
    return None


def missing_in_process(text: str, names: frozenset[str]) -> str | None:
    """Return the first of ``names`` that a traceback in ``text`` ends with; None if there is none."""
    roots = (match.group(1) for match in PROCESS_LINE.finditer(text))
    return next((root for root in roots if root in names and is_absent(root)), None)


def is_absent(package: str) -> bool:
    """Return True if the package is not installed."""
    return importlib.util.find_spec(package) is None


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, then its causes and contexts, each once; members of groups too."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [link.__context__, link.__cause__]
        if isinstance(link, BaseExceptionGroup):
            waiting += link.exceptions


class Searches(MetaPathFinder):
    """Last finder of all: it is asked for packages that no other finder has, and finds none itself."""

    def __init__(self, names: frozenset[str]) -> None:
        """Record searches for one of ``names``."""
        self.names = names
        self.in_vain: list[str] = []

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> None:
        """Record the name if it is a package among the names."""
        self._record(fullname)

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterator[Distribution]:
        """Record the name of a distribution likewise."""
        self._record(getattr(context, "name", None))
        return iter(())

    def _record(self, name: str | None) -> None:
        if name in self.names:
            self.in_vain.append(str(name))


class LeftOut:
    """Skips with a name, and the outcomes of a session."""

    def __init__(self, searches: Searches, root: Path, outcomes: Path | None) -> None:
        """Leave out tests under ``root`` that need a package of ``searches``; write ``outcomes`` if given."""
        self.root = root
        self.searches = searches
        self.names = searches.names
        self.outcomes = outcomes
        self.of_fixtures: dict[int, tuple[BaseException, str | None]] = {}
        """Errors of fixtures and the package that each needs; kept, so that no other object has the id."""
        self.passed: set[str] = set()
        self.failed: set[str] = set()
        self.left_out: dict[str, str] = {}
        self.skipped: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn a module that cannot import an absent package into a named skip."""
        report = yield
        call: pytest.CallInfo[object] | None = getattr(report, "call", None)
        if report.outcome == "failed" and call is not None and call.excinfo is not None:
            package = missing_package(call.excinfo.value, self.names)
            if package:
                report.outcome = "skipped"
                report.longrepr = (str(collector.path), 0, f"needs {package}")
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Forget the searches of the test before."""
        self.searches.in_vain.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn a test that fails for want of an absent package into a named skip."""
        report = yield
        if report.failed and call.excinfo is not None:
            searched = next(iter(self.searches.in_vain), None)
            package = missing_package(call.excinfo.value, self.names) or searched
            texts = (report.longreprtext, report.capstdout, report.capstderr)
            package = package or missing_in_process("\n".join(texts), self.names)
            # The error of a shared fixture is raised again in each of its tests, without what it printed.
            error, package = self.of_fixtures.get(id(call.excinfo.value), (call.excinfo.value, package))
            if package and call.when == "setup":
                self.of_fixtures[id(error)] = error, package
            if package:
                report.outcome = "skipped"
                report.longrepr = (str(item.path), (item.location[1] or 0) + 1, f"needs {package}")
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Count a module that was not collected."""
        if not report.passed:
            self._count(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test: failed if one of its stages failed, passed if it ran and none did."""
        if report.when == "call" or not report.passed:
            self._count(report)

    def _count(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.passed:
            self.passed.add(report.nodeid)
        elif reason.removeprefix("needs ") in self.names:
            self.left_out |= dict.fromkeys(self._modules(report.nodeid), reason)
        else:
            self.skipped[report.nodeid] = reason.removeprefix("Skipped: ")

    def _modules(self, nodeid: str) -> list[str]:
        """Return the test modules of a folder that is left out as a whole; otherwise the name itself."""
        modules = (self.root / nodeid).rglob("test_*.py") if "::" not in nodeid else ()
        return sorted(path.relative_to(self.root).as_posix() for path in modules) or [nodeid]

    def pytest_sessionfinish(self) -> None:
        """Write the outcomes."""
        if self.outcomes is None:
            return
        failed = self.failed
        found = {
            "passed": sorted(self.passed - failed - self.left_out.keys()),
            "failed": sorted(failed),
            "left_out": {test: why for test, why in sorted(self.left_out.items()) if test not in failed},
            "skipped": {test: why for test, why in sorted(self.skipped.items()) if test not in failed},
        }
        self.outcomes.write_text(json.dumps(found, indent=1))
