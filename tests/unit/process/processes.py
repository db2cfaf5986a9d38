"""Bodies of child processes, and settings for them: importable, as the fork server needs them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import PartyId, RunId
from securefl.runtime.process.assemble import read_own_identity
from securefl.runtime.process.settings import ProcessSettings
from securefl.runtime.transport.base import BrokerUrl
from tests.simulation.world import scenario

Tell = Callable[[Any], None]


def settings(out: Path, name: str = "p00", **changes: Any) -> ProcessSettings:
    fields: dict[str, Any] = {
        "scenario": scenario(6),
        "run": RunId("r1"),
        "name": PartyId(name),
        "identity": out / f"{name}.key",
        "roster_file": out / "roster.toml",
        "broker": BrokerUrl("mqtt", "127.0.0.1", 1),
        "data_file": out / f"{name}.npz",
        "out": out,
    }
    return ProcessSettings(**{**fields, **changes})


def speaks(settings: ProcessSettings, tell: Tell) -> None:
    tell(f"{settings.name} speaks")
    tell("twice")


def waits(_settings: ProcessSettings, tell: Tell) -> None:
    tell(os.getpid())
    time.sleep(600)


def is_refused(_settings: ProcessSettings, _tell: Tell) -> None:
    raise ConfigError("data.set", "is missing", "make one")


def aborts(_settings: ProcessSettings, _tell: Tell) -> None:
    raise RunAbortedError("disk full")


def has_a_bug(_settings: ProcessSettings, _tell: Tell) -> None:
    raise ZeroDivisionError("oops")


def dies_in_mid_sentence(_settings: ProcessSettings, tell: Tell) -> None:
    # The length of a message of 100 bytes, three bytes of it, and death.
    pipe = tell.__self__  # type: ignore[attr-defined]
    os.write(pipe.fileno(), b"\x00\x00\x00\x64abc")
    os.kill(os.getpid(), signal.SIGKILL)


def outlives_its_parents(_settings: ProcessSettings, tell: Tell) -> None:
    """As on a system without prctl(2)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 0)
    waits(_settings, tell)


def says_what_it_heeds(_settings: ProcessSettings, tell: Tell) -> None:
    tell([signal.getsignal(n) is signal.SIG_IGN for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)])


def is_told_its_key(settings: ProcessSettings, tell: Tell) -> None:
    tell(read_own_identity(settings)[0].public)
