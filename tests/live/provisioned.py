"""Machines of a federation that ``securefl provision`` has made: each a user in a network of its own.

Machines share requests, answers and the broker's port. Services start as their units state.
"""

from __future__ import annotations

import configparser
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from securefl.training.models.tensors import write_tensors
from tests.live.federated import LIMIT
from tests.live.other_users import as_agent, as_user, clean

OTHERS = ("server", "broker", "observer")
UIDS = {
    name: 42_410 + number
    for number, name in enumerate(("op", *OTHERS, *(f"p{number:02d}" for number in range(8))))
}
BROKER_ADDRESS = "10.77.255.1"


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
    sites: tuple[str, ...]

    @property
    def machines(self) -> tuple[str, ...]:
        """All but the operator."""
        return (*self.sites, *OTHERS)

    def state(self, name: str) -> Path:
        return Path("/var/lib") / f"securefl-{self.project}-{name}"

    def words(self, name: str, *words: str | Path) -> list[str]:
        """A command as the user of a machine, in its network."""
        user = as_agent(UIDS[name]) if "agent" in words else as_user(UIDS[name])
        inside = ["ip", "netns", "exec", self.networks[name]] if name in self.networks else []
        return [*inside, *user, *map(str, words)]

    def start(self, name: str, *words: str | Path, **given: str) -> subprocess.Popen[str]:
        more = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        if name == "op":
            # The operator has no home either; its head lies apart from its folder elsewhere.
            more["SECUREFL_STATE"] = str(self.folder / name / "state")
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
        """Start a machine's unit as systemd would: its user, folder, state and environment, and no others.

        The unit of a run if its id is given, otherwise that of the broker or the agent.
        """
        stem = f"securefl-{self.project}-{name}"
        file = self.folder / name / (f"{stem}@.service" if run else f"{stem}.service")
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


@contextmanager
def machines(*sites: str) -> Iterator[Place]:
    """Empty folders of operator and machines, each for its user only."""
    folder = Path(tempfile.mkdtemp(prefix="securefl-provision-"))
    folder.chmod(0o755)
    project = f"t{secrets.token_hex(4)}"
    names = ("op", *sites, *OTHERS)
    with networks(names) as spaces:
        host = BROKER_ADDRESS if spaces else "127.0.0.1"
        made = Place(folder, project, host, 28_000 + secrets.randbelow(4_000), spaces, sites)
        states = {made.state(name): UIDS[name] for name in made.machines}
        for path, uid in {**states, **{folder / name: UIDS[name] for name in names}}.items():
            path.mkdir(mode=0o700)
            os.chown(path, uid, uid)
        try:
            yield made
        finally:
            shutil.rmtree(folder)
            for path in states:
                shutil.rmtree(path, ignore_errors=True)


def begin(place: Place, scenario: str) -> str:
    """The operator's one file by hand, with scenario and first weights; return its fingerprint."""
    sites = "".join(f'[[sites]]\nname = "{name}"\n' for name in place.sites)
    (place.folder / "op" / "project.toml").write_text(
        f'name = "{place.project}"\nscenario = "federation.toml"\nsite = "hospital:Hospital"\n'
        f'observer = true\nprefix = "{place.folder}/srv"\n'
        f'[broker]\nhost = "{place.host}"\nport = {place.port}\n{sites}'
    )
    (place.folder / "op" / "federation.toml").write_text(scenario)
    write_weights(place, 0.0)
    told = place.securefl("op", "provision", "begin", "project.toml", "--out", ".")
    return str(re.findall(r"fingerprint of the operator (\S+)", told)[0])


def write_weights(place: Place, value: float, name: str = "initial.safetensors") -> None:
    """First weights: accounts refuse two runs from the same ones, as sums of the same updates."""
    file = place.folder / "op" / name
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


def change_policy(place: Place, name: str, old: str, new: str) -> None:
    """Edit a site's policy, as a person would."""
    file = place.folder / name / "policy.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@contextmanager
def sites_with_policies(scenario: str, code: str, *sites: str) -> Iterator[Place]:
    """Machines with kits, whose sites have this code and accept all runs with it."""
    with machines(*sites) as place:
        operator = begin(place, scenario)
        requests = [word for name in place.machines for word in place.request(name)]
        place.securefl("op", "provision", "sign", ".", *requests)
        place.accept(*place.machines, operator=operator)
        for name in sites:
            (place.folder / name / "hospital.py").write_text(code)
            place.securefl(name, "agent", "kit.toml", "--write-policy")
            change_policy(place, name, 'decision = "ask"', 'decision = "accept"')
        yield place
