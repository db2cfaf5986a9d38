"""Settings for all tests."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.smoke import mark_smoke

# Machines that run tests are shared and slow at times: a deadline would fail tests that are right.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# By default each run tests the same examples, so that a failure belongs to the change; `make search` draws
# fresh ones.
settings.register_profile("securefl", settings.get_profile("search"), derandomize=True)
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
    """Mark live tests of the fast tier before any are deselected by their marks."""
    mark_smoke(items, whole=config.args_source is pytest.Config.ArgsSource.TESTPATHS)


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
    gc.collect()
    gc.freeze()
