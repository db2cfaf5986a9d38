"""Agents that are killed, policies that change in mid-run, and the operator's stop order."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from securefl.runtime.transport.broker import find_mosquitto
from tests.live.federated import LIMIT
from tests.live.provisioned import Place, broker, change_policy, sites_with_policies, write_weights

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("users"),
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is needed"),
]
SITES = ("p00", "p01", "p02")
SCENARIO = """\
name = "gated"
parties = 3
[model]
type = "weights"
[clustering]
size = 2
[secure_sum]
threshold = 2
min_survivors = 2
[deadlines]
join = 120
[stop]
rounds = 5
"""
GATED = """\
import time
from pathlib import Path

import numpy as np


class Hospital:
    samples = 60

    def __init__(self, name):
        self.name = name

    def parameters(self):
        return {"weight": np.zeros((1, 4), np.float32), "bias": np.zeros(1, np.float32)}

    def fit(self, parameters, context):
        Path(f"begun-{context.number}").touch()
        while not Path(f"gate-{context.number}").exists():
            time.sleep(0.05)
        return {name: value + 1 for name, value in parameters.items()}, 60, {}
"""


@pytest.fixture
def place() -> Iterator[Place]:
    with sites_with_policies(SCENARIO, GATED, *SITES) as made:
        for name in SITES:
            change_policy(made, name, "smallest = 3 ", "smallest = 2 ")
        yield made


def open_gate(place: Place, *rounds: int) -> None:
    for name in SITES:
        for number in rounds:
            (place.folder / name / f"gate-{number}").touch()


def wait_for(place: Place, name: str, pattern: str) -> str:
    """Ask a machine about its runs until the answer fits."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        told = place.securefl(name, "runs", "list", "kit.toml")
        if re.search(pattern, told):
            return told
    raise AssertionError(f"{name}: no {pattern!r} in {told}")


def wait_for_file(path: Path) -> None:
    end = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < end, f"{path} is missing"
        os.sched_yield()


def wait_for_line(path: Path, text: str) -> None:
    end = time.monotonic() + LIMIT
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < end, path.read_text() if path.exists() else f"{path} is missing"
        os.sched_yield()


