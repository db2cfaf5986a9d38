"""The deployment guide, done as it is written: keys, certificates, access rules, broker, a run over TLS."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

from securefl.runtime.transport.broker import find_mosquitto
from securefl.training.models.tensors import write_tensors
from tests.live.federated import LIMIT, environment

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        find_mosquitto() is None or shutil.which("openssl") is None or shutil.which("bash") is None,
        reason="mosquitto, openssl and bash are needed",
    ),
]
DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "deployment.md").read_text()
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
    for number, name in enumerate((*PARTIES, "server")):
        rows = slice(number, None, 4)
        half, file = ("test", "test.npz") if name == "server" else ("train", "samples.npz")
        arrays = {f"x_{half}": digits.data[rows], f"y_{half}": digits.target[rows]}
        np.savez(folder / name / file, **arrays)


@contextmanager
def mosquitto(folder: Path, port: int, clients: tuple[str, ...] = ("server", *PARTIES)) -> Iterator[None]:
    """Section 5: certificates, access rules, files for another user, and a broker that reads them as it."""
    config = folder / "etc"
    make, rules, install, *_ = fenced("bash")
    listed = make.replace("server north south west", " ".join(clients))
    shell(listed.replace("broker.example.org", "localhost"), folder)
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


def own_training(folder: Path, scenario: str) -> str:
    """Sites in place of samples: module and first parameters in each party's folder, no data anywhere.

    Returns:
        The scenario, its model one of named arrays.
    """
    arrays = {"weight": np.zeros((1, 4)), "bias": np.zeros(1)}
    for name in PARTIES:
        (folder / name / "ward.py").write_text(WARD)
    for name in (*PARTIES, "server"):
        digest = write_tensors(folder / name / "initial.safetensors", arrays)
    model = f'[model]\ntype = "weights"\nfile = "initial.safetensors"\nsha256 = "{digest}"\n'
    changed = re.sub(r"\[model\]\n(?:\w.*\n)+", model, scenario)
    stops = re.sub(r"\[stop\]\n(?:\w.*\n)+", declared_metrics(), changed)
    assert scenario != changed != stops
    return stops


def declared_metrics() -> str:
    """The tables that docs/metrics.md begins with: metrics of sites, and an end by them."""
    page = (DOCS / "metrics.md").read_text()
    block = re.search(r"(?:^(?: {4}.*)?\n)+", page[page.index("    [evaluation]") :], re.MULTILINE)
    assert block is not None
    return textwrap.dedent(block[0])


WARD = """
import numpy as np
import securefl

class Ward:
    def __init__(self, name):
        rng = np.random.default_rng(["north", "south", "west"].index(name))
        self.x = rng.normal(size=(60, 4))
        self.y = (self.x @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.normal(size=60) > 0).astype(int)
        self.samples = 60
    def parameters(self):
        return {"weight": np.zeros((1, 4)), "bias": np.zeros(1)}
    def fit(self, parameters, context):
        weight, bias = parameters["weight"].astype(float), parameters["bias"].astype(float)
        for _ in range(50):
            error = self.scores(weight, bias) - self.y
            weight -= 0.1 * error @ self.x / 60
            bias -= 0.1 * error.mean()
        return {"weight": weight, "bias": bias}, 60, {"error": np.abs(error).mean()}
    def scores(self, weight, bias):
        return 1 / (1 + np.exp(-(self.x @ weight[0] + bias[0])))
    def evaluate(self, parameters, context):
        scores = self.scores(parameters["weight"], parameters["bias"])
        right = np.where(self.y > 0, scores, 1 - scores)
        return 60, {
            "scores": securefl.score_histogram(scores, self.y),
            "loss": float(-np.log(np.maximum(right, 1e-6)).mean()),
        }
"""


def with_site(words: list[str]) -> list[str]:
    """The guide's words as section 5 of the page on sites changes them."""
    at = words.index("--data")
    there = ["--site", "ward:Ward"] if words[1] == "party" else []
    return words[:at] + there + words[at + 2 :]


def check_audit_of(server: Path, parties: tuple[str, ...] = PARTIES) -> None:
    """Section 7: what the parties give is collected at the server, and audited under their own names."""
    for name in parties:
        shutil.copytree(server.parent / name / "trial-1", server / "collected" / name)
    (collects,), (audits,) = spelled("cp -r collected"), spelled("securefl audit")
    shell(" ".join(collects), server)
    audit = program(audits, server)
    out, error = audit.communicate(timeout=LIMIT)
    assert audit.returncode == 0, out + error
    told = " ".join(out.split())
    assert f"{len(parties)} party transcripts agree with each other and with the server's" in told
    assert "missing" not in told


def check_best_models(site: Path, tested: list[str]) -> None:
    """Everybody has the best model, of a server without data that went by what sites say."""
    assert all("scores.auc 0.9" in line or "scores.auc 1" in line for line in tested[1:])
    best = (site / "server" / "trial-1" / "best.safetensors").read_bytes()
    for name in PARTIES:
        assert (site / name / "trial-1" / f"{name}.model.safetensors").read_bytes() == best
    weight = load_file(site / "server" / "trial-1" / "best.safetensors")["weight"][0]
    np.testing.assert_allclose(weight / weight[0], [1.0, -2.0, 0.5, 0.0], atol=0.4)


@pytest.mark.parametrize("training", ["built-in", "own"])
def test_the_guide_works_word_by_word(training: str, site: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scenario = next(block for block in fenced("toml") if "hospitals" in block)
    for name in (*PARTIES, "server"):
        (site / name).mkdir()
    if training == "own":
        scenario = own_training(site, scenario)
    else:
        samples(site)
    for name in (*PARTIES, "server"):
        (site / name / "federation.toml").write_text(scenario)

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
            words = with_site(words) if training == "own" else words
            words = [
                word.replace("north", name).replace("broker.example.org", f"localhost:{port}")
                for word in words
            ]
            running[name] = program(words, site / name)
            stack.callback(running[name].kill)
        told = {name: process.communicate(timeout=LIMIT) for name, process in running.items()}
    ending = "3 rounds done" if training == "built-in" else "no better scores.auc in 5 rounds"
    for name, process in running.items():
        out, error = told[name]
        assert process.returncode == 0, f"{name}: {out}{error}"
        assert f"done: {ending}" in out + error
    out, error = told["server"]
    tested = re.findall(r"^server: round \d+: (.*)3 of 3 counted", out, re.MULTILINE)
    if training == "built-in":
        assert len(tested) == 3
        assert all("accuracy " in line for line in tested)
    if training == "own":
        check_best_models(site, tested)
    check_audit_of(site / "server")
