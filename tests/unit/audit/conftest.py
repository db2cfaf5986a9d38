"""Recorded runs that several tests look at. They only read them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from securefl.base.crypto.identity import PublicIdentity
from securefl.base.ids import SERVER
from tests.simulation.world import Op, scenario
from tests.unit.audit.runs import record

_verify = PublicIdentity.verify


@lru_cache(maxsize=100_000)
def _holds(key: bytes, message: bytes, signature: bytes) -> bool:
    return _verify(PublicIdentity(SERVER, key, key), message, signature)


def _remembered(self: PublicIdentity, message: bytes, signature: bytes) -> bool:
    return _holds(self.verify_key, message, signature)


@pytest.fixture(scope="module", autouse=True)
def verified_once() -> Iterator[None]:
    """Verify each signature of the recorded runs once in a process: many tests read the same runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublicIdentity, "verify", _remembered)
        yield


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
