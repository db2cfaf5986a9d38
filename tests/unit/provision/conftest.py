"""Machines with answers, made once: tests copy them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.provision.machines import MACHINES, Machines, copied, signed


def _state(folder: Path) -> Path:
    """The state folder of all machines of a folder, beside it."""
    return folder.with_name(f"{folder.name}.state")


def _copied(made: Machines, folder: Path, patch: pytest.MonkeyPatch) -> Machines:
    shutil.copytree(_state(made.folder), _state(folder), dirs_exist_ok=True)
    patch.setenv("SECUREFL_STATE", str(_state(folder)))
    return copied(made, folder)


@pytest.fixture(scope="session")
def _signed(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    folder = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECUREFL_STATE", str(_state(folder)))
        return signed(folder)


@pytest.fixture(scope="session")
def _accepted(_signed: Machines, tmp_path_factory: pytest.TempPathFactory) -> Machines:
    with pytest.MonkeyPatch.context() as patch:
        made = _copied(_signed, tmp_path_factory.mktemp("accepted"), patch)
        made.accept(*MACHINES)
        return made


@pytest.fixture
def machines(_signed: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """All machines have keys, and the operator has written their answers."""
    return _copied(_signed, tmp_path, monkeypatch)


@pytest.fixture
def kits(_accepted: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    """All machines have accepted their answers."""
    return _copied(_accepted, tmp_path, monkeypatch)
