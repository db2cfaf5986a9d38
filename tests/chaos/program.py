"""Programs of a federation: ``securefl`` as a process of its own, from a fork server that has imported it.

They are what a shell would start, with the same arguments, but for what would make a run take minutes:
training takes as long as the harness says, a connection that says nothing is given up sooner, and a server
listens shorter for others. What they say goes into a pipe, as under a service manager: a full disk does not
gag them.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import struct
import sys
import tempfile
import time
from datetime import datetime, timedelta
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple, Self

import tests.live.slow
from securefl.runtime.process import parent_death
from securefl.runtime.process.children import PRELOAD
from securefl.runtime.transport.base import MqttLimits

KEEP_ALIVE = 4
"""Seconds; 30 in earnest. Whoever hears nothing takes up to twice as long to notice, a broker 1.5 times."""
LISTENING = 1.0
"""Seconds; 6 in earnest."""
_CLOCK = struct.Struct("d")


class Settings(NamedTuple):
    """What a program is started with, besides its arguments."""

    folder: Path
    """Its working directory; its account's tip and temporary files are in there, too."""
    said: Path
    """A pipe with a name, for what it says."""
    clock: Path
    """By how many seconds the wall clock is ahead."""
    training: float
    """Seconds that training takes longer."""


def start(name: str, arguments: tuple[str, ...], settings: Settings) -> ForkServerProcess:
    """Start ``securefl`` with these arguments."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [parent_death.__name__, *PRELOAD, "securefl.cli.app", tests.live.slow.__name__]
    )
    process = context.Process(target=_program, args=(arguments, settings), name=name, daemon=True)
    with parent_death.as_launcher():
        process.start()
    return process


def set_clock(clock: Path, ahead: float) -> None:
    """Put the wall clock of the programs with this file ahead by so many seconds."""
    with clock.open("r+b") as file:
        file.write(_CLOCK.pack(ahead))


def _program(arguments: tuple[str, ...], settings: Settings) -> None:
    parent_death.die_with(os.getppid())
    parent_death.heed_signals()
    pipe = os.open(settings.said, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(pipe, stream)
    os.close(pipe)
    os.chdir(settings.folder)
    os.environ["SECUREFL_STATE"] = str(settings.folder / "state")
    os.environ["TMPDIR"] = str(settings.folder / "tmp")
    os.environ["COLUMNS"] = "200"
    tempfile.tempdir = None
    sys.argv = ["securefl", *arguments]
    _hurry()
    _Clock.begin(settings.clock)
    if settings.training:
        tests.live.slow.slow_down(settings.training)
    from securefl.cli.app import main  # noqa: PLC0415 - in the process that it is for

    main()


def _hurry() -> None:
    from securefl.runtime.transport import leader_lock  # noqa: PLC0415 - in the process that it is for

    vars(leader_lock)["LISTEN_SECONDS"] = LISTENING
    fields = list(MqttLimits.__dataclass_fields__)
    values = list(MqttLimits.__init__.__defaults__ or ())
    values[fields.index("keep_alive")] = KEEP_ALIVE
    MqttLimits.__init__.__defaults__ = tuple(values)


class _Clock(datetime):
    """A wall clock that others move.

    Deadlines, keep-alives and time limits go by the monotonic clock, which nobody can set; nor can one
    process be given another wall clock but like this: in every place that looks at it.
    """

    page: mmap.mmap

    @classmethod
    def begin(cls, clock: Path) -> None:
        from securefl.runtime.report import witness  # noqa: PLC0415 - in the process that it is for

        with clock.open("rb") as file:
            cls.page = mmap.mmap(file.fileno(), _CLOCK.size, prot=mmap.PROT_READ)
        wall, wall_ns = time.time, time.time_ns
        changed: dict[str, Any] = vars(time)
        changed["time"] = lambda: wall() + cls.ahead()
        changed["time_ns"] = lambda: wall_ns() + int(cls.ahead() * 1e9)
        vars(witness)["datetime"] = cls

    @classmethod
    def ahead(cls) -> float:
        (seconds,) = _CLOCK.unpack(cls.page[:])
        return float(seconds)

    @classmethod
    def now(cls, tz: Any = None) -> Self:
        return super().now(tz) + timedelta(seconds=cls.ahead())
