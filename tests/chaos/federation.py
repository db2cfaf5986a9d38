"""A federation of a chaos run: broker, server, dealer and parties as processes, each in a folder of its own.

Each has its own key, account, data, ``--out`` and link to the broker, as on a machine of its own; all write
ground truth (``--lab``). Nothing here judges: what was started, how it ended and what passed the links is
kept for :mod:`tests.chaos.checks`.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

import numpy as np
import psutil

from securefl.runtime.transport.broker import RunningBroker, start_embedded, start_mosquitto
from tests.chaos.faults import BROKER, DEALER, SERVER
from tests.chaos.links import Links, Watcher
from tests.chaos.program import Settings, set_clock, start
from tests.chaos.setups import Setup
from tests.unit.cli.programs import call

RUN: Final = "chaos"
SAMPLES: Final = 40
_FREE = resource.RLIM_INFINITY
_MEANWHILE = 0.02


@dataclass(eq=False)
class Started:
    """One start of a process."""

    name: str
    process: ForkServerProcess
    said: _Said
    at: float
    """On the monotonic clock, as all times here."""
    may_end: set[int] = field(default_factory=lambda: {0})
    """Exit codes that are right for what was done to it; a signal's is negative."""
    why: list[str] = field(default_factory=list)
    """What was done to it."""
    ended: float = 0.0
    out: Path = Path()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        code = self.process.exitcode
        if code is not None and not self.ended:
            self.ended = time.monotonic()
        return code

    @property
    def words(self) -> str:
        """What it has said, once it has ended all of it."""
        return self.said.text()


