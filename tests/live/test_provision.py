"""A federation whose keys, certificates and files are made by ``securefl provision`` alone.

Each machine is a user of its own in a network namespace of its own, if the system allows it: machines share
requests, answers and the broker's port. Services start as their units state. Between two runs a site gets new
keys, and another one is removed.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from securefl.runtime.process.ground_truth import LAB_FRAMES
from securefl.runtime.provision.kit import read_kit
from securefl.runtime.transport.broker import find_mosquitto
from securefl.training.models.tensors import write_tensors
from tests.live.federated import LIMIT
from tests.live.test_deployment_guide import HOSPITAL
from tests.live.test_service_accounts import as_user, clean, others_can_start_it
from tests.unit.provision.test_no_key_leaves import leaks

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is needed"),
]
SITES = ("p00", "p01", "p02")
MACHINES = (*SITES, "server", "broker", "observer")
UIDS = {name: 42_410 + number for number, name in enumerate(("op", *MACHINES))}
BROKER_ADDRESS = "10.77.255.1"
SCENARIO = """\
name = "provisioned"
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
rounds = 2
"""


@pytest.fixture(scope="module", autouse=True)
def users() -> None:
    """Skip unless processes of other users can run."""
    if not others_can_start_it():
        pytest.skip("root, setpriv and an interpreter for all users are needed")


def quiet(*words: str) -> bool:
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Place:
    """Folder of all machines, the prefix of their services, and their networks."""

    folder: Path
    project: str
    host: str
    port: int
    networks: Mapping[str, str]

    def state(self, name: str) -> Path:
        return Path("/var/lib") / f"securefl-{self.project}-{name}"

    def words(self, name: str, *words: str | Path) -> list[str]:
        """A command as the user of a machine, in its network."""
        inside = ["ip", "netns", "exec", self.networks[name]] if name in self.networks else []
        return [*inside, *as_user(UIDS[name]), *map(str, words)]

    def start(self, name: str, *words: str | Path, **given: str) -> subprocess.Popen[str]:
        more = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        return subprocess.Popen(
            self.words(name, *words),
            cwd=self.folder / name,
            env=clean(HOME="/nonexistent", **more, **given),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def securefl(self, name: str, *words: str | Path, code: int = 0, **given: str) -> str:
        """Output of ``securefl``, which has to end with this code."""
        process = self.start(name, sys.executable, "-m", "securefl", *words, **given)
        out, error = process.communicate(timeout=LIMIT)
        assert process.returncode == code, f"{name}: {words}: {out}{error}"
        return out + error

    def hand(self, source: Path, name: str) -> Path:
        """Bring a public file to another machine, as a courier would."""
        target = self.folder / name / "received" / source.name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
        for path in (target.parent, target):
            os.chown(path, UIDS[name], UIDS[name])
        return target

    def request(self, name: str, *more: str) -> list[str | Path]:
        """Words for ``sign``: a request at the operator's, and the fingerprint that the site reads out."""
        told = self.securefl(name, "provision", "request", "--name", name, *more)
        (fingerprint,) = re.findall(r"fingerprint of \S+ (\S+)", told)
        path = self.hand(self.folder / name / f"{name}.request", "op")
        return [path, "--fingerprint", fingerprint]

    def accept(self, *names: str, operator: str = "") -> None:
        stated = ("--operator", operator) if operator else ()
        for name in names:
            path = self.hand(self.folder / "op" / "answers" / f"{name}.answer", name)
            self.securefl(name, "provision", "accept", path, *stated)

    def service(self, name: str, run: str = "", *more: str) -> subprocess.Popen[str]:
        """Start a machine's unit as systemd would: its user, folder, state and environment, and no others."""
        (file,) = (self.folder / name).glob("*.service")
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read_string(file.read_text())
        fields = unit["Service"]
        assert fields["User"] == ("mosquitto" if name == "broker" else f"securefl-{name}")
        assert fields["WorkingDirectory"] == str(self.folder / name)
        assert fields["StateDirectory"] == self.state(name).name
        pairs = fields.get("Environment", "").replace("%S", "/var/lib").split()
        given = dict(pair.split("=", 1) for pair in pairs)
        words = [*fields["ExecStart"].replace("%i", run).split(), *more]
        if name != "broker":
            assert words[0] == f"{self.folder}/srv/.venv/bin/securefl"
            words = [sys.executable, "-m", "securefl", *words[1:]]
        path = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        return subprocess.Popen(
            self.words(name, *words),
            cwd=fields["WorkingDirectory"],
            env=clean(**{"HOME": "/nonexistent", **given, **path}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def networks(names: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """A network namespace for each machine, from which only the broker's address is reached.

    Yields nothing where the system has none.
    """
    mark = f"sfl{secrets.token_hex(2)}"
    spaces = {name: f"{mark}-{name}" for name in names}
    made = []
    try:
        for space in spaces.values():
            if not quiet("ip", "netns", "add", space):
                break
            made.append(space)
        works = len(made) == len(names) and quiet("ip", "netns", "exec", made[0], "true")
        hub = spaces["broker"]
        works = works and quiet("ip", "-n", hub, "link", "set", "lo", "up")
        works = works and quiet("ip", "-n", hub, "addr", "add", f"{BROKER_ADDRESS}/32", "dev", "lo")
        for number, name in enumerate(one for one in names if one != "broker"):
            own, far = spaces[name], f"v{number}"
            for words in (
                ("ip", "-n", hub, "link", "add", far, "type", "veth", "peer", "name", "v", "netns", own),
                ("ip", "-n", hub, "addr", "add", f"10.77.{number}.1/30", "dev", far),
                ("ip", "-n", hub, "link", "set", far, "up"),
                ("ip", "-n", own, "addr", "add", f"10.77.{number}.2/30", "dev", "v"),
                ("ip", "-n", own, "link", "set", "v", "up"),
                ("ip", "-n", own, "route", "add", BROKER_ADDRESS, "via", f"10.77.{number}.1"),
            ):
                works = works and quiet(*words)
        yield spaces if works else {}
    finally:
        for space in made:
            quiet("ip", "netns", "del", space)


@pytest.fixture
def place() -> Iterator[Place]:
    """Empty folders of operator and machines, each for its user only."""
    folder = Path(tempfile.mkdtemp(prefix="securefl-provision-"))
    folder.chmod(0o755)
    project = f"t{secrets.token_hex(4)}"
    with networks(MACHINES) as spaces:
        host = BROKER_ADDRESS if spaces else "127.0.0.1"
        made = Place(folder, project, host, 28_000 + secrets.randbelow(4_000), spaces)
        states = {made.state(name): UIDS[name] for name in MACHINES}
        for path, uid in {**states, **{folder / name: uid for name, uid in UIDS.items()}}.items():
            path.mkdir(mode=0o700)
            os.chown(path, uid, uid)
        try:
            yield made
        finally:
            shutil.rmtree(folder)
            for name in MACHINES:
                shutil.rmtree(made.state(name), ignore_errors=True)


def begin(place: Place) -> str:
    """The operator's one file by hand, with scenario and first weights; return its fingerprint."""
    sites = "".join(f'[[sites]]\nname = "{name}"\n' for name in SITES)
    (place.folder / "op" / "project.toml").write_text(
        f'name = "{place.project}"\nscenario = "federation.toml"\nsite = "hospital:Hospital"\n'
        f'observer = true\nprefix = "{place.folder}/srv"\n'
        f'[broker]\nhost = "{place.host}"\nport = {place.port}\n{sites}'
    )
    (place.folder / "op" / "federation.toml").write_text(SCENARIO)
    write_weights(place, 0.0)
    told = place.securefl("op", "provision", "begin", "project.toml", "--out", ".")
    return str(re.findall(r"fingerprint of the operator (\S+)", told)[0])


def write_weights(place: Place, value: float) -> None:
    """First weights: accounts refuse two runs from the same ones, as sums of the same updates."""
    file = place.folder / "op" / "initial.safetensors"
    write_tensors(file, {"weight": np.full((1, 4), value), "bias": np.zeros(1)})
    os.chown(file, UIDS["op"], UIDS["op"])


@contextmanager
def broker(place: Place) -> Iterator[subprocess.Popen[str]]:
    process = place.service("broker")
    try:
        assert process.stderr is not None
        for line in process.stderr:
            assert "Error" not in line, line
            if "running" in line:
                break
        else:
            pytest.fail("mosquitto ended")
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=LIMIT)


def run(place: Place, run_id: str, *sites: str) -> None:
    """A run of these sites, each by its unit; all end with exit code 0."""
    with ExitStack() as stack:
        observer = place.service("observer", run_id, "--lab")
        stack.callback(observer.kill)
        seen = place.folder / "observer" / "runs" / run_id / "transcripts" / "observer.jsonl"
        while not seen.exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                pytest.fail(f"the observer has ended: {observer.communicate(timeout=0.1)}")
        running = {name: place.service(name, run_id) for name in ("server", *sites)}
        for process in running.values():
            stack.callback(process.kill)
        printed = {name: process.communicate(timeout=LIMIT) for name, process in running.items()}
        assert observer.wait(LIMIT) == 0
    for name, process in running.items():
        out, error = printed[name]
        assert process.returncode == 0, f"{name}: {out}{error}"
        assert "done: 2 rounds done" in out + error
    counted = re.findall(rf"{len(sites)} of {len(sites)} counted", printed["server"][0])
    assert len(counted) == 2
    assert (place.folder / "server" / "runs" / run_id / "model.safetensors").exists()


def check_refused(place: Place, certificate: Path, key: Path, name: str) -> None:
    """The broker refuses a certificate that was valid before."""
    told = place.securefl(
        name, "doctor", "--broker", f"mqtts://{_address(place)}", "--tls-ca", "ca.pem",
        "--tls-cert", certificate, "--tls-key", key, code=3, SECUREFL_STATE=str(place.state(name)),
    )  # fmt: skip
    assert "client certificate is missing or rejected" in " ".join(told.split())


def _address(place: Place) -> str:
    return f"{place.host}:{place.port}"


def test_two_runs_with_a_rotation_and_a_removal_between(place: Place) -> None:
    operator = begin(place)
    requests = [word for name in MACHINES for word in place.request(name)]
    place.securefl("op", "provision", "sign", ".", *requests)
    place.accept(*MACHINES, operator=operator)
    for name in SITES:
        file = place.folder / name / "hospital.py"
        file.write_text(HOSPITAL)
    with broker(place):
        for name in ("p00", "server"):
            state = str(place.state(name))
            told = place.securefl(name, "doctor", "--kit", "kit.toml", SECUREFL_STATE=state)
            assert f"accepts {name}" in " ".join(told.split())
        run(place, "one", *SITES)
        if place.networks:
            # Machines reach the broker only.
            assert not quiet(*place.words("p00", "ping", "-c", "1", "-W", "1", "10.77.1.2"))
        former = place.folder / "p00" / "former.pem"
        shutil.copy(place.folder / "p00" / "p00.pem", former)
        os.chown(former, UIDS["p00"], UIDS["p00"])

    write_weights(place, 0.5)
    place.securefl("op", "provision", "sign", ".", *place.request("p00", "--rotate"))
    place.securefl("op", "provision", "remove", ".", "p02")
    place.accept("p00", "p01", "server", "broker")
    assert read_kit(place.folder / "p00" / "kit.toml").content.files.key == "keys-2/p00.key"
    with broker(place):
        check_refused(place, Path("p02.pem"), Path("keys-1/p02.tls.key"), "p02")
        check_refused(place, former, Path("keys-1/p00.tls.key"), "p00")
        run(place, "two", "p00", "p01")
    told = place.securefl("p01", "provision", "history", "kit.toml")
    assert [line.split()[2:4] for line in told.splitlines()[-4:-1]] == [
        ["rotated", "p00"], ["settings", told.splitlines()[-3].split()[3]], ["removed", "p02"],
    ]  # fmt: skip
    # Neither a file of another machine nor a frame, which the observer has recorded, holds a private key.
    for run_id in ("one", "two"):
        frames = place.folder / "observer" / "runs" / run_id / "lab" / LAB_FRAMES
        assert frames.stat().st_size > 10_000
    assert leaks(place.folder) == []
    for name, uid in UIDS.items():
        owners = {path.lstat().st_uid for path in (place.folder / name).rglob("*.key")}
        assert owners == {uid}


def test_a_running_broker_takes_a_new_list_of_revoked_certificates(place: Place) -> None:
    operator = begin(place)
    requests = [word for name in MACHINES for word in place.request(name)]
    place.securefl("op", "provision", "sign", ".", *requests)
    place.accept(*MACHINES, operator=operator)
    state = str(place.state("p00"))
    with broker(place) as process:
        told = place.securefl("p00", "doctor", "--kit", "kit.toml", SECUREFL_STATE=state)
        assert "accepts p00" in " ".join(told.split())
        place.securefl("op", "provision", "revoke", ".", "p00", "--reason", "laptop stolen")
        place.accept("broker")
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        for line in process.stderr:
            if "Reloading config" in line:
                break
        check_refused(place, Path("p00.pem"), Path("keys-1/p00.tls.key"), "p00")
        told = place.securefl("p01", "doctor", "--kit", "kit.toml", SECUREFL_STATE=str(place.state("p01")))
        assert "accepts p01" in " ".join(told.split())
