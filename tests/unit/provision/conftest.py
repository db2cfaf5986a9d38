"""Machines with answers, made once: tests copy them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.provision.machines import MACHINES, Machines, copied, signed


@pytest.fixture(scope="session")
def _signed(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return signed(tmp_path_factory.mktemp("signed"))


@pytest.fixture(scope="session")
def _accepted(_signed: Machines, tmp_path_factory: pytest.TempPathFactory) -> Machines:
    made = copied(_signed, tmp_path_factory.mktemp("accepted"))
    made.accept(*MACHINES)
    return made


@pytest.fixture
def machines(_signed: Machines, tmp_path: Path) -> Machines:
    """All machines have keys, and the operator has written their answers."""
    return copied(_signed, tmp_path)


@pytest.fixture
def kits(_accepted: Machines, tmp_path: Path) -> Machines:
    """All machines have accepted their answers."""
    return copied(_accepted, tmp_path)
