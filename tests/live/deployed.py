"""A deployment: server and parties as programs of their own, each with its key, at a broker of the test's."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from securefl.runtime.transport.addresses import Brokers
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.broker import BrokerWish, start_local_broker, start_mosquitto
from tests.live.federated import LIMIT
from tests.live.forked import Forked, fork
from tests.live.scenarios import write_scenario
from tests.unit.cli.programs import call

SAMPLES = 40


@dataclass
class Site:
    """One folder for everything but what a process writes, which has a folder of its own."""

    folder: Path
    broker: BrokerUrl | Brokers
    scenario: Path
    parties: tuple[str, ...]
    run: str = "deployed"
    started: int = 0

    def start(
        self, name: str, *more: str, out: Path | None = None, before: tuple[str, ...] = (), **how: Any
    ) -> Forked:
        """``securefl server`` or ``securefl party`` of this name; ``how`` as for :func:`fork`."""
        self.started += 1
        arguments = [*before, *self.arguments(name, out), *more]
        return fork(self.folder / f"said-{self.started}-{name}", *arguments, **how)

    def arguments(self, name: str, out: Path | None = None) -> list[str]:
        """The command line of a process, after ``securefl``."""
        kind = ["server"] if name == "server" else ["party", "--name", name]
        return [
            *(*kind, str(self.scenario)),
            *("--key", str(self.folder / f"{name}.key"), "--data", str(self.folder / "data.npz")),
            *("--roster", str(self.folder / "roster.toml"), "--broker", str(self.broker)),
            *("--run", self.run, "--out", str(out or self.out(name))),
        ]

    def start_parties(self, *more: str, **how: Any) -> dict[str, Forked]:
        return {name: self.start(name, *more, **how) for name in self.parties}

    def out(self, name: str) -> Path:
        return self.folder / f"out-{name}"

    def rows(self) -> list[dict[str, Any]]:
        """What the server has noted of each round, in its ``metrics.jsonl``."""
        return [json.loads(line) for line in (self.out("server") / "metrics.jsonl").read_text().splitlines()]

    def counted(self) -> list[int]:
        """How many parties were counted in each round."""
        return [len(row["survivors"]) for row in self.rows()]


@contextmanager
def site(
    folder: Path,
    broker: str,
    parties: int = 4,
    rounds: int = 3,
    more: str = "",
    size: int = 2,
    broker_lines: tuple[str, ...] = (),
) -> Iterator[Site]:
    """Keys, data and a broker; ``broker_lines`` are settings of a mosquitto."""
    scenario = write_scenario(folder, more, parties=parties, size=size, rounds=rounds)
    assert call("keygen", "--all-in-one", str(parties), "--out", folder).exit_code == 0
    rng = np.random.default_rng(1)
    np.savez(
        folder / "data.npz",
        x=rng.normal(size=(SAMPLES, 1, 8, 8)).astype(np.float32),
        y=np.arange(SAMPLES) % 10,
        classes=np.int64(10),
    )
    names = tuple(f"p{number:02d}" for number in range(parties))
    (folder / "broker").mkdir()
    with (
        start_mosquitto(folder / "broker", extra_lines=broker_lines)
        if broker_lines
        else start_local_broker(cast("BrokerWish", broker), folder / "broker", 0, None)
    ) as running:
        yield Site(folder, running.url, scenario, names)


def until_said(program: Forked, words: str, times: int = 1) -> str:
    """Wait until a program has said so; return all that it said. It fails if the program ends before."""
    while (said := program.stdout.read_text() if program.stdout.exists() else "").count(words) < times:
        program.process.join(0.05)
        if program.process.exitcode is not None and program.stdout.read_text().count(words) < times:
            raise AssertionError(f"ended without saying {words!r}: {program.wait(LIMIT)}")
    return said


def contents(folder: Path) -> dict[str, str]:
    """Digest of every file below, but for locks that killed processes leave."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


def signal_to(program: Forked, number: int) -> None:
    assert program.process.pid is not None
    assert program.process.exitcode is None, program.wait(LIMIT)
    os.kill(program.process.pid, number)


@contextmanager
def stopped(programs: Mapping[str, Forked]) -> Iterator[None]:
    """SIGSTOP, and afterwards SIGCONT: meanwhile a run with these parties cannot end."""
    for program in programs.values():
        signal_to(program, signal.SIGSTOP)
    try:
        yield
    finally:
        for program in programs.values():
            signal_to(program, signal.SIGCONT)
