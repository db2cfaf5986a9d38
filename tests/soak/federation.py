"""The federation of a soak: programs as a shell starts them, over mosquitto, sampled while rounds go by."""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from tests.live.deployed import Site, site
from tests.live.federated import command, environment
from tests.soak.records import SERVER, Sample, Soak, Soaked

SAMPLES: Final = 400
"""Of each process, about."""
STUCK_SECONDS: Final = 300.0
"""Without a round a soak counts as stuck."""
_LOOK: Final = 0.05
_END_SECONDS: Final = 120.0
_TAIL: Final = 64
"""Bytes by which rows are recognised."""
_KINDS: Final = {
    "transcripts": ("transcripts/**/*",),
    "journal": ("*.journal",),
    "metrics": ("metrics.jsonl",),
    "checkpoint": ("server.checkpoint",),
    "models": ("*.safetensors",),
}
"""Files of a process by kind, in its ``--out``; the account of a party lies beside its key."""


class StuckError(Exception):
    """No round ends any more, or a process has ended that should not."""


class Rows:
    """Counts the rows of a ``metrics.jsonl`` that grows.

    A server that goes on takes away a row that was cut off, or writes all of them anew. So what was read last
    has to stand where it stood, or all are counted again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._last = b""
        """The end of what was read."""
        self.count = 0

    def look(self) -> int:
        """How many there are."""
        if not self._path.exists():
            return self.count
        with self._path.open("rb") as file:
            file.seek(self._at - len(self._last))
            more = file.read()
            if not more.startswith(self._last):
                self._at, self._last, self.count = 0, b"", 0
                file.seek(0)
                more = file.read()
        self.count += more.count(b"\n", len(self._last))
        self._at += len(more) - len(self._last)
        self._last = more[-_TAIL:]
        return self.count


class Federation:
    """The programs of a soak."""

    def __init__(self, place: Site, soak: Soak) -> None:
        self._place = place
        self._soak = soak
        self.rows = Rows(place.out(SERVER) / "metrics.jsonl")
        self._running: dict[str, tuple[subprocess.Popen[bytes], int]] = {}
        self._began: dict[str, int] = {}
        self.ended: dict[str, tuple[int, ...]] = defaultdict(tuple)

    def start(self, name: str) -> None:
        """``securefl server`` or ``securefl party``, as each time."""
        place = self._place
        kind = ["server"] if name == SERVER else ["party", "--name", name]
        arguments = [
            *(*kind, str(place.scenario), "--key", str(place.folder / f"{name}.key")),
            *("--data", str(place.folder / "data.npz"), "--roster", str(place.folder / "roster.toml")),
            *("--broker", str(place.broker), "--run", place.run, "--out", str(place.out(name))),
            *("--transcript-megabytes", str(self._soak.megabytes)),
        ]
        state = {"SECUREFL_STATE": str(place.folder / "state")}
        with (place.folder / f"{name}.said").open("ab") as said:
            program = subprocess.Popen(
                command(*arguments), stdout=said, stderr=subprocess.STDOUT, env=environment() | state
            )
        self._running[name] = program, len(self.ended[name])
        self._began[name] = self.rows.look()

    def kill(self, name: str) -> None:
        """SIGKILL, and wait until it is gone."""
        program, _ = self._running.pop(name)
        program.kill()
        self.ended[name] += (program.wait(),)

    def sample(self) -> Iterator[Sample]:
        """Every process as it is now."""
        for name, (program, start) in self._running.items():
            done = self.rows.count
            try:
                looked = psutil.Process(program.pid)
                memory, times = looked.memory_full_info(), looked.cpu_times()
                handles, threads = looked.num_fds(), looked.num_threads()
            except psutil.Error:
                # It ends at this moment.
                continue
            yield Sample(
                name=name,
                start=start,
                round=done,
                since=done - self._began[name],
                rss=memory.rss,
                own=memory.uss + getattr(memory, "swap", 0),
                cpu=times.user + times.system,
                handles=handles,
                threads=threads,
                files=self._files(name),
            )

    def _files(self, name: str) -> dict[str, int]:
        out = self._place.out(name)
        found = {
            kind: sum(_size(path) for g in globs for path in out.glob(g)) for kind, globs in _KINDS.items()
        }
        found["other"] = sum(map(_size, out.rglob("*"))) - sum(found.values())
        account = self._place.folder / f"{name}.account"
        found["account"] = _size(account)
        found["said"] = _size(self._place.folder / f"{name}.said")
        return {kind: size for kind, size in found.items() if size}

    def check(self) -> None:
        """Raise if a program has ended that should not have."""
        for name, (program, _) in self._running.items():
            if program.poll() not in {None, 0}:
                raise StuckError(f"{name} ended with {program.poll()}: {self.words(name)}")

    def words(self, name: str) -> str:
        """The end of what it has said."""
        return (self._place.folder / f"{name}.said").read_text()[-300:]

    def wait(self) -> None:
        """Until all have ended by themselves."""
        for name, (program, _) in self._running.items():
            try:
                self.ended[name] += (program.wait(_END_SECONDS),)
            except subprocess.TimeoutExpired:
                reason = f"all rounds are done, and {name} did not end within {_END_SECONDS:g} s"
                raise StuckError(reason) from None
        self._running.clear()

    def abandon(self) -> None:
        """Kill whoever still runs."""
        for program, _ in self._running.values():
            if program.poll() is None:
                program.kill()
                program.wait()


@contextmanager
def _federation(folder: Path, soak: Soak) -> Iterator[Federation]:
    with site(folder, "mosquitto", parties=soak.parties, rounds=soak.rounds, size=soak.size) as place:
        made = Federation(place, soak)
        try:
            yield made
        finally:
            made.abandon()


def soaked(folder: Path, soak: Soak) -> Soaked:
    """Run a soak in an empty folder, to its end.

    Raises:
        StuckError: it did not come to its end.
    """
    began, loads, samples = time.monotonic(), list[float](), list[Sample]()
    moments = random.Random(soak.rounds)
    step, sampled, killed = max(1, soak.rounds // SAMPLES), 0, list[int]()
    with _federation(folder, soak) as programs:
        for name in (SERVER, *(f"p{number:02d}" for number in range(soak.parties))):
            programs.start(name)
        moved, done = began, 0
        while done < soak.rounds:
            time.sleep(_LOOK)  # between looks at files that other programs write
            programs.check()
            if programs.rows.look() == done:
                if time.monotonic() - moved > STUCK_SECONDS:
                    raise StuckError(f"no round after {done} ended within {STUCK_SECONDS:g} s")
                continue
            moved, done = time.monotonic(), programs.rows.count
            if not sampled or done - sampled >= step:
                sampled = done
                samples += programs.sample()
                loads.append(os.getloadavg()[0])
            if soak.kill_every and (len(killed) + 1) * soak.kill_every <= done < soak.rounds:
                # In any phase of a round.
                time.sleep(moments.uniform(0.0, 0.5))
                programs.kill(SERVER)
                killed.append(programs.rows.look())
                programs.start(SERVER)
        programs.wait()
        rows = [
            json.loads(line) for line in (folder / "out-server" / "metrics.jsonl").read_text().splitlines()
        ]
        return Soaked(
            soak,
            tuple(samples),
            tuple(row["seconds"]["total"] for row in rows),
            tuple(row["round"] for row in rows),
            tuple(row["round"] for row in rows if row["update_norm"] is None),
            tuple(killed),
            dict(programs.ended),
            (time.monotonic() - began) / 3600,
            tuple(loads),
            f"{os.cpu_count()} processors, Python {platform.python_version()}, {platform.system()}",
        )


def _size(path: Path) -> int:
    """0 where it is gone: a process may rename or delete it meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
