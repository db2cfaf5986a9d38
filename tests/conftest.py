"""Settings for all tests."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from securefl.scenario import parts
from tests.heavy import mark_heavy
from tests.smoke import mark_smoke
from tests.tiers import WHOLE

# Machines that run tests are shared and slow at times: a deadline would fail tests that are right.
settings.register_profile(
    "search", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=WHOLE
)
# Each run tests the same examples, so that a failure belongs to the change; `make search` draws fresh ones.
settings.register_profile("whole", settings.get_profile("search"), derandomize=True)
settings.register_profile("securefl", settings.get_profile("whole"), max_examples=WHOLE // 4)
settings.load_profile("securefl")


# Several test processes share the cores: threads of each that wait for work by spinning slow all down.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Tips of accounts go to a folder of the tests' own."""
    folder = tempfile.mkdtemp(prefix="securefl-state-")
    os.environ["SECUREFL_STATE"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark live tests of the fast tier, and cases of the slow one, before marks deselect any."""
    mark_smoke(items, whole=_all_files(config))
    mark_heavy(items, whole=_all_files(config))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Import a share of the test files first in each worker, so that not each worker compiles all of them.

    pytest compiles a test file, with its assertions rewritten, if no compiled one exists, as in a fresh
    checkout. An import that fails here fails again as the file is collected.
    """
    worker = getattr(collector.config, "workerinput", None)
    if worker is None or not isinstance(collector, pytest.Session) or not _all_files(collector.config):
        return
    root = collector.config.rootpath
    number, workers = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
    for path in sorted((root / "tests").rglob("test_*.py"))[number::workers]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))


def _all_files(config: pytest.Config) -> bool:
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hardly anything of what is imported and collected is garbage, so nobody looks for it meanwhile."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the garbage collector need not visit it again."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A test leaves no code that it imported from its own folders: another may have modules of that name."""
    path, folders = list(sys.path), list(parts._own_folders)
    yield
    if sys.path == path and parts._own_folders == folders:
        return
    sys.path[:] = path
    parts._own_folders[:] = folders
    base = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(base):
            del sys.modules[name]
