"""Settings for all tests."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

# Machines that run tests are shared and slow at times: a deadline would fail tests that are right.
settings.register_profile("securefl", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("securefl")


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the garbage collector need not visit it again."""
    gc.collect()
    gc.freeze()
