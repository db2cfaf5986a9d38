"""Recorded runs that several tests look at. They only read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.world import Op, scenario
from tests.unit.audit.runs import record


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six parties, two rounds, one sum for each cluster of three; p04 is silent in round 1. With lab."""
    out = tmp_path_factory.mktemp("audit") / "plain"
    silent = Op("drop", "p04", "MaskedInput", 1)
    record(out, scenario(6, rounds="2", deadlines__training="9"), ops=(silent,), lab=True)
    return out


@pytest.fixture(scope="session")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine parties in clusters of three, seven reclusterings of one update: all are exposed. With lab."""
    out = tmp_path_factory.mktemp("audit") / "leaky"
    made = scenario(9, reclusterings="7", leakage__mode='"report"')
    record(out, made, length=32, lab=True)
    return out
