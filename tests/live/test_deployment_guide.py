"""The deployment guide, done as it is written: keys, certificates, access rules, broker, a run over TLS."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from securefl.runtime.transport.broker import find_mosquitto
from tests.live.federated import LIMIT, environment

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        find_mosquitto() is None or shutil.which("openssl") is None or shutil.which("bash") is None,
        reason="mosquitto, openssl and bash are needed",
    ),
]
GUIDE = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text()
PARTIES = ("north", "south", "west")


def fenced(language: str) -> list[str]:
    blocks: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [text for written_in, text in blocks if written_in == language]


def spelled(start: str) -> list[list[str]]:
    """The indented commands that begin with these words, continued lines joined, comments left out."""
    joined = GUIDE.replace("\\\n", " ")
    lines = re.findall(rf"^    ({re.escape(start)}.*)$", joined, re.MULTILINE)
    return [line.split(" #")[0].split() for line in lines]


@pytest.fixture
def site() -> Iterator[Path]:
    """A folder that another user may enter, as pytest's own may not be; ``.venv`` is this environment."""
    folder = Path(tempfile.mkdtemp(prefix="securefl-guide-"))
    folder.chmod(0o755)
    (folder / ".venv").symlink_to(sys.prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def shell(text: str, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stderr}"


def program(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    assert arguments[0] == "securefl"
    call = [sys.executable, "-m", "securefl", *arguments[1:]]
    pipe = subprocess.PIPE
    return subprocess.Popen(call, cwd=folder, env=environment(), stdout=pipe, stderr=pipe, text=True)


def samples(folder: Path) -> None:
    """Section 4: a file for each party and one for the server, each in its own folder."""
    digits = load_digits()
    x = ((digits.data - 4.88) / 6.0).astype(np.float32)
    for number, name in enumerate((*PARTIES, "server")):
        rows = slice(number, None, 4)
        file = "test.npz" if name == "server" else "samples.npz"
        np.savez(folder / name / file, x=x[rows], y=digits.target[rows], classes=np.int64(10))


@contextmanager
def mosquitto(folder: Path, port: int) -> Iterator[None]:
    """Section 5: certificates, access rules, files for another user, and a broker that reads them as it."""
    config = folder / "etc"
    make, rules, install = fenced("bash")
    shell(make.replace("broker.example.org", "localhost"), folder)
    shell(rules, folder)
    if os.geteuid() != 0:
        install = install.replace("-o mosquitto -g mosquitto ", "")
    shell(install.replace("/etc/mosquitto/securefl", str(config)), folder)
    (conf,) = (block for block in fenced("") if "listener" in block)
    (folder / "mosquitto.conf").write_text(
        conf.replace("/etc/mosquitto/securefl", str(config)).replace(
            "listener 8883", f"listener {port} localhost"
        )
    )
    found = find_mosquitto()
    assert found is not None
    broker = subprocess.Popen([found, "-c", folder / "mosquitto.conf"], stderr=subprocess.PIPE, text=True)
    try:
        assert broker.stderr is not None
        for line in broker.stderr:
            assert "Error" not in line, line
            if "running" in line:
                break
        else:
            pytest.fail("mosquitto ended")
        yield
    finally:
        broker.terminate()
        broker.communicate(timeout=LIMIT)


def test_the_guide_works_word_by_word(site: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scenario = next(block for block in fenced("toml") if "hospitals" in block)
    for name in (*PARTIES, "server"):
        (site / name).mkdir()
        (site / name / "federation.toml").write_text(scenario)
    samples(site)

    # Section 3: keys on everybody's machine, public halves to whoever makes the roster.
    party, server = spelled("securefl keygen --party")
    (roster,) = spelled("securefl keygen --roster")
    (site / "keys").mkdir()
    for name in (*PARTIES, "server"):
        words = server if name == "server" else [name if word == "north" else word for word in party]
        assert program(words, site / name).wait(LIMIT) == 0
        shutil.copy(site / name / "keys" / f"{name}.pub", site / "keys")
    assert program(roster, site).wait(LIMIT) == 0

    (joins,), (serves,) = (
        spelled("securefl party federation.toml"),
        spelled("securefl server federation.toml"),
    )
    with mosquitto(site, port), ExitStack() as stack:
        running = {}
        for name in (*PARTIES, "server"):
            for file in ("ca.pem", "roster.toml", f"{name}.tls.pem", f"{name}.tls.key"):
                shutil.copy(site / file, site / name)
            words = serves if name == "server" else joins
            words = [
                word.replace("north", name).replace("broker.example.org", f"localhost:{port}")
                for word in words
            ]
            running[name] = program(words, site / name)
            stack.callback(running[name].kill)
        told = {name: process.communicate(timeout=LIMIT) for name, process in running.items()}
    for name, process in running.items():
        out, error = told[name]
        assert process.returncode == 0, f"{name}: {out}{error}"
        assert "done: 3 rounds done" in out + error
    out, error = told["server"]
    assert len(re.findall(r"round \d: accuracy .*3 of 3 counted", out + error)) == 3
    assert (site / "server" / "trial-1" / "model.safetensors").exists()