class Agents:
    """Agents that are started and killed one by one."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, *names: str) -> None:
        for name in names:
            self.running[name] = self._place.service(name)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.communicate(timeout=LIMIT)

    def stop(self) -> dict[str, str]:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        told = {}
        for name, process in self.running.items():
            out, error = process.communicate(timeout=LIMIT)
            told[name] = out + error
            assert process.returncode == 0, told[name]
        self.running.clear()
        return told

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)


def test_a_run_outlives_its_agents_and_obeys_its_policies(place: Place) -> None:
    agents = Agents(place)
    with broker(place), ExitStack() as stack:
        stack.callback(agents.end)
        change_policy(place, "p01", 'decision = "accept"', 'decision = "ask"')
        agents.start("server", *SITES)
        place.securefl("op", "runs", "submit", ".", "long")
        wait_for(place, "p01", "long +asked")
        place.securefl("p01", "runs", "approve", "kit.toml", "long")
        log = {name: place.folder / name / "agent" / "long" / "log.txt" for name in ("server", *SITES)}
        open_gate(place, 0)
        wait_for_line(log["server"], "round 0: not tested, 3 of 3 counted")

        # A policy that the run breaks holds from the next round: the party finishes this one.
        wait_for_file(place.folder / "p01" / "begun-1")
        change_policy(place, "p01", "# rounds = 100 ", "rounds = 3 ")
        wait_for(place, "p01", "long +running +deadlines.rounds: 5 is above 3")
        open_gate(place, 1)
        wait_for_line(log["server"], "round 1: not tested, 3 of 3 counted")
        wait_for(place, "p01", "long +paused +deadlines.rounds: 5 is above 3")
        assert "asked to leave before the next round" in log["p01"].read_text()
        # The register keeps the state of a run while no agent is there.
        agents.kill("p01")
        agents.start("p01")
        # Back again: the same process's journal and account continue.
        change_policy(place, "p01", "rounds = 3 ", "rounds = 5 ")
        wait_for(place, "p01", "long +running")

        # A killed agent takes its process along; the next one continues.
        open_gate(place, 2)
        wait_for_line(log["server"], "round 2:")
        agents.kill("server")
        open_gate(place, 3, 4)
        agents.start("server")
        wait_for(place, "server", "long +done")
        wait_for(place, "p00", "long +(done|stopped)")
        assert (place.folder / "server" / "runs" / "long" / "model.safetensors").exists()

        # A second run is stopped by the operator, and a third one refused by a person.
        for gate in place.folder.glob("p*/gate-*"):
            gate.unlink()
        write_weights(place, 0.5)
        place.securefl("op", "runs", "submit", ".", "stopped", "--note", "to be stopped")
        wait_for(place, "p01", "stopped +asked")
        place.securefl("p01", "runs", "approve", "kit.toml", "stopped")
        wait_for(place, "server", "stopped +running")
        place.securefl("op", "runs", "stop", ".", "stopped", "--reason", "wrong scenario")
        wait_for(place, "server", "stopped +stopped +stopped by the operator: wrong scenario")
        write_weights(place, 0.7)
        place.securefl("op", "runs", "submit", ".", "unwanted")
        wait_for(place, "p01", "unwanted +asked")
        place.securefl("p01", "runs", "refuse", "kit.toml", "unwanted", "--reason", "not now")
        wait_for(place, "server", "unwanted +stopped +p01 refused: not now")
        told = place.securefl("p01", "runs", "approve", "kit.toml", "unwanted", code=2)
        assert "'unwanted' is refused here" in told
        told = place.securefl("op", "runs", "submit", ".", "unwanted", "--note", "again", code=2)
        assert "was submitted before" in told
        open_gate(place, 0, 1, 2, 3, 4)
        agents.stop()


def test_agents_wait_for_the_broker_and_tell_it_all_again(place: Place) -> None:
    """A broker that starts anew has none of the retained messages."""
    agents = Agents(place)
    open_gate(place, 0, 1, 2, 3, 4)
    with ExitStack() as stack:
        stack.callback(agents.end)
        with broker(place):
            agents.start("server", "p00", "p01")
            place.securefl("op", "runs", "submit", ".", "one")
            wait_for(place, "p01", "one +accepted")
            wait_for(place, "server", "one +accepted +waits for p02")
        with broker(place):
            # Only the server's agent can have sent the submission to the new broker.
            agents.start("p02")
            wait_for(place, "server", "one +done")
            told = place.securefl("op", "runs", "show", ".", "one")
            assert re.search(r"server +done", told)
            assert len(re.findall(r"p0\d +(?:done|running)", told)) == 3
            agents.stop()


@pytest.fixture
def full() -> Iterator[Place]:
    """Sites of one cluster, which all have to join within seconds."""
    scenario = SCENARIO.replace("size = 2", "size = 3").replace("join = 120", "join = 15")
    with sites_with_policies(scenario, GATED, *SITES) as made:
        yield made


def test_a_run_without_enough_sites_ends_with_its_first_cause(full: Place) -> None:
    agents = Agents(full)
    folder = full.folder / "p02"
    with broker(full), ExitStack() as stack:
        stack.callback(agents.end)
        change_policy(full, "p02", "options = []", 'options = ["--site-python=/nowhere/python"]')
        agents.start("server", *SITES)
        told = full.securefl("op", "runs", "submit", ".", "refused", "--wait", code=1)
        assert re.search(r"server stopped: 2 of 3 sites remain, 3 are needed: p02 failed: its process", told)

        # A site that never joins: its code waits for a gate while it is made.
        change_policy(full, "p02", 'options = ["--site-python=/nowhere/python"]', "options = []")
        waits = GATED.replace(
            "        self.name = name\n",
            "        self.name = name\n"
            '        while not Path("gate-never").exists():\n            time.sleep(0.05)\n',
        )
        (folder / "hospital.py").write_text(waits)
        full.securefl("p02", "agent", "kit.toml", "--policy", "new.toml", "--write-policy")
        (line,) = re.findall(r'^"hospital:Hospital" = .*$', (folder / "new.toml").read_text(), re.MULTILINE)
        policy = folder / "policy.toml"
        policy.write_text(re.sub(r'(?m)^"hospital:Hospital" = .*$', line, policy.read_text()))
        write_weights(full, 0.5)
        told = full.securefl("op", "runs", "submit", ".", "short", "--wait", code=1)
        assert "server failed: 2 of 3 parties joined within 15 s" in told, told
        told = full.securefl("server", "runs", "logs", "kit.toml", "short")
        assert told.count("joined within 15 s") >= 1
        assert "--out" not in told
        wait_for(full, "p00", "short +stopped +the server failed: 2 of 3 parties joined")
        agents.stop()
