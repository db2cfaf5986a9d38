"""A federation whose keys, certificates and files are made by ``securefl provision`` alone.

Each machine is a user of its own in a network namespace of its own, if the system allows it: machines share
requests, answers and the broker's port. Services start as their units state. Between two runs a site gets new
keys, and another one is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from securefl.runtime.process.ground_truth import LAB_FRAMES
from securefl.runtime.provision.kit import read_kit
from securefl.runtime.transport.broker import find_mosquitto
from tests.live.federated import LIMIT
from tests.live.provisioned import UIDS, Place, begin, broker, machines, quiet, write_weights
from tests.live.test_deployment_guide import HOSPITAL
from tests.unit.provision.test_no_key_leaves import leaks

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("users"),
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is needed"),
]
SITES = ("p00", "p01", "p02")
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


@pytest.fixture
def place() -> Iterator[Place]:
    with machines(*SITES) as made:
        yield made


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


def allow_code(place: Place, name: str) -> None:
    """The site has the code that the operator names, and its policy allows it."""
    (place.folder / name / "hospital.py").write_text(HOSPITAL)
    place.securefl(name, "agent", "kit.toml", "--write-policy")


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
    operator = begin(place, SCENARIO)
    requests = [word for name in place.machines for word in place.request(name)]
    place.securefl("op", "provision", "sign", ".", *requests)
    place.accept(*place.machines, operator=operator)
    for name in SITES:
        allow_code(place, name)
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
    for name in ("op", *place.machines):
        uid = UIDS[name]
        owners = {path.lstat().st_uid for path in (place.folder / name).rglob("*.key")}
        assert owners == {uid}


def test_a_running_broker_takes_a_new_list_of_revoked_certificates(place: Place) -> None:
    operator = begin(place, SCENARIO)
    requests = [word for name in place.machines for word in place.request(name)]
    place.securefl("op", "provision", "sign", ".", *requests)
    place.accept(*place.machines, operator=operator)
    for name in ("p00", "p01"):
        allow_code(place, name)
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
