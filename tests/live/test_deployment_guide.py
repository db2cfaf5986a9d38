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
from dataclasses import dataclass
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
PARTIES = tuple(f"p{number:02d}" for number in range(5))
NAMES = ("server", *PARTIES)


def fenced(language: str) -> list[str]:
    blocks: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [text for written_in, text in blocks if written_in == language]


def spelled(start: str) -> list[list[str]]:
    """The indented commands that begin with these words, continued lines joined, comments left out."""
    joined = GUIDE.replace("\\\n", " ")
    lines = re.findall(rf"^    ({re.escape(start)}.*)$", joined, re.MULTILINE)
    return [line.split(" #")[0].split() for line in lines]


def block(language: str, start: str) -> str:
    """The one block that holds these words."""
    (found,) = (text for text in fenced(language) if start in text)
    return found


@dataclass(frozen=True)
class Unit:
    """The lines of a systemd unit that state what is run, where and as whom."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    user: str


def unit(kind: str, name: str) -> Unit:
    """The unit of the guide that starts ``securefl server`` or ``party``, for this instance."""
    text = block("ini", f"securefl {kind} ").replace("\\\n", " ").replace("%i", name)
    fields: dict[str, str] = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    given = dict(pair.split("=", 1) for pair in fields.get("Environment", "").split())
    return Unit(fields["ExecStart"].split(), given, fields["WorkingDirectory"], fields["User"])


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
    """Built-in training: a file for each party and one for the server, each in its own folder."""
    digits = load_digits()
    for number, name in enumerate((*PARTIES, "server")):
        rows = slice(number, None, len(NAMES))
        half, file = ("test", "test.npz") if name == "server" else ("train", "samples.npz")
        arrays = {f"x_{half}": digits.data[rows], f"y_{half}": digits.target[rows]}
        np.savez(folder / name / file, **arrays)


@contextmanager
def mosquitto(folder: Path, port: int) -> Iterator[None]:
    """Section 4: certificates, access rules, files for another user, and a broker that reads them as it."""
    config = folder / "etc"
    shell(block("bash", "openssl req").replace("broker.example.org", "localhost"), folder)
    shell(block("bash", "broker --acl"), folder)
    install = block("bash", "-o mosquitto")
    if os.geteuid() != 0:
        install = install.replace("-o mosquitto -g mosquitto ", "")
    shell(install.replace("/etc/mosquitto/securefl", str(config)), folder)
    conf = block("", "listener")
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
    """Another site with the same metrics: module and first parameters in each folder, no data anywhere.

    Returns:
        The scenario, its model one of named arrays.
    """
    arrays = {"weight": np.zeros((1, 4)), "bias": np.zeros(1)}
    for name in PARTIES:
        (folder / name / "hospital.py").write_text(HOSPITAL)
    for name in NAMES:
        digest = write_tensors(folder / name / "initial.safetensors", arrays)
    model = f'[model]\ntype = "weights"\nfile = "initial.safetensors"\nsha256 = "{digest}"\n'
    changed = re.sub(r"\[model\]\n(?:\w.*\n)+", model, scenario)
    stops = changed.partition("[evaluation]")[0] + declared_metrics()
    assert scenario != changed != stops
    return stops


def declared_metrics() -> str:
    """The tables that docs/metrics.md begins with: metrics of sites, and an end by them."""
    page = (DOCS / "metrics.md").read_text()
    block = re.search(r"(?:^(?: {4}.*)?\n)+", page[page.index("    [evaluation]") :], re.MULTILINE)
    assert block is not None
    return textwrap.dedent(block[0])


HOSPITAL = """
import numpy as np
import securefl

class Hospital:
    def __init__(self, name):
        rng = np.random.default_rng(int(name[1:]))
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


def distribute(site: Path, name: str) -> None:
    """Section 5: what a machine gets from the others."""
    for file in ("ca.pem", "roster.toml", f"{name}.tls.pem", f"{name}.tls.key"):
        shutil.copy(site / file, site / name)


def check_connection(site: Path, name: str, port: int) -> None:
    """Section 5: the broker, asked with the certificate of a party."""
    distribute(site, name)
    command = block("bash", "securefl doctor --broker").partition("bin/")[2]
    command = command.replace("broker.example.org", f"localhost:{port}")
    shell(f"NAME={name}\n{sys.executable} -m {command}", site / name)


def with_data(words: list[str]) -> list[str]:
    """A unit's words as the section on built-in training changes them."""
    replaced: list[str]
    added: list[str]
    replaced, added = (found.split() for found in re.findall(r"`(--data \w+\.npz)`", GUIDE))
    if words[1] == "server":
        return [*words, *added]
    at = words.index("--site")
    return words[:at] + replaced + words[at + 2 :]


def check_audit_of(server: Path) -> None:
    """Section 7: what the parties give is collected at the server, and audited under their own names."""
    for name in PARTIES:
        shutil.copytree(server.parent / name / "trial-1", server / "collected" / name)
    (collects,), (audits,) = spelled("cp -r collected"), spelled("securefl audit")
    shell(" ".join(collects), server)
    audit = program(audits, server)
    out, error = audit.communicate(timeout=LIMIT)
    assert audit.returncode == 0, out + error
    told = " ".join(out.split())
    assert f"by {len(PARTIES)} party transcripts and the server's." in told
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
    for name in NAMES:
        (site / name).mkdir()
    if training == "own":
        scenario = own_training(site, block("toml", '"hospitals"'))
    else:
        scenario = block("toml", '"digits"')
        samples(site)
    for name in NAMES:
        (site / name / "federation.toml").write_text(scenario)

    # Section 3: keys on everybody's machine, public halves to whoever makes the roster.
    keygen = re.findall(r"bin/(securefl keygen .*)$", block("bash", "useradd"), re.MULTILINE)
    (roster,) = spelled("securefl keygen --roster")
    (site / "keys").mkdir()
    for name in NAMES:
        shell(f"NAME={name}\n{sys.executable} -m {keygen[0]}", site / name)
        shutil.copy(site / name / "keys" / f"{name}.pub", site / "keys")
    assert program(roster, site).wait(LIMIT) == 0

    with mosquitto(site, port), ExitStack() as stack:
        running = {}
        check_connection(site, "p00", port)
        for name in NAMES:
            distribute(site, name)
            started = unit("server" if name == "server" else "party", name)
            words = ["securefl", *started.command[1:]]
            words = with_data(words) if training == "built-in" else words
            words = [word.replace("broker.example.org", f"localhost:{port}") for word in words]
            running[name] = program(words, site / name)
            stack.callback(running[name].kill)
        told = {name: process.communicate(timeout=LIMIT) for name, process in running.items()}
    ending = "3 rounds done" if training == "built-in" else "no better scores.auc in 5 rounds"
    for name, process in running.items():
        out, error = told[name]
        assert process.returncode == 0, f"{name}: {out}{error}"
        assert f"done: {ending}" in out + error
    out, error = told["server"]
    tested = re.findall(r"^server: round \d+: (.*)5 of 5 counted", out, re.MULTILINE)
    if training == "built-in":
        assert len(tested) == 3
        assert all("accuracy " in line for line in tested)
    if training == "own":
        check_best_models(site, tested)
    check_audit_of(site / "server")