class _Said:
    """The pipe that a process talks into, read to the end by a thread."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Without this end for writing, reading would end before the process has opened its own.
        self._ours = os.open(path, os.O_RDWR)
        self._text = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while data := os.read(self._ours, 65_536):
            if data.endswith(b"\0"):
                self._text += data[:-1]
                return
            self._text += data

    def text(self) -> str:
        return self._text.decode(errors="replace")

    def close(self) -> None:
        """Once the process has ended."""
        os.write(self._ours, b"\0")
        self._thread.join()
        os.close(self._ours)


@dataclass(eq=False)
class Federation:
    """Made by :func:`federation`."""

    folder: Path
    setup: Setup
    links: Links
    broker: RunningBroker
    started: list[Started] = field(default_factory=list)
    copies: int = 0

    def home(self, name: str) -> Path:
        """The folder of a process."""
        return self.folder / name

    def start(self, name: str, home: Path | None = None) -> Started:
        """``securefl server``, ``party`` or ``dealer``, as each time; from a copy of its folder if given."""
        home = home or self.home(name)
        kind = [name] if name in {SERVER, DEALER} else ["party", "--name", name]
        arguments = [
            *(*kind, str(self.folder / "scenario.toml"), "--key", str(home / f"{name}.key")),
            *("--roster", str(self.folder / "roster.toml"), "--broker", self._urls[name]),
            *("--run", RUN, "--out", str(home / "out")),
        ]
        if name != DEALER:
            arguments += ["--data", str(home / "data.npz"), "--lab"]
        said = _Said(self.folder / f"said-{len(self.started):03d}-{name}")
        training = self.setup.training if name not in {SERVER, DEALER} else 0.0
        settings = Settings(home, said.path, self.folder / f"{name}.clock", training)
        one = Started(name, start(name, tuple(arguments), settings), said, time.monotonic(), out=home / "out")
        self.started.append(one)
        return one

    def running(self, name: str) -> Started | None:
        """The process of this name that runs: the first one, of two."""
        return next((one for one in self.started if one.name == name and one.exit_code is None), None)

    def signal(self, name: str, number: int) -> Started | None:
        """Send a signal to the process of this name; None if none runs."""
        one = self.running(name)
        if one is not None:
            os.kill(one.pid, number)
        return one

    def fill_disk(self, one: Started) -> None:
        """From now on none of its files can grow, new ones included."""
        resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (0, _FREE))

    def free_disk(self, one: Started) -> None:
        """There is room again."""
        if one.exit_code is None:
            resource.prlimit(one.pid, resource.RLIMIT_FSIZE, (_FREE, _FREE))

    def set_clock(self, name: str, ahead: float) -> None:
        """Put the wall clock of this process's machine ahead."""
        set_clock(self.folder / f"{name}.clock", ahead)

    def copy(self, name: str) -> Path:
        """A copy of a process's folder, as a backup has it."""
        self.copies += 1
        copy = self.folder / "copies" / f"{self.copies}-{name}"
        shutil.copytree(self.home(name), copy, ignore=shutil.ignore_patterns("*.lock", "tmp"))
        (copy / "tmp").mkdir()
        # One machine knows one tip of an account.
        shutil.rmtree(copy / "state", ignore_errors=True)
        (copy / "state").symlink_to(self.home(name) / "state")
        return copy

    def stop_broker(self, *, kill: bool) -> None:
        """End the broker; connections are refused from then on."""
        if kill and self.broker.running:
            os.kill(self.broker.pid, signal.SIGKILL)
        self.broker.stop()
        self.links.broker_is(there=False)

    def start_broker(self) -> None:
        """A broker at the same port, which knows what a setup lets it keep."""
        self.broker = _start_broker(self.setup, self.folder, self.broker.url.port)
        self.links.broker_is(there=True)

    def stall_broker(self, number: int) -> None:
        """SIGSTOP or SIGCONT."""
        if self.broker.running:
            os.kill(self.broker.pid, number)

    def end(self) -> tuple[list[Started], list[str]]:
        """Kill what still runs: our processes, and whoever else works in a folder of this federation."""
        hanging = [one for one in self.started if one.exit_code is None]
        for one in hanging:
            one.process.kill()
        for one in self.started:
            one.process.join()
            _ = one.exit_code
            one.said.close()
        orphans = list(self._orphans())
        return hanging, orphans

    def _abandon(self) -> None:
        for one in self.started:
            if one.exit_code is None:
                one.process.kill()
        self.broker.stop()

    def _orphans(self) -> Iterator[str]:
        own = {one.pid for one in self.started}
        for process in psutil.process_iter():
            try:
                ours = process.pid in own or process.status() == psutil.STATUS_ZOMBIE
                if not ours and Path(process.cwd()).is_relative_to(self.folder):
                    yield f"{process.pid} {' '.join(process.cmdline())}"
                    process.kill()
            except psutil.Error:
                continue

    def _begin(self, watch: Watcher) -> None:
        self._urls = {}
        for name in self.setup.field.processes:
            home = self.home(name)
            (home / "tmp").mkdir(parents=True)
            (home / "state").mkdir()
            self._urls[name] = self.links.open(name, self.broker.url, watch)
            (self.folder / f"{name}.clock").write_bytes(bytes(8))
        self._keys()
        self._data()
        self.setup.write(self.folder / "scenario.toml")

    def _keys(self) -> None:
        names = self.setup.field.processes
        for name in names:
            assert call("keygen", "--party", name, "--out", self.home(name)).exit_code == 0
        rosters = [word for name in names for word in ("--roster", self.home(name) / f"{name}.pub")]
        made = call("keygen", *rosters, "--out", self.folder)
        assert made.exit_code == 0, made.output

    def _data(self) -> None:
        centres = np.random.default_rng(0).normal(size=(10, 1, 8, 8))
        for number, name in enumerate((SERVER, *self.setup.field.parties), start=1):
            rng, y = np.random.default_rng(number), np.arange(SAMPLES) % 10
            x = centres[y] + rng.normal(size=(SAMPLES, 1, 8, 8))
            np.savez(self.home(name) / "data.npz", x=x.astype(np.float32), y=y, classes=np.int64(10))


def _start_broker(setup: Setup, folder: Path, port: int = 0) -> RunningBroker:
    place = folder / BROKER
    if setup.broker == "embedded":
        return start_embedded(place, port=port)
    kept: tuple[str, ...] = ()
    if setup.persistent:
        kept = ("persistence true", f"persistence_location {place}/", "autosave_interval 1")
    return start_mosquitto(place, port=port, extra_lines=kept)


@contextmanager
def federation(folder: Path, setup: Setup, watch: Watcher) -> Iterator[Federation]:
    """Keys, data, links and a broker; no process yet. Everything that runs ends with the block."""
    with ExitStack() as stack:
        broker = _start_broker(setup, folder)
        links = stack.enter_context(Links())
        made = Federation(folder, setup, links, broker)
        stack.callback(made._abandon)
        made._begin(watch)
        yield made
