"""A deployment on one machine: server and parties as programs, each with key, account and data of its own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from tests.live.federated import command, environment
from tests.live.outages import Ground
from tests.realistic.network import SIDE
from tests.unit.cli.programs import call

PARTIES: Final = tuple(f"p{number:02d}" for number in range(6))
SERVER: Final = "server"
RUN: Final = "clinics-1"
LIMIT: Final = 540.0
"""Seconds after which a federation counts as hanging."""
TRAIN: Final = (720, 480, 600, 960, 540, 780)
TEST: Final = (200, 190, 180, 200, 195, 185)
"""Pictures of each party."""
SECOND: Final = 1.0
MODULES: Final = ("network.py", "clinic.py", "plain.py")


@dataclass(frozen=True)
class Program:
    """One start of a server or a party."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return self.process.wait(LIMIT)

    @property
    def stdout(self) -> str:
        """Its standard output so far."""
        return (self.output / "stdout").read_text()

    @property
    def stderr(self) -> str:
        """Its standard error so far."""
        return (self.output / "stderr").read_text()


@dataclass
class Federation:
    """Made by :func:`federation`."""

    folder: Path
    ground: Ground
    party_options: tuple[str, ...]
    started: list[Program] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Peak resident bytes of each process; a site's own process counts as ``NAME.site``."""
    restarting: threading.Lock = field(default_factory=threading.Lock)

    def home(self, name: str) -> Path:
        """The folder of a process, its working directory."""
        return self.folder / name

    def out(self, name: str) -> Path:
        """The ``--out`` of a process."""
        return self.home(name) / RUN

    def start(self, name: str) -> Program:
        """``securefl server`` or ``securefl party`` of this name, with the same command each time."""
        server = name == SERVER
        kind = (
            ("server",)
            if server
            else ("party", "--name", name, "--site", "clinic:clinic", *self.party_options)
        )
        more = ("--keep-models", "all") if server else ()
        words = (
            *(*kind, "federation.toml", "--key", f"keys/{name}.key", "--roster", "roster.toml"),
            *("--broker", str(self.ground.brokers), "--run", RUN, "--out", RUN, *more),
        )
        output = self.home(name) / f"output-{sum(one.name == name for one in self.started)}"
        output.mkdir()
        with (output / "stdout").open("wb") as out, (output / "stderr").open("wb") as err:
            process = subprocess.Popen(
                command(*words), cwd=self.home(name), stdout=out, stderr=err, env=self.environment(name)
            )
        self.started.append(Program(name, process, output))
        return self.started[-1]

    def environment(self, name: str) -> dict[str, str]:
        """Variables of a process: a state folder of its own, as on a machine of its own."""
        return environment() | {"SECUREFL_STATE": str(self.home(name) / "state")}

    def starts(self, name: str) -> list[Program]:
        """All starts of a process."""
        return [one for one in self.started if one.name == name]

    def restart_server(self, number: signal.Signals) -> None:
        """Send the signal, wait for the end, and give the same command again."""
        with self.restarting:
            leading = self.starts(SERVER)[-1]
            leading.process.send_signal(number)
            leading.wait()
            self.start(SERVER)

    def wait(self) -> None:
        """Wait until the last start of each process has ended."""
        for name in (SERVER, *PARTIES):
            ended = None
            while (last := self._last(name)) is not ended:
                last.wait()
                ended = last

    def _last(self, name: str) -> Program:
        """The last start of a process, after a restart that is in progress."""
        with self.restarting:
            return self.starts(name)[-1]

    def run(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of ``securefl`` in the folder of a process, to its end."""
        return subprocess.run(
            command(*words),
            cwd=self.home(name),
            env=self.environment(name),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the server's ``metrics.jsonl``."""
        return [json.loads(line) for line in (self.out(SERVER) / "metrics.jsonl").read_text().splitlines()]

    def summary(self) -> dict[str, Any]:
        """The server's ``summary.json``."""
        summary: dict[str, Any] = json.loads((self.out(SERVER) / "summary.json").read_text())
        return summary

    def scenario(self) -> dict[str, Any]:
        """The settled scenario that all processes have."""
        return tomllib.loads((self.home(SERVER) / "federation.toml").read_text())

    def figures(self) -> str:
        """Seconds by step and round, and peaks of memory."""
        lines = [f"{self.home(SERVER).parent.name}: seconds by round"]
        lines += [f"  {row['round']}: {row['seconds']}" for row in self.rows()]
        lines.append(f"MiB at most: { {name: peak >> 20 for name, peak in sorted(self.memory.items())} }")
        return "\n".join(lines)

    def memory_of_imports(self) -> int:
        """Peak resident bytes of a process that has imported what a party imports."""
        program = (
            "import torch, securefl.cli.party, securefl.runtime.process.party_process\n"
            "print([line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT, check=True
        )
        return int(done.stdout) * 1024

    def collect(self) -> Path:
        """The server's folder with the transcripts of all parties, as an auditor collects them."""
        for name in PARTIES:
            shutil.copytree(
                self.out(name) / "transcripts", self.out(SERVER) / "transcripts", dirs_exist_ok=True
            )
        return self.out(SERVER)

    def evaluate(self, *models: Path) -> list[dict[str, Any]]:
        """Metrics of model files in plain torch, in a process that does not import securefl."""
        asked = {"data": [str(self.home(name)) for name in PARTIES], "models": [str(one) for one in models]}
        done = subprocess.run(
            [sys.executable, "plain.py", json.dumps(asked)],
            cwd=self.home(SERVER),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def measure(self, over: threading.Event) -> None:
        """Note peaks of memory once a second, until ``over``."""
        while not over.wait(SECOND):
            for program in self.started:
                for process, peak in _peaks(program.process.pid):
                    name = program.name if process == program.process.pid else f"{program.name}.site"
                    self.memory[name] = max(self.memory[name], peak)

    def abandon(self) -> None:
        """Kill all that still runs."""
        for program in self.started:
            if program.process.poll() is None:
                program.process.kill()
                program.process.wait()


def _peaks(pid: int) -> Iterator[tuple[int, int]]:
    """Process id and peak of resident bytes of a process and its children, as far as they run."""
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return
    for process in family:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except OSError:
            continue
        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        if found:
            yield process.pid, int(found[0]) * 1024


def write_patients(home: Path, number: int) -> None:
    """Pictures with real signal: the direction of stripes decides the label. Brightness differs by clinic."""
    rng = np.random.default_rng([30, number])
    arrays: dict[str, Any] = {}
    rows, columns = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    for part, count in (("train", TRAIN[number]), ("test", TEST[number])):
        labels = (rng.random(count) < 0.3 + 0.08 * number).astype(np.float32)
        angle = np.where(labels > 0, np.pi / 4, -np.pi / 4) + rng.normal(0, 0.6, count)
        frequency, phase = rng.uniform(0.6, 1.4, count), rng.uniform(0, 2 * np.pi, count)
        along = np.cos(angle)[:, None, None] * rows + np.sin(angle)[:, None, None] * columns
        stripes = np.sin(frequency[:, None, None] * along + phase[:, None, None])
        pictures = 0.5 * stripes + rng.normal(0.2 * number, 0.8, stripes.shape)
        arrays |= {f"x_{part}": pictures[:, None].astype(np.float32), f"y_{part}": labels}
    np.savez(home / "patients.npz", **arrays)


def write_homes(folder: Path, scenario: str) -> None:
    """Keys, roster, site, data and first weights, each in the folder of its process."""
    for name in (SERVER, *PARTIES):
        home = folder / name
        (home / "state").mkdir(parents=True)
        for module in MODULES:
            shutil.copy(Path(__file__).with_name(module), home)
        if name != SERVER:
            write_patients(home, PARTIES.index(name))
    server = folder / SERVER
    for name in (SERVER, *PARTIES):
        made = _securefl(folder / name, "keygen", "--party", name, "--out", "keys")
        assert made.returncode == 0, made.stderr
    publics = [
        word
        for name in (SERVER, *PARTIES)
        for word in ("--roster", str(folder / name / "keys" / f"{name}.pub"))
    ]
    assert call("keygen", *publics, "--out", server).exit_code == 0
    made = _securefl(server, "site", "weights", "clinic:first_weights", "--out", "initial.safetensors")
    assert made.returncode == 0, made.stderr
    table = made.stdout[made.stdout.index("[model]") :]
    (server / "federation.toml").write_text(scenario.replace("[model]\n", table))
    if "[privacy]" in scenario:
        made = _securefl(server, "dp", "settle", "federation.toml", "--out", "settled.toml")
        assert made.returncode == 0, made.stdout + made.stderr
        (server / "settled.toml").replace(server / "federation.toml")
    for name in PARTIES:
        for file in ("roster.toml", "initial.safetensors", "federation.toml"):
            shutil.copy(server / file, folder / name)


def _securefl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    state = {"SECUREFL_STATE": str(home / "state")}
    return subprocess.run(
        command(*words),
        cwd=home,
        env=environment() | state,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@contextmanager
def federation(folder: Path, ground: Ground, scenario: str, *party_options: str) -> Iterator[Federation]:
    """Folders of all processes; no process yet. Every process ends with the block."""
    write_homes(folder, scenario)
    made, over = Federation(folder, ground, party_options), threading.Event()
    watching = threading.Thread(target=made.measure, args=(over,))
    watching.start()
    try:
        yield made
    finally:
        over.set()
        watching.join()
        made.abandon()
