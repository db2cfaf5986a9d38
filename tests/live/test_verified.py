"""Verified rounds over a broker: parties that are processes repeat what the server makes of each round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from securefl.runtime.transport.broker import find_mosquitto
from securefl.training.models.checkpoint import load_model
from tests.live.federated import BROKERS, STEPS, Run, run, simulate
from tests.live.scenarios import behaviour, write_scenario
from tests.unit.cli.programs import call, refusal

pytestmark = pytest.mark.live

SEEDED = ("--insecure-seeded-entropy", "--seed", "7")
VERIFIED = (
    "secure_sum.verify=committee",
    "secure_sum.colluders=2",
    "secure_sum.colluders_per_cluster=1",
    "aggregation.rule={type='median'}",
    "server_optimiser.momentum=0.5",
    "deadlines.verify=60",
)
SETTINGS = tuple(part for setting in VERIFIED for part in ("--set", setting))


def scenario(folder: Path, behaviours: str = "", rounds: int = 3) -> Path:
    return write_scenario(
        folder, behaviours, parties=12, size=4, threshold=3, min_survivors=3, server="active", rounds=rounds
    )


def followed(ended: Run, party: str) -> list[int]:
    """Rounds whose model a party went on with."""
    return [int(str(e.fields["round"])) for e in ended.transcript(party).entries if e.kind == "link_followed"]


@pytest.mark.parametrize("broker", BROKERS)
def test_every_round_is_confirmed_and_has_the_bits_of_the_simulation(broker: str, tmp_path: Path) -> None:
    path = scenario(tmp_path)
    real = run(path, tmp_path / "run", *SEEDED, *SETTINGS, "--broker", broker)
    twin = simulate(path, tmp_path / "simulation", *SEEDED, *SETTINGS)
    assert (real.exit_code, twin.exit_code) == (0, 0), real.stderr
    one, two = load_model(real.directory.model_file), load_model(twin.directory.model_file)
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)
    confirmed = [e.fields["round"] for e in real.transcript("server").entries if e.kind == "claim_confirmed"]
    assert confirmed == [0, 1, 2]
    for number in range(12):
        assert followed(real, f"p{number:02d}") == [0, 1]


def test_whoever_has_the_run_directory_verifies_it(tmp_path: Path) -> None:
    ended = run(scenario(tmp_path, rounds=2), tmp_path / "run", *SEEDED, *SETTINGS, "--lab")
    assert ended.exit_code == 0, ended.stderr
    done = call("verify", ended.directory.path, "--out", tmp_path / "page", width=200)
    assert done.exit_code == 0, done.output
    assert "follows from the first model and the certified sums of rounds 0 to 1" in " ".join(
        done.output.split()
    )
    rows = [line for line in (tmp_path / "page" / "verify.md").read_text().splitlines() if "| yes |" in line]
    assert len(rows) == 2
    assert "confirmed" in rows[0]
    assert "chain" in call("audit", ended.directory.path, "--json").stdout
    model = ended.directory.model_file
    content = model.read_bytes()
    model.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    told = call("verify", ended.directory.path, "--json")
    assert told.exit_code == 1
    assert "is not the last one of the chain" in told.stdout


def test_a_simulation_has_nothing_to_verify(tmp_path: Path) -> None:
    ended = simulate(scenario(tmp_path, rounds=1), tmp_path / "simulation", *SEEDED, *SETTINGS)
    assert "a simulation signs nothing" in refusal(call("verify", ended.directory.path))


def test_a_member_that_dies_costs_no_round(tmp_path: Path) -> None:
    """Before it signs anything: its cluster opens with three, and one of them repeats the opening for it."""
    killed = behaviour("kill", "p03", phase="after-freeze", rounds=[0])
    ended = run(scenario(tmp_path, killed), tmp_path / "run", *SEEDED, *SETTINGS)
    assert ended.exit_code == 0, ended.stderr
    entries = ended.transcript("server").entries
    assert [e.fields["round"] for e in entries if e.kind == "claim_confirmed"] == [0, 1, 2]
    assert followed(ended, "p00") == [0, 1]


SIXTY = (
    "parties=60",
    "secure_sum.colluders=6",
    "clustering.size=5",
    "secure_sum.threshold=4",
    "secure_sum.min_survivors=4",
    *(f"deadlines.{step}=120" for step in STEPS),
    "deadlines.verify=120",
)


def asked(ended: Run) -> list[str]:
    """Who was sent a proof of round 0."""
    sent = [e.fields for e in ended.transcript("server").entries if e.kind == "sent"]
    return [str(s["to"]) for s in sent if str(s["message"]).endswith("Proof") and _round_of(s) == 0]


def _round_of(fields: Any) -> int:
    return int(fields["place"][0])


def repeated(ended: Run, party: str) -> set[int]:
    """Rounds of which a party has repeated an opening or the step."""
    return {int(str(e.fields["round"])) for e in ended.transcript(party).entries if e.kind == "repeated"}


@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed")
def test_sixty_parties_go_on_when_two_verifiers_are_killed_in_mid_round(tmp_path: Path) -> None:
    """They die once they have let go of their shares, and are asked to repeat what these opened."""
    settings = tuple(part for setting in (*VERIFIED, *SIXTY) for part in ("--set", setting))
    killed = ("p11", "p23")
    lines = "".join(behaviour("kill", name, phase="after-release", rounds=[0]) for name in killed)
    path = scenario(tmp_path, lines, rounds=2)
    ended = run(path, tmp_path / "run", *SEEDED, *settings, "--broker", "mosquitto")
    assert ended.exit_code == 0, ended.stderr
    assert {*killed} <= {*asked(ended)}, "else it shows nothing"
    confirmed = [e.fields["round"] for e in ended.transcript("server").entries if e.kind == "claim_confirmed"]
    assert confirmed == [0, 1]
    assert not any(repeated(ended, name) for name in killed)
    assert all(0 in repeated(ended, name) for name in asked(ended) if name not in killed)
    assert followed(ended, "p00") == [0]
    assert [one["survivors"] for one in ended.summary["rounds"]] == [60, 58]
