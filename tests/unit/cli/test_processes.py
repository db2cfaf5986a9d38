"""``securefl party`` and ``securefl server`` on bad input, and the observer, in this process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import securefl.cli.observer
import securefl.cli.party
import securefl.cli.server
from securefl.base.version import __version__
from securefl.runtime.launch import process
from securefl.runtime.transport.broker import BrokerWish, find_mosquitto, start_local_broker
from securefl.runtime.transport.local_tls import make_local_tls
from tests.unit.cli.programs import call, files, refusal, write_scenario

NOWHERE = "mqtt://127.0.0.1:1"
"""Port 1 (tcpmux) is served nowhere."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Keys of 6 parties, a scenario and a shard."""
    assert call("keygen", "--all-in-one", "6", "--out", tmp_path).exit_code == 0
    write_scenario(tmp_path)
    x = np.random.default_rng(1).normal(size=(20, 1, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "shard.npz", x=x, y=np.arange(20) % 10, classes=np.int64(10))
    return tmp_path


def party(site: Path, *more: str | Path, **changes: str | Path) -> list[str | Path]:
    options: dict[str, str | Path] = {
        "name": "p00",
        "key": site / "p00.key",
        "roster": site / "roster.toml",
        "data": site / "shard.npz",
        "broker": NOWHERE,
        "run": "r1",
        "out": site / "out",
    }
    listed = [word for name, value in {**options, **changes}.items() for word in (f"--{name}", value)]
    return ["party", site / "small.toml", *listed, *more]


def test_a_complete_party_gets_as_far_as_the_broker(site: Path) -> None:
    before = files(site)
    assert "cannot reach the broker mqtt://127.0.0.1:1: connection refused; check" in refusal(
        call(*party(site)), code=3
    )
    assert files(site) == before | {"out"}, "no transcript, no journal"


@pytest.mark.parametrize("program", ["party", "dealer"])
def test_a_signal_in_the_first_moments_is_told_in_a_line(
    program: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before there is a loop that could heed it."""

    def signalled(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(process, program, signalled)
    arguments = party(site)
    if program == "dealer":
        assert call("keygen", "--party", "dealer", "--out", site).exit_code == 0
        arguments = party(site, key=site / "dealer.key")
        for option in ("--name", "--data"):
            place = arguments.index(option)
            del arguments[place : place + 2]
        arguments[0] = "dealer"
    before = signal.getsignal(signal.SIGTERM)
    assert refusal(call(*arguments), code=3) == "by SIGTERM; what was written stays"
    assert signal.getsignal(signal.SIGTERM) == before


def test_all_brokers_are_tried_and_what_each_said_is_in_the_one_line(site: Path) -> None:
    other = "mqtt://127.0.0.1:2"
    reason = refusal(call(*party(site, broker=f"{NOWHERE},{other}")), code=3)
    assert reason == (
        f"none of the 2 brokers can be used: cannot reach the broker {NOWHERE}: connection refused;"
        f" cannot reach the broker {other}: connection refused"
    )


def test_a_party_keeps_to_its_own_budget(site: Path) -> None:
    """The options reach the accountant: one release of this scenario spends more than what is left."""
    config = """
[training.dp_sgd]
[encoding]
scale_bits = 12
[weighting]
mode = "ignore"
[privacy]
unit = "record"
multiplier = 1.5
records = 20
delta = 0.01
"""
    scenario = site / "small.toml"
    scenario.write_text(f"{scenario.read_text()}\n{config}")
    less = "training.batch_size=4"
    reason = refusal(call(*party(site, "--set", less, budget="3", spent="2.99")))
    assert reason.startswith("--budget: one release spends epsilon")
    assert "epsilon 3 of 3 is spent" in refusal(call(*party(site, "--set", less, budget="3", spent="3")))
    assert "cannot reach the broker mqtt://127.0.0.1:1: connection refused; check" in refusal(
        call(*party(site, "--set", less, budget="99")), code=3
    )


def test_another_partys_key_is_refused(site: Path) -> None:
    before = files(site)
    reason = refusal(call(*party(site, key=site / "p01.key")))
    assert "is the key of 'p01', not of 'p00'" in reason
    assert files(site) == before | {"out"}


@pytest.mark.parametrize("name", ["stranger", "../p00", "server", "observer", "P00", ""])
def test_an_unknown_or_impossible_name_is_refused(name: str, site: Path) -> None:
    refusal(call(*party(site, name=name)))
    assert not (site / "out" / "transcripts").exists()


def test_a_roster_with_another_key_of_ours_is_refused(site: Path) -> None:
    assert call("keygen", "--all-in-one", "6", "--out", site / "other").exit_code == 0
    reason = refusal(call(*party(site, roster=site / "other" / "roster.toml")))
    assert "does not list 'p00' with this public key" in reason
    assert "use the roster that was made from this party's .pub file" in reason


def test_a_roster_of_the_wrong_size_is_refused(site: Path) -> None:
    reason = refusal(call(*party(site, "--set", "parties=9")))
    assert "lists 6 parties, but the scenario has 9" in reason


def test_a_key_that_others_can_read_is_refused(site: Path) -> None:
    (site / "p00.key").chmod(0o644)
    assert "chmod 600" in refusal(call(*party(site)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": "gone.npz"}, "file not found"),
        ({"roster": "gone.toml"}, "cannot be read"),
        ({"key": "gone.key"}, "cannot be read"),
        ({"run": "../r"}, "'../r' is not a valid run id"),
        ({"broker": "nowhere"}, "no scheme"),
        ({"broker": f"{NOWHERE},nowhere"}, "broker: address 2 of 2: has no scheme"),
        ({"broker": f"{NOWHERE},{NOWHERE}"}, "address 2 of 2: mqtt://127.0.0.1:1 is listed twice"),
        ({"device": "abacus"}, "is not one of 'auto'"),
        ({"set": "secure_sum.threshold=9"}, "secure_sum.threshold"),
        ({"set": "training.epochs=none"}, "training.epochs"),
    ],
)
def test_bad_arguments_are_refused(changes: dict[str, str], words: str, site: Path) -> None:
    before = files(site)
    assert words in refusal(call(*party(site, **changes)))
    assert files(site) - {"out"} == before


def test_damaged_data_is_refused(site: Path) -> None:
    (site / "shard.npz").write_bytes((site / "shard.npz").read_bytes()[:200])
    assert "shard.npz" in refusal(call(*party(site)))
    np.savez(site / "shard.npz", x=np.zeros((4, 1, 8, 8), np.float32), classes=np.int64(10))
    assert "is missing; the archive holds classes, x" in refusal(call(*party(site)))


def test_a_full_folder_name_is_refused(site: Path) -> None:
    (site / "file").write_text("")
    assert "cannot be made" in refusal(call(*party(site, out=site / "file" / "x")))


def test_a_server_with_a_partys_key_is_refused(site: Path) -> None:
    arguments = [word for word in party(site) if word not in {"--name", "p00"}]
    arguments[0] = "server"
    assert "is the key of 'p00', not of 'server'" in refusal(call(*arguments))
    assert "--device: 'abacus' is not one of" in refusal(call(*arguments, "--device", "abacus"))


def server(site: Path, *more: str | Path) -> list[str | Path]:
    """A server with a rule that needs data of its own, as far as the broker."""
    common = party(site, key=site / "server.key")
    words = ["server", *[word for word in common[1:] if word not in {"--name", "p00"}]]
    return [*words, "--set", "aggregation.rule.type=zeno++", "--set", "data.server_fraction=0.05", *more]


def test_a_server_whose_rule_needs_its_data_gets_as_far_as_the_broker_with_them(site: Path) -> None:
    assert "cannot reach the broker mqtt://127.0.0.1:1: connection refused; check" in refusal(
        call(*server(site, "--server-data", site / "shard.npz")), code=3
    )
    mean = ("--set", "aggregation.rule.type=mean")
    assert "cannot reach the broker mqtt://127.0.0.1:1: connection refused; check" in refusal(
        call(*server(site, *mean)), code=3
    ), "other rules need none"


def test_a_server_without_the_data_that_its_rule_needs_is_refused(site: Path) -> None:
    before = files(site)
    assert refusal(call(*server(site))).startswith(
        "--server-data: zeno++ needs samples of the server's own (name their file"
    )
    assert "gone.npz: file not found" in refusal(call(*server(site, "--server-data", "gone.npz")))
    nothing = ("--set", "data.server_fraction=0")
    assert "data.server_fraction: zeno++ needs a gradient" in refusal(call(*server(site, *nothing)))
    assert files(site) == before | {"out"}


@pytest.mark.parametrize(("shape", "classes"), [((20, 1, 9, 9), 10), ((20, 1, 8, 8), 12)])
def test_server_data_unlike_the_test_samples_is_refused(
    shape: tuple[int, ...], classes: int, site: Path
) -> None:
    own = site / "own.npz"
    np.savez(own, x=np.zeros(shape, np.float32), y=np.arange(20) % 10, classes=np.int64(classes))
    reason = refusal(call(*server(site, "--server-data", own)))
    assert f"holds float32 samples of shape {shape[1:]} in {classes} classes, the test set float32" in reason
    assert reason.endswith("(prepare both in the same way)")


def test_every_command_explains_itself() -> None:
    for command in ("run", "server", "party", "broker", "keygen", "doctor", "bench"):
        result = call(command, "--help")
        assert result.exit_code == 0
        assert "Usage:" in result.stdout
    overview = call("--help")
    assert all(command in overview.stdout for command in ("run", "party", "more", "provision"))
    assert call("--version").stdout.startswith("securefl ")


@pytest.mark.parametrize(
    "function", [securefl.cli.party.party, securefl.cli.server.server, securefl.cli.observer.observer]
)
def test_the_programs_of_parties_explain_themselves(function: object) -> None:
    assert callable(function)
    program = typer.Typer()
    program.command()(function)
    result = CliRunner().invoke(program, ["--help"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert "--roster" in result.stdout


def test_an_observer_that_finds_no_broker_or_roster_writes_nothing(site: Path) -> None:
    before = files(site)
    common = ["observer", "--run", "r1", "--broker", NOWHERE, "--out", str(site / "seen")]
    result = call(*common, "--roster", str(site / "roster.toml"))
    assert "cannot reach the broker mqtt://127.0.0.1:1: connection refused; check" in refusal(result, code=3)
    result = call(*common, "--roster", str(site / "gone.toml"))
    assert "cannot be read" in refusal(result)
    assert files(site) == before


def test_a_broker_of_no_kind_is_refused(tmp_path: Path) -> None:
    reason = refusal(call("broker", "--kind", "pigeon", "--tls-dir", tmp_path / "tls"))
    assert "'pigeon' is not a kind of broker" in reason
    assert files(tmp_path) == set()


def test_access_rules_are_printed_with_those_of_bridges() -> None:
    plain = call("broker", "--acl").stdout
    bridged = call("broker", "--acl", "--bridge", "north", "--bridge", "south").stdout
    assert bridged.startswith(plain)
    users = [line for line in bridged.removeprefix(plain).splitlines() if line.startswith("user")]
    assert users == ["user north", "user south"]
    assert r"'north\nuser server' is not a valid name" in refusal(
        call("broker", "--acl", "--bridge", "north\nuser server")
    )
    assert "--bridge: works with --acl only" in refusal(call("broker", "--bridge", "north"))


def test_the_doctor_reports_and_shows_paths_as_they_are(tmp_path: Path) -> None:
    odd = tmp_path / "[bold]data"
    odd.mkdir()
    result = call("doctor", "--data-dir", odd, width=400)
    assert result.exit_code == 0
    assert "[bold]data" in result.stdout
    assert "broker auto" in result.stdout


def test_the_doctor_tries_brokers(tmp_path: Path) -> None:
    kind: BrokerWish = "auto" if find_mosquitto() else "embedded"
    with start_local_broker(kind, tmp_path, 0, None) as running:
        result = call("doctor", "--broker", f"{running.url},{NOWHERE}", width=400)
    assert result.exit_code == 3
    there, away = result.stdout.splitlines()[-2:]
    assert (
        there.split()
        == f"ok broker {running.url} accepts doctor, messages of 512 KiB, and keeps retained ones".split()
    )
    assert away.split()[:3] == ["missing", "broker", NOWHERE]
    assert "cannot reach it: connection refused" in " ".join(away.split())
    assert away.count(str(NOWHERE)) == 1
    assert refusal(call("doctor", "--broker", f"{NOWHERE},nowhere")).startswith(
        "broker: address 2 of 2: has no scheme"
    )


def test_the_doctor_tries_a_broker_with_the_certificate_that_it_is_given(tmp_path: Path) -> None:
    """Its common name is the one by which access rules know it."""
    kind: BrokerWish = "auto" if find_mosquitto() else "embedded"
    tls = make_local_tls(tmp_path / "tls", ["p00"])
    own = tls.clients["p00"]
    with start_local_broker(kind, tmp_path / "broker", 0, tls) as running:
        given = ("--tls-ca", tls.ca_file, "--tls-cert", own.cert_file, "--tls-key", own.key_file)
        result = call("doctor", "--broker", str(running.url), *given, width=400)
        assert f"securefl {__version__}" in result.stdout
        assert result.exit_code == 0
        bare = call("doctor", "--broker", str(running.url), "--tls-ca", tls.ca_file, width=400)
        assert bare.exit_code == 3


def test_the_doctor_looks_for_data_in_folders_that_exist(tmp_path: Path) -> None:
    reason = refusal(call("doctor", "--data-dir", tmp_path / "nowhere", width=400))
    assert reason == f"--data-dir: {tmp_path / 'nowhere'} is not a directory (name an existing one)"
