"""Units, Compose files and configuration of brokers, read back by their programs or parsers."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from securefl.runtime.transport.acl import ACL_RULES, mosquitto_acl, permits
from tests.unit.provision.machines import MACHINES, PROJECT, Machines, done, signed


def unit_of(kits: Machines, name: str) -> Path:
    """The unit of a run, and for the broker that of mosquitto."""
    (found,) = kits.at(name).glob("*.service" if name == "broker" else "*@.service")
    return found


def agent_of(kits: Machines, name: str) -> Path:
    (found,) = (path for path in kits.at(name).glob("*.service") if "@" not in path.name)
    return found


def fields(path: Path) -> dict[str, Any]:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(path.read_text())
    return dict(parser["Service"])


def test_each_unit_has_its_own_user_and_state(machines: Machines) -> None:
    machines.accept(*MACHINES)
    found = {name: fields(unit_of(machines, name)) for name in MACHINES}
    assert found["p00"]["User"] == "securefl-p00"
    assert found["broker"]["User"] == "mosquitto"
    assert len({one["StateDirectory"] for one in found.values()}) == len(MACHINES)
    for name in ("p00", "server"):
        role = "server" if name == "server" else "party"
        kit = machines.at(name) / "kit.toml"
        assert found[name]["ExecStart"] == f"/srv/securefl/.venv/bin/securefl {role} {kit} --run %i"
        assert f"SECUREFL_STATE=%S/{found[name]['StateDirectory']}" in found[name]["Environment"]
        assert found[name]["RestartPreventExitStatus"] == "1 2 5"
        agent = fields(agent_of(machines, name))
        assert agent["ExecStart"] == f"/srv/securefl/.venv/bin/securefl agent {kit}"
        shared = ("User", "StateDirectory", "Environment", "WorkingDirectory")
        assert [agent[one] for one in shared] == [found[name][one] for one in shared]
        assert (agent["KillMode"], agent["RestartPreventExitStatus"]) == ("mixed", "2")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is needed")
def test_units_pass_systemd(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / ".venv" / "bin").mkdir(parents=True)
    program = prefix / ".venv" / "bin" / "securefl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    project = PROJECT.replace('data = "samples.npz"', f'data = "samples.npz"\nprefix = "{prefix}"')
    made = signed(tmp_path, project=project)
    made.accept(*MACHINES)
    names = [name for name in MACHINES if name != "broker" or Path("/usr/sbin/mosquitto").exists()]
    for path in (path for name in names for path in made.at(name).glob("*.service")):
        checked = subprocess.run(
            ["systemd-analyze", "verify", path], capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", ""), path.name
    # It notices mistakes.
    broken = tmp_path / "broken.service"
    broken.write_text(unit_of(made, "server").read_text().replace("ExecStart=/", "ExecStart=no "))
    assert subprocess.run(["systemd-analyze", "verify", broken], capture_output=True, check=False).returncode


def test_compose_files_are_read(machines: Machines) -> None:
    machines.accept(*MACHINES)
    for name in ("p00", "p01", "server"):
        table = yaml.safe_load((machines.at(name) / "compose.yaml").read_text())
        service = table["services"][name]
        assert service["environment"]["SECUREFL_MACHINE"] == f"trial-{name}"
        assert service["volumes"] == [f"{machines.at(name)}:/kit", "state:/state"]
        assert "securefl agent /kit/kit.toml &" in service["command"][0]
        script = service["command"][0].replace("$$", "$")
        assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0
        recipe = (machines.at(name) / "Containerfile").read_text()
        words = [line.split()[0] for line in recipe.splitlines() if line and line[0] != "#"]
        assert words == ["FROM", "COPY", "RUN", "USER", "ENTRYPOINT"]
    assert yaml.safe_load((machines.at("p00") / "compose.yaml").read_text())["services"]["p00"][
        "hostname"
    ] == ("a.example.org")


def test_mosquitto_gets_rules_and_certificates(machines: Machines) -> None:
    machines.accept("broker")
    folder = machines.at("broker")
    lines = (folder / "mosquitto.conf").read_text().splitlines()
    found = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    assert found["require_certificate"] == "true"
    assert found["use_identity_as_username"] == "true"
    assert found["allow_anonymous"] == "false"
    assert found["listener"] == "18883"
    for field in ("cafile", "certfile", "keyfile", "crlfile", "acl_file"):
        assert Path(found[field]).is_relative_to(folder)
        assert Path(found[field]).exists()
    assert (folder / "securefl.acl").read_text() == mosquitto_acl()


TERM = re.compile(r'\{allow, \{user, "([a-z0-9_-]+)"\}, (publish|subscribe|all), \["([^"]+)"\]\}\.')


def test_emqx_files_have_their_format(machines: Machines) -> None:
    """HOCON as JSON, and Erlang terms. EMQX itself does not run here: this is their format only."""
    machines.accept("broker")
    folder = machines.at("broker")
    table = json.loads((folder / "emqx.conf").read_text())
    tls = table["listeners"]["ssl"]["default"]["ssl_options"]
    assert (tls["verify"], tls["fail_if_no_peer_cert"]) == ("verify_peer", True)
    assert all(Path(tls[field]).exists() for field in ("cacertfile", "certfile", "keyfile"))
    assert table["mqtt"]["peer_cert_as_username"] == "cn"
    assert table["authorization"]["no_match"] == "deny"
    (source,) = table["authorization"]["sources"]
    assert Path(source["path"]).read_text() == (folder / "emqx-acl.conf").read_text()
    first, *rules, last = (folder / "emqx-acl.conf").read_text().splitlines()
    assert first.startswith("%% ")
    assert last == "{deny, all}."
    allowed = {match.groups() for rule in rules if (match := TERM.fullmatch(rule))}
    assert len(allowed) == len(rules) == len(set(rules))
    named = sum(rule.user is not None for rule in ACL_RULES)
    assert len(rules) == 4 * (len(ACL_RULES) - named) + named


@pytest.mark.parametrize("gone", ["", "p01"])
def test_emqx_allows_what_mosquitto_allows(gone: str, machines: Machines) -> None:
    if gone:
        done("remove", machines.operator, gone)
    machines.accept("broker")
    text = (machines.at("broker") / "emqx-acl.conf").read_text()
    rules = [match.groups() for match in TERM.finditer(text)]
    topics = (
        "up/p00",
        "up/p01",
        "down/p01",
        "down/all",
        "peer/p00/p01",
        "peer/p01/p00",
        "status/server",
        "probe/p01",
    )
    for user in ("p00", "p01", "server", "observer"):
        for topic in (f"sfl/1/run/{one}" for one in topics):
            for access, action in (("read", "subscribe"), ("write", "publish")):
                matching = any(
                    name == user
                    and what in {action, "all"}
                    and _matches(which.replace("${username}", user), topic)
                    for name, what, which in rules
                )
                wanted = permits(user, access, topic)  # type: ignore[arg-type]
                # The observer's own rules for all users need a name in the roster.
                if user == "observer" and access == "write":
                    wanted = False
                if user == "observer" and "probe" in topic:
                    continue
                assert matching == (wanted and user != gone), (user, access, topic)


def _matches(pattern: str, topic: str) -> bool:
    inner = re.escape(pattern).replace(r"\+", "[^/]+").replace(r"\#", ".*")
    return re.fullmatch(inner.replace("#", ".*"), topic) is not None
