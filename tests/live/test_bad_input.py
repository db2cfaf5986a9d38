"""Bad surroundings for real processes: an untrusted broker, a disk that fills up, a foreign scenario."""

from __future__ import annotations

import asyncio
import dataclasses
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.transcript.chain import read_transcript
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.broker import start_local_broker
from securefl.runtime.transport.local_tls import make_local_tls
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.federated import LIMIT, command, environment
from tests.live.forked import Forked, fork
from tests.live.scenarios import write_scenario
from tests.unit.cli.programs import call, files, refusal

pytestmark = pytest.mark.live

StartedT = TypeVar("StartedT")


def test_a_broker_that_is_not_trusted_or_does_not_trust_us_is_refused(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    tls = make_local_tls(tmp_path / "tls", ["server"])
    other = make_local_tls(tmp_path / "other", ["server"])
    before = files(tmp_path)
    (tmp_path / "broker").mkdir()
    with start_local_broker("auto", tmp_path / "broker", 0, tls) as broker:
        ours, theirs = tls.clients["server"], other.clients["server"]
        for authority, client, words, code in (
            (other.ca_file, ours, "is not trusted", 2),
            (tls.ca_file, theirs, "the client certificate is missing or rejected", 3),
            (tls.ca_file, None, "the client certificate is missing or rejected", 3),
        ):
            options: list[str | Path] = ["--broker", str(broker.url), "--tls-ca", authority]
            if client is not None:
                options += ["--tls-cert", client.cert_file, "--tls-key", client.key_file]
            assert words in refusal(call("run", scenario, *options, "--out", tmp_path / "run"), code)
        plain = dataclasses.replace(broker.url, scheme="mqtt", ca_file=None)
        reason = refusal(call("run", scenario, "--broker", str(plain), "--out", tmp_path / "run"), 3)
        assert "unless it is down, this is a TLS port, which needs mqtts://" in reason
    assert {path for path in files(tmp_path) if not path.startswith(("broker", "run"))} == before


@pytest.mark.parametrize(
    ("factory", "words"),
    [("nosuch:thing", "nosuch cannot be imported"), ("os.path:join", "os.path:join(")],
)
def test_a_model_that_cannot_be_made_is_refused_once_and_before_any_process(
    tmp_path: Path, factory: str, words: str
) -> None:
    scenario = write_scenario(tmp_path)
    model = f"model={{type='custom', factory='{factory}'}}"
    ended = call("run", scenario, "--broker", "embedded", "--set", model, "--out", tmp_path / "run")
    reason = refusal(ended)
    assert reason.startswith("model.factory: ")
    assert words in reason
    assert "keys for" not in ended.stdout


def limited_files() -> None:
    """A disk that is full for every file beyond this size, without a file system of our own."""
    size = 150_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE as Linux has it")
def test_a_disk_that_fills_up_ends_the_run_and_loses_nothing_written(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, rounds=200)
    ended = subprocess.run(
        command("run", str(scenario), "--out", str(tmp_path / "run")),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(),
        check=False,
        preexec_fn=limited_files,
    )
    assert ended.returncode == 3, ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "server.jsonl: cannot be written: File too large" in ended.stderr
    assert "free disk space" in ended.stderr
    directory = RunDirectory.open(tmp_path / "run")
    rounds = len(directory.read_metrics())
    assert 0 < rounds < 200
    for path in (tmp_path / "run" / "transcripts").iterdir():
        transcript = read_transcript(path)
        assert len(transcript.entries) > 10, path
    server = read_transcript(directory.transcript_folder / "server.jsonl")
    assert not server.complete
    assert directory.model_file.stat().st_size > 0
    assert not [path for path in (tmp_path / "run").rglob("*") if path.name.endswith(".part")]


async def until_spoken(broker: BrokerUrl, parties: int, start: Callable[[], StartedT]) -> StartedT:
    """Start processes and wait until so many of them have published something."""
    transport = await MqttTransport.connect(broker, "test", ("sfl/1/deployed/status/+",))
    started = start()
    async with asyncio.timeout(LIMIT):
        seen: set[str] = set()
        while len(seen) < parties:
            seen.add((await transport.receive()).topic)
    await transport.close()
    return started


def test_processes_with_their_own_keys_meet_and_a_stranger_is_told(tmp_path: Path) -> None:
    """``securefl server`` and ``securefl party`` as on different machines; p03 has another scenario."""
    scenario = write_scenario(tmp_path, parties=4, rounds=1)
    assert call("keygen", "--all-in-one", "4", "--out", tmp_path).exit_code == 0
    rng = np.random.default_rng(1)
    np.savez(
        tmp_path / "data.npz",
        x=rng.normal(size=(40, 1, 8, 8)).astype(np.float32),
        y=np.arange(40) % 10,
        classes=np.int64(10),
    )
    with start_local_broker("auto", tmp_path, 0, None) as broker:
        common = [
            *("--roster", str(tmp_path / "roster.toml"), "--broker", str(broker.url)),
            *("--run", "deployed", "--out", str(tmp_path / "out")),
        ]

        def arguments(kind: str, name: str, *more: str) -> list[str]:
            data = ("--key", str(tmp_path / f"{name}.key"), "--data", str(tmp_path / "data.npz"))
            return [kind, str(scenario), *data, *common, *more]

        def start(words: list[str]) -> subprocess.Popen[str]:
            return subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
            )

        observer = start([sys.executable, "-m", "securefl", "observer", *common])

        def parties() -> tuple[subprocess.Popen[str], list[Forked]]:
            # All but p00 start as quickly as in a run, with the libraries that a fork server has imported.
            others = [
                fork(tmp_path / name, *arguments("party", name, "--name", name, *more))
                for name, more in (("p01", ()), ("p02", ()), ("p03", ("--set", "training.epochs=7")))
            ]
            return start(command(*arguments("party", "p00", "--name", "p00"))), others

        first, (*others, stranger) = asyncio.run(until_spoken(broker.url, 4, parties))
        code, led, complaint = fork(tmp_path / "server", *arguments("server", "server")).wait(LIMIT)
        assert code == 0, complaint
        output = first.communicate(timeout=LIMIT)
        assert first.returncode == 0, output
        for other in others:
            assert other.wait(LIMIT)[0] == 0
        code, _, complaint = stranger.wait(LIMIT)
        seen, _ = observer.communicate(timeout=LIMIT)
    assert code == 3
    assert len(complaint.splitlines()) == 1
    assert "differs from the server's" in complaint
    assert "3 of 3 counted" in led
    assert "look uniform" in seen
    for name in ("server", "observer", "p00", "p01", "p02", "p03"):
        assert read_transcript(tmp_path / "out" / "transcripts" / f"{name}.jsonl").complete
