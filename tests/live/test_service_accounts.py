"""The guide as written: each process a user of its own, without a home, over TLS.

Users are numbers, so that none is made. It takes root, and an interpreter that other users can start.
"""

from __future__ import annotations

import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_breast_cancer

from securefl.runtime.transport.broker import find_mosquitto
from securefl.scenario import load_scenario
from tests.live.federated import LIMIT
from tests.live.other_users import as_user, clean
from tests.live.test_deployment_guide import (
    NAMES,
    PARTIES,
    Unit,
    block,
    check_audit_of,
    mosquitto,
    shell,
    site,
    spelled,
    unit,
)

__all__ = ["site"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_training"
UIDS = {name: 42_310 + number for number, name in enumerate(NAMES)}


pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("users"),
    pytest.mark.skipif(
        find_mosquitto() is None or shutil.which("openssl") is None or shutil.which("bash") is None,
        reason="mosquitto, openssl and bash are needed",
    ),
]


def done_as_written(text: str, name: str, site: Path, where: Path) -> None:
    """Run commands of the guide for a name: numbers for users, this interpreter, and this folder."""
    text = re.sub(r"^useradd .*\n", "", text, flags=re.MULTILINE)
    text = text.replace('"securefl-$NAME"', str(UIDS[name])).replace("/srv/trial-1/.venv/bin/securefl", RUN)
    shell(f"NAME={name}\n{text}".replace("/srv/trial-1", str(site / "srv")), where)


RUN = f"{sys.executable} -m securefl"


def stated_by(found: Unit, site: Path) -> dict[str, str]:
    """The variables of a unit, its folders those of the test."""
    return {key: value.replace("/srv/trial-1", str(site / "srv")) for key, value in found.environment.items()}


def service(name: str, site: Path, port: int, **given: str) -> subprocess.Popen[str]:
    """Start the unit of a name as systemd would: its user, folder and environment, and no others."""
    found = unit("server" if name == "server" else "party", name)
    assert found.user == f"securefl-{name}"
    assert found.command[0] == "/srv/trial-1/.venv/bin/securefl"
    words = [word.replace("broker.example.org", f"localhost:{port}") for word in found.command[1:]]
    stated = stated_by(found, site)
    return subprocess.Popen(
        [*as_user(UIDS[name]), *RUN.split(), *words],
        cwd=found.folder.replace("/srv/trial-1", str(site / "srv")),
        env=clean(HOME="/nonexistent", **{**stated, **given}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def prepared(site: Path, port: int, stack: ExitStack) -> None:
    """Steps 2 to 5: first weights, accounts with their keys, roster, certificates, broker, and files."""
    shutil.copy(EXAMPLE / "hospital.py", site)
    (site / "federation.toml").write_text(block("toml", '"hospitals"'))
    assert load_scenario(site / "federation.toml") == load_scenario(EXAMPLE / "federation.toml")
    shell(block("bash", "site weights").replace(".venv/bin/securefl", RUN), site)
    (site / "srv").mkdir()
    (site / "keys").mkdir()
    for name in NAMES:
        done_as_written(block("bash", "useradd"), name, site, site)
        shutil.copy(site / "srv" / name / "keys" / f"{name}.pub", site / "keys")
    (roster,) = spelled("securefl keygen --roster")
    shell(" ".join([RUN, *roster[1:]]), site)
    stack.enter_context(mosquitto(site, port))
    for name in NAMES:
        done_as_written(block("bash", "initial.safetensors \\"), name, site, site)


def check_owners(site: Path, name: str) -> None:
    """All files of a process are its user's; keys, account and state are for no one else."""
    folder, uid = site / "srv" / name, UIDS[name]
    owners = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    assert {(found.st_uid, found.st_gid) for found in owners.values()} == {(uid, uid)}
    private = [folder, folder / "keys" / f"{name}.key", folder / f"{name}.tls.key"]
    if name != "server":
        state = folder / "state"
        assert {path.suffix for path in state.iterdir()} == {".tip", ".lock"}
        private += [folder / "keys" / f"{name}.account", state, *state.iterdir()]
    for path in private:
        assert stat.S_IMODE(owners[path].st_mode) & 0o077 == 0, path
    other = UIDS["server" if name == "p00" else "p00"]
    for path in private[1:]:
        reads = subprocess.run([*as_user(other), "cat", path], capture_output=True, text=True, check=False)
        assert reads.returncode != 0, path
        assert "Permission denied" in reads.stderr


def check_accounts(site: Path) -> None:
    """Step 7: each party's account lists the run."""
    for name in PARTIES:
        folder = site / "srv" / name
        shown = subprocess.run(
            [*as_user(UIDS[name]), *RUN.split(), "account", "--key", f"keys/{name}.key"],
            cwd=folder,
            env=clean(HOME="/nonexistent", **stated_by(unit("party", name), site)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert shown.returncode == 0, shown.stderr
        assert "gave updates to 1 run" in shown.stdout
        assert "trial-1" in shown.stdout


def check_model(file: Path) -> None:
    """The model in plain torch, as good on all patients as its metrics state."""
    model = torch.nn.Linear(30, 1)
    model.load_state_dict(load_file(file))
    x, y = load_breast_cancer(return_X_y=True)
    scaled = np.concatenate([_standardised(x[start::5]) for start in range(5)])
    labels = np.concatenate([y[start::5] for start in range(5)])
    with torch.no_grad():
        scores = model(torch.from_numpy(scaled.astype(np.float32)))[:, 0].numpy()
    assert ((scores > 0) == labels).mean() > 0.96


def _standardised(x: np.ndarray) -> np.ndarray:
    """As a hospital scales its own patients."""
    scaled: np.ndarray = (x - x.mean(axis=0)) / x.std(axis=0)
    return scaled


def ended(processes: Iterable[tuple[str, subprocess.Popen[str]]]) -> dict[str, str]:
    """What each printed; all end with exit code 0."""
    texts = {name: (*process.communicate(timeout=LIMIT), process.returncode) for name, process in processes}
    for name, (out, error, code) in texts.items():
        assert code == 0, f"{name}: {out}{error}"
        assert error == "", f"{name}: {error}"
    return {name: out for name, (out, _, _) in texts.items()}


def test_the_services_of_the_guide_work_as_separate_users(site: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        prepared(site, port, stack)
        # A unit without the variable is refused, in a line that names it.
        stated = service("p00", site, port, SECUREFL_STATE="")
        out, error = stated.communicate(timeout=LIMIT)
        assert stated.returncode == 2, out + error
        assert "set SECUREFL_STATE" in error
        assert len(error.splitlines()) == 1
        # A server without the first weights, too.
        (site / "srv" / "server" / "initial.safetensors").rename(site / "kept")
        lacking = service("server", site, port)
        out, error = lacking.communicate(timeout=LIMIT)
        assert lacking.returncode == 2, out + error
        assert "each process needs it, also the server" in error
        (site / "kept").rename(site / "srv" / "server" / "initial.safetensors")
        running = {name: service(name, site, port) for name in NAMES}
        for process in running.values():
            stack.callback(process.kill)
        printed = ended(running.items())
    rounds = re.findall(r"^server: round (\d+): .*5 of 5 counted", printed["server"], re.MULTILINE)
    assert len(rounds) >= 10
    for name in NAMES:
        check_owners(site, name)
    check_accounts(site)
    server = site / "srv" / "server"
    check_model(server / "trial-1" / "best.safetensors")
    check_audit_of(server)
    shell(f"{RUN} verify trial-1", server)
