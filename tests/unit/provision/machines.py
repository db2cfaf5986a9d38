"""A project with its operator and machines, each in a folder of its own, all by commands."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from securefl.runtime.provision.history import History
from securefl.runtime.provision.operator_folder import history_of
from securefl.runtime.provision.request import read_request
from securefl.scenario import write_value
from tests.unit.cli.programs import call, refusal

WEIGHTS_FILE = save({"w": np.zeros(5, np.float32)})
SITES = ("p00", "p01", "p02")
MACHINES = (*SITES, "server", "broker")
PROJECT = """\
name = "trial"
scenario = "federation.toml"
data = "samples.npz"

[broker]
host = "localhost"
port = 18883

[server]
data = "test.npz"

[[sites]]
name = "p00"
host = "a.example.org"

[[sites]]
name = "p01"

[[sites]]
name = "p02"
"""
SCENARIO = """\
name = "small"
parties = 3
[data]
classes = 10
shape = [64]
[training]
device = "cpu"
[clustering]
size = 2
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 1
"""


@dataclass(frozen=True)
class Machines:
    """Folder with the operator's folder, ``op``, and one for each machine."""

    folder: Path

    @property
    def operator(self) -> Path:
        return self.folder / "op"

    def at(self, name: str) -> Path:
        return self.folder / name

    def fingerprint(self, name: str) -> str:
        return read_request(self.at(name) / f"{name}.request").fingerprint

    def answer(self, name: str) -> Path:
        return self.operator / "answers" / f"{name}.answer"

    def history(self) -> History:
        return history_of(self.operator / "history.jsonl")

    def operator_fingerprint(self) -> str:
        operator = self.history().operator
        assert operator is not None
        return operator.fingerprint()

    def request(self, name: str, *more: str) -> None:
        done("request", "--name", name, "--out", self.at(name), *more)

    def sign(self, *names: str) -> str:
        requests = [self.at(name) / f"{name}.request" for name in names]
        compared = [word for name in names for word in ("--fingerprint", self.fingerprint(name))]
        return done("sign", self.operator, *requests, *compared)

    def accept(self, *names: str) -> None:
        for name in names:
            stated = ("--operator", self.operator_fingerprint())
            done("accept", self.answer(name), "--out", self.at(name), *stated)

    def refused(self, name: str, answer: Path | None = None, **options: str) -> str:
        """The reason why a machine refuses an answer; nothing in its folder changes."""
        stated = {"operator": self.operator_fingerprint(), **options}
        words = [word for key, value in stated.items() if value for word in (f"--{key}", value)]
        before = contents(self.at(name))
        reason = refusal(
            call("provision", "accept", answer or self.answer(name), "--out", self.at(name), *words)
        )
        assert contents(self.at(name)) == before
        return reason


def done(*words: str | Path) -> str:
    """Output of a command of the group, which has to succeed."""
    result = call("provision", *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def begun(folder: Path, project: str = PROJECT, scenario: str = SCENARIO, **more: bytes) -> Machines:
    """An operator who has begun; ``more`` are files beside the project file, ``_`` for a dot."""
    (folder / "project.toml").write_text(project)
    (folder / "federation.toml").write_text(scenario)
    for name, content in more.items():
        (folder / name.replace("_", ".")).write_bytes(content)
    made = Machines(folder)
    done("begin", folder / "project.toml", "--out", made.operator)
    return made


def signed(folder: Path, **given: Any) -> Machines:
    """All machines have their answers."""
    made = begun(folder, **given)
    for name in MACHINES:
        made.request(name)
    made.sign(*MACHINES)
    return made


def copied(made: Machines, folder: Path) -> Machines:
    """A copy of all folders, to change."""
    shutil.copytree(made.folder, folder, dirs_exist_ok=True)
    return Machines(folder)


def changed_file(path: Path, out: Path, **fields: Any) -> Path:
    """A copy of a signed file whose body has other values; signatures stay."""
    outer = json.loads(path.read_text())
    body = json.loads(outer["body"]) | fields
    out.write_text(json.dumps(outer | {"body": json.dumps(body)}))
    return out


def changed_line(text: str, field: str, value: str | int) -> str:
    """A TOML text with another value of a field, which it has once."""
    lines = text.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith(f"{field} = "))
    lines[at] = f"{field} = {write_value(value)}"
    return "\n".join(lines) + "\n"
