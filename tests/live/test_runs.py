"""Whole runs, real processes, real brokers: exact sums, kills at each phase, same bits, no plain bytes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest

from securefl.learning.checkpoint import load_model
from securefl.transport.broker import find_mosquitto
from tests.live.federated import BROKERS, LIMIT, assert_sums_are_exact, command, environment, run
from tests.live.scenarios import behaviour, write_scenario

pytestmark = pytest.mark.live

PHASES = ["before-keys", "after-keys", "after-shares", "after-masked-input", "after-freeze"]


@pytest.mark.parametrize("broker", BROKERS)
def test_the_quickstart_reaches_its_accuracy_and_counts_the_right_parties(
    broker: str, tmp_path: Path
) -> None:
    ended = run(Path("quickstart"), tmp_path / "run", "--broker", broker)
    assert ended.exit_code == 0, ended.stderr
    assert ended.summary["outcome"]["accuracy"] >= 0.90
    everybody = {f"p{i:02d}" for i in range(12)}
    for row in ended.rows:
        expected = everybody - ({"p03"} if row["round"] in {2, 5} else set())
        assert set(row["survivors"]) == expected


@pytest.mark.parametrize("server", ["curious", "active"])
def test_a_kill_at_each_phase_leaves_the_exact_sum_of_the_survivors(server: str, tmp_path: Path) -> None:
    """One party is killed (SIGKILL) in each of five rounds, each at another phase, at R = 2."""
    kills = [
        behaviour("kill", f"p{index:02d}", phase=phase, rounds=[index]) for index, phase in enumerate(PHASES)
    ]
    scenario = write_scenario(
        tmp_path,
        "".join(kills),
        parties=16,
        size=4,
        reclusterings=2,
        threshold=3 if server == "active" else 2,
        min_survivors=3 if server == "active" else 2,
        server=server,
        rounds=6,
    )
    ended = run(scenario, tmp_path / "run", "--lab")
    assert ended.exit_code == 0, ended.stderr
    assert assert_sums_are_exact(ended) > 0
    for row in ended.rows:
        dead = {f"p{i:02d}" for i in range(5) if i < row["round"] or (i == row["round"] and i < 3)}
        counted = set(row["survivors"])
        assert not counted & dead, (row["round"], counted & dead)
        sums = [set(seen["survivors"]) for seen in row["clusters"]["opened"]]
        for party in counted:
            assert sum(party in members for members in sums) in {0, 2}, "in all reclusterings or in none"


def test_more_kills_than_a_cluster_stands_lose_it_cleanly(tmp_path: Path) -> None:
    kills = "".join(behaviour("kill", f"p0{i}", phase="after-shares", rounds=[0]) for i in range(4))
    scenario = write_scenario(tmp_path, kills, parties=6, rounds=1)
    ended = run(scenario, tmp_path / "run", "--lab")
    assert ended.exit_code in {0, 3}
    assert_sums_are_exact(ended)
    for row in ended.rows:
        assert all(len(seen["survivors"]) >= 2 for seen in row["clusters"]["opened"])


@pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed")
def test_tls_with_client_certificates_and_the_embedded_broker_give_the_same_model(tmp_path: Path) -> None:
    drop = behaviour("drop", "p01", phase="after-shares", rounds=[1])
    scenario = write_scenario(tmp_path, drop, rounds=3)
    seeded = ("--insecure-seeded-entropy", "--seed", "7")
    first = run(scenario, tmp_path / "a", "--broker", "mosquitto", "--tls", *seeded)
    second = run(scenario, tmp_path / "b", "--broker", "embedded", *seeded)
    assert (first.exit_code, second.exit_code) == (0, 0), first.stderr + second.stderr
    one, two = load_model(first.directory.model_file), load_model(second.directory.model_file)
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert "INSECURE" in first.stdout


def test_ctrl_c_ends_everything_cleanly(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, rounds=500)
    process = subprocess.Popen(
        command("run", str(scenario), "--out", str(tmp_path / "run"), "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if '"round_done"' in line:
            break
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 8
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=LIMIT)
    assert process.returncode == 3
    assert len(stderr.strip().splitlines()) == 1, stderr
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count("\n") >= 1
    assert (tmp_path / "run" / "model.safetensors").exists()
