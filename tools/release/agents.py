"""Trial of an installed wheel as a federation: machines by ``provision``, agents, a submitted run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from securefl.base.errors import ConfigError

Run = Callable[[str, Path], str]
"""Runs ``securefl`` with a line of arguments in a folder, and returns its output."""
SITES = tuple(f"p{number:02d}" for number in range(5))
MACHINES = ("broker", "server", *SITES)
_WITHIN = 120


def try_agents(securefl: Path, run: Run, own: Path, folder: Path, environment: dict[str, str]) -> str:
    """Provision the federation of ``own``, start its agents, and submit a run; return a line for people.

    Args:
        securefl: the installed program.
        run: calls it.
        own: folder with site, scenario and first weights.
        folder: for the machines; must not exist.
        environment: of the agents.

    Raises:
        ConfigError: a command failed, or the run did not end as expected.
    """
    mosquitto = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
    if mosquitto is None:
        raise ConfigError("mosquitto", "is not installed", "apt-get install mosquitto")
    folder.mkdir()
    for name in ("federation.toml", "initial.safetensors"):
        shutil.copy(own / name, folder)
    (folder / "project.toml").write_text(_project(), encoding="utf-8")
    operator = _fingerprint(run("provision begin project.toml --out operator", folder))
    words = []
    for name in MACHINES:
        told = run(f"provision request --name {name} --out {name}", folder)
        words.append(f"{name}/{name}.request --fingerprint {_fingerprint(told)}")
    run(f"provision sign operator {' '.join(words)}", folder)
    for name in MACHINES:
        run(f"provision accept operator/answers/{name}.answer --out {name} --operator {operator}", folder)
    for name in SITES:
        shutil.copy(own / "hospital.py", folder / name)
        run("agent kit.toml --write-policy", folder / name)
        policy = folder / name / "policy.toml"
        text = policy.read_text().replace('decision = "ask"', 'decision = "accept"')
        # The example's metrics of single sites may follow from several rounds.
        policy.write_text(text.replace('repeats = "refuse"', 'repeats = "accept"'))
    agents = {name: [securefl, "agent", "kit.toml"] for name in ("server", *SITES)}
    with ExitStack() as stack:
        stack.enter_context(_process([mosquitto, "-c", _configuration(folder)], folder, environment))
        for name, command in agents.items():
            stack.enter_context(_process(command, folder / name, environment))
        told = run("runs submit operator trial --wait", folder)
    if "server done" not in told:
        raise ConfigError("securefl runs submit", f"ended otherwise: {told[-500:]}", "look in the folder")
    return f"provision, {len(agents)} agents and a submitted run"


def _project() -> str:
    sites = "".join(f'[[sites]]\nname = "{name}"\n' for name in SITES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return (
        'name = "wheel"\nscenario = "federation.toml"\nsite = "hospital:Hospital"\n'
        f'[broker]\nhost = "127.0.0.1"\nport = {port}\n{sites}'
    )


def _fingerprint(told: str) -> str:
    return re.findall(r"fingerprint of .*? ([0-9a-f-]{24})", told)[0]


def _configuration(folder: Path) -> Path:
    """Return mosquitto's configuration for one run by this user, without a state folder."""
    file = folder / "broker" / "mosquitto.conf"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("persistence")]
    here = file.with_name("here.conf")
    here.write_text("\n".join([*lines, *(["user root"] if os.geteuid() == 0 else [])]) + "\n")
    return here


@contextmanager
def _process(words: list[str | Path], folder: Path, environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
