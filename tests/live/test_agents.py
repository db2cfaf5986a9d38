"""docs/agents.md done as written: five sites, each with an agent under an account of its own.

Two runs in a row; a third is refused by one site's policy. Then one site gets new keys, and another leaves.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from securefl.runtime.transport.broker import find_mosquitto
from tests.live.federated import LIMIT
from tests.live.provisioned import Place, broker, change_policy, sites_with_policies, write_weights
from tests.live.test_deployment_guide import HOSPITAL
from tests.unit.provision.test_no_key_leaves import leaks

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("users"),
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is needed"),
]
PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
SITES = ("p00", "p01", "p02", "p03", "p04")
SCENARIO = """\
name = "submitted"
parties = 5
[model]
type = "weights"
[clustering]
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[deadlines]
join = 120
[stop]
rounds = 2
"""


def spelled(start: str, **other: str) -> list[str]:
    """The words of the one indented command of the page that begins so, with other words for some."""
    (line,) = re.findall(rf"^    securefl ({re.escape(start)}.*)$", PAGE, re.MULTILINE)
    words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]
    return [other.get(word.lstrip("-").replace("-", "_").replace(".", "_"), word) for word in words]


@pytest.fixture
def place() -> Iterator[Place]:
    with sites_with_policies(SCENARIO, HOSPITAL, *SITES) as made:
        yield made


@contextmanager
def agents(place: Place, *names: str) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Agents by their units; they end in good order, with exit code 0."""
    running = {name: place.service(name) for name in names}
    try:
        yield running
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in running.items():
            out, error = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, f"{name}: {out}{error}"
    finally:
        for process in running.values():
            process.kill()
            process.wait()


KEEP = """
import asyncio, pathlib, sys
from securefl.runtime import agents

async def main():
    async with agents.connect_operator(pathlib.Path(".")) as (link, _history):
        with open("messages.bin", "wb") as file:
            receive = link._link.receive
            async def keep():
                frame = await receive()
                file.write(frame.payload + b"\\n")
                return frame
            link._link.receive = keep
            await link.refresh()

asyncio.run(main())
"""


def keep_messages(place: Place) -> None:
    """Store all messages between operator and agents that the broker has, to search them for keys."""
    process = place.start("op", sys.executable, "-c", KEEP)
    out, error = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, out + error
    kept = (place.folder / "op" / "messages.bin").read_bytes()
    assert kept.count(b"securefl submission") == 4
    assert kept.count(b"securefl notice") >= 4 * len(SITES)


def submit(place: Place, *words: str | Path, code: int = 0) -> str:
    return place.securefl("op", *words, code=code)


def test_the_page_as_written(place: Place) -> None:
    with broker(place), agents(place, "server", *SITES):
        told = submit(place, *spelled("runs submit operator trial-1", operator="."))
        assert "server done" in told
        write_weights(place, 0.5, "second.safetensors")
        (place.folder / "op" / "longer.toml").write_text(SCENARIO.replace("rounds = 2", "rounds = 3"))
        second = spelled("runs submit operator trial-2", operator=".")
        told = submit(place, *second, "--wait")
        assert "server done" in told
        assert "p03 running" in told

        change_policy(place, "p03", "# rounds = 100 ", "rounds = 2 ")
        write_weights(place, 0.7)
        told = submit(place, "runs", "submit", ".", "trial-3", "--scenario", "longer.toml", "--wait", code=1)
        assert "p03 refused: deadlines.rounds: 3 is above 2" in told
        assert "server stopped: p03 refused" in told
        told = submit(place, *spelled("runs list operator", operator="."))
        assert re.findall(r"trial-\d +\w+", told) == ["trial-1  done", "trial-2  done", "trial-3  stopped"]
        told = submit(place, *spelled("runs show operator trial-2", operator=".", trial_2="trial-3"))
        assert re.search(r"p03 +refused +deadlines.rounds: 3 is above 2", told)

        # One site gets new keys and another one leaves; agents take the new answers without a restart.
        submit(place, "provision", "sign", ".", *place.request("p00", "--rotate"))
        submit(place, "provision", "remove", ".", "p04")
        left = ("p00", "p01", "p02", "p03")
        place.accept("broker", "server", *left)
        told = submit(place, "runs", "submit", ".", "trial-4", "--wait")
        assert "submitted to 4 sites" in told
        assert "server done" in told
        told = place.securefl("p01", *spelled("runs list kit.toml"))
        assert re.findall(r"trial-\d +\w+", told) == [
            "trial-1  done", "trial-2  done", "trial-3  stopped", "trial-4  done",
        ]  # fmt: skip
        keep_messages(place)
        told = place.securefl("p01", *spelled("runs logs kit.toml trial-1"))
        assert "done: 2 rounds done" in told
    for run, sites in (("trial-1", SITES), ("trial-2", SITES), ("trial-4", left)):
        models = [place.folder / name / "runs" / run / f"{name}.last.safetensors" for name in sites]
        assert (place.folder / "server" / "runs" / run / "model.safetensors").exists()
        assert len({load_file(path)["weight"].tobytes() for path in models}) == 1
    assert not (place.folder / "p04" / "runs" / "trial-4").exists()
    assert leaks(place.folder) == []
    # One agent at a time works in a folder.
    with broker(place), agents(place, "p01") as running:
        first = running["p01"].stdout
        assert first is not None
        assert "connected" in first.readline()
        told = place.securefl("p01", "agent", "kit.toml", code=2)
        assert "is in use by another agent" in told
