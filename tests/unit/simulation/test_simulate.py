"""``securefl simulate``: what it leaves, what it refuses, and going on after an interruption."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from securefl.base import text
from securefl.base.ids import PartyId
from securefl.protocol.round.server.phases import ServerState
from securefl.protocol.round.shared.plan import RunPlan
from securefl.runtime.launch import simulation
from securefl.runtime.report.rundir import RunDirectory
from securefl.runtime.simulation.checkpoint import CHECKPOINT_FILE, write_checkpoint
from tests.simulation.world import scenario as small
from tests.unit.audit.runs import record
from tests.unit.cli.programs import SCENARIO, call, files, refusal, write_scenario

ROUNDS = SCENARIO.replace("rounds = 1", "rounds = 5").replace("parties = 6", "parties = 9")
KILL = """
[server_optimiser]
momentum = 0.5
[[behaviours]]
kind = "kill"
phase = "after-shares"
parties = ["p03"]
rounds = [1]
[[behaviours]]
kind = "wrong-share"
parties = ["p06"]
rounds = [2]
[[expect]]
metric = "survivors"
at_least = 8
"""


EXPECTS_AN_ABORT = '[[expect]]\nmetric = "aborted"\nat_least = 1\n'


def drop_time(rows: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_what_it_says_and_leaves(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, ROUNDS + KILL)
    ended = call("simulate", scenario, "--out", tmp_path / "out", "--seed", "3")
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.startswith("run seeded-3: simulation; 9 parties; 3 clusters of 3")
    assert "INSECURE" not in ended.stdout
    assert files(tmp_path / "out") == {
        "metrics.jsonl",
        "model.safetensors",
        "scenario.toml",
        "summary.json",
    }
    directory = RunDirectory.open(tmp_path / "out")
    assert directory.read_summary()["simulated"] is True
    assert [len(row["survivors"]) for row in directory.read_metrics()] == [9, 8, 8, 8, 8]
    culprits = {refused["culprit"] for row in directory.read_metrics() for refused in row["refusals"]}
    assert culprits == {"p06"}


def test_json_and_overrides(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    ended = call("simulate", scenario, "--out", tmp_path / "out", "--json", "--set", "stop.rounds=2")
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["event"] for line in (lines[0], lines[-1])] == ["start", "summary"]
    assert sum(line["event"] == "round_done" for line in lines) == 2


def test_an_expectation_that_does_not_hold(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SCENARIO + '[[expect]]\nmetric = "accuracy"\nat_least = 0.999\n')
    assert call("simulate", scenario, "--out", tmp_path / "out").exit_code == 1


def test_everybody_gone_aborts(tmp_path: Path) -> None:
    kill = '[[behaviours]]\nkind = "kill"\nphase = "before-keys"\ncount = 8\n'
    scenario = write_scenario(tmp_path, ROUNDS + kill)
    assert "too few parties for a round in 60 s online (deadlines.quorum)" in refusal(
        call("simulate", scenario, "--out", tmp_path / "out", "--set", "deadlines.quorum=60"), 3
    )


TRUSTING = (
    "--set",
    "aggregation.rule={type='inner-product', gamma=0.5, momentum=0.5, half_life=1.5}",
    "--set",
    "data.server_per_class=2",
)


@pytest.mark.parametrize(("rounds", "exact"), [(1, ()), (2, ("--exact",)), (2, TRUSTING), (4, ())])
def test_resumed_it_ends_as_if_never_interrupted(
    rounds: int, exact: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = write_scenario(tmp_path, ROUNDS + KILL)
    whole, halved = tmp_path / "whole", tmp_path / "halved"
    assert call("simulate", scenario, "--out", whole, "--seed", "3", *exact).exit_code == 0

    def interrupted(
        path: Path, plan: RunPlan, standing: ServerState, dead: Collection[PartyId], **how: str
    ) -> None:
        # The row of the round after the last checkpoint is on disk already.
        if standing.round > rounds:
            raise KeyboardInterrupt
        write_checkpoint(path, plan, standing, dead, **how)

    with monkeypatch.context() as patched:
        patched.setattr(simulation, "write_checkpoint", interrupted)
        stopped = call("simulate", scenario, "--out", halved, "--seed", "3", *exact)
    assert stopped.exit_code == (3 if rounds < 4 else 0)
    if rounds < 4:
        summary = RunDirectory.open(halved).read_summary()
        assert (summary["aborted"], summary["exit_code"]) == (True, 3)
        said, command = refusal(stopped, 3).split("to go on: securefl ")
        assert said == "by the user (Ctrl-C); "
        again = call(*shlex.split(command))
        assert again.exit_code == 0, again.output
        assert f"end: after 5 rounds; {text.count(rounds, 'round')} already done" in again.stdout
    one, two = RunDirectory.open(whole), RunDirectory.open(halved)
    assert one.model_file.read_bytes() == two.model_file.read_bytes()
    assert drop_time(one.read_metrics()) == drop_time(two.read_metrics())
    ends = [directory.read_summary() for directory in (one, two)]
    assert ends[0]["outcome"] == ends[1]["outcome"]
    assert ends[0]["server_view"] == ends[1]["server_view"]
    assert files(whole) == files(halved)


def interrupted_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A scenario and a directory with a checkpoint after one round."""
    scenario, out = write_scenario(folder, ROUNDS), folder / "out"

    def stop(path: Path, plan: RunPlan, standing: ServerState, dead: Collection[PartyId], **how: str) -> None:
        write_checkpoint(path, plan, standing, dead, **how)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(simulation, "write_checkpoint", stop)
        refusal(call("simulate", scenario, "--out", out), 3)
    return scenario, out


@pytest.mark.parametrize(
    "others",
    [("--seed", "4"), ("--set", "training.epochs=2"), ("--set", "model={type='mlp',hidden=[3]}")],
)
def test_another_scenarios_checkpoint_is_refused(
    others: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, out = interrupted_run(tmp_path, monkeypatch)
    before = {name: (out / name).read_bytes() for name in files(out) if (out / name).is_file()}
    ended = call("simulate", scenario, "--out", out, "--resume", *others)
    assert "another scenario, seed or model" in refusal(ended)
    assert before == {name: (out / name).read_bytes() for name in files(out) if (out / name).is_file()}


def test_the_other_way_to_train_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, out = interrupted_run(tmp_path, monkeypatch)
    said = refusal(call("simulate", scenario, "--out", out, "--resume", "--exact"))
    assert (
        "trains vectorised over parties on cpu, digits, this one trains party by party on cpu, digits" in said
    )
    assert "--exact" in said


def test_interrupted_before_a_round_had_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    scenario, out = write_scenario(tmp_path, ROUNDS + EXPECTS_AN_ABORT), tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(simulation, "write_checkpoint", stop)
        said = refusal(call("simulate", scenario, "--out", out), 3)
    assert said == "by the user (Ctrl-C) before a round had ended"
    summary = RunDirectory.open(out).read_summary()
    assert (summary["aborted"], summary["exit_code"]) == (True, 3), "an abort by the user is never expected"
    assert "nothing to resume" in refusal(call("simulate", scenario, "--out", out, "--resume"))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("nothing", "has no checkpoint"),
        ("noise", "is not a checkpoint"),
        ("foreign", "is not a checkpoint"),
        ("cut", "is not a checkpoint"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    damage: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, out = interrupted_run(tmp_path, monkeypatch)
    path = out / CHECKPOINT_FILE
    whole = path.read_bytes()
    match damage:
        case "nothing":
            path.unlink()
        case "noise":
            path.write_bytes(bytes(100))
        case "foreign":
            path.write_bytes(save({"params": np.zeros(3, np.float32)}))
        case "cut":
            path.write_bytes(whole[:-9])
    said = refusal(call("simulate", scenario, "--out", out, "--resume"))
    assert said.partition(": ")[2].startswith(reason)


def test_missing_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, out = interrupted_run(tmp_path, monkeypatch)
    (out / "metrics.jsonl").write_text("")
    assert "lacks some of the first 1 rounds" in refusal(call("simulate", scenario, "--out", out, "--resume"))


def test_a_finished_or_unnamed_simulation_is_not_resumed(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path)
    assert call("simulate", scenario, "--out", tmp_path / "out").exit_code == 0
    finished = call("simulate", scenario, "--out", tmp_path / "out", "--resume")
    assert "nothing to resume" in refusal(finished)
    assert "--out" in refusal(call("simulate", scenario, "--resume"))
    assert "is not a directory" in refusal(call("simulate", scenario, "--resume", "--out", tmp_path / "none"))


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (
            '[[behaviours]]\nkind = "lying:SplitsModel"\n',
            "lying:SplitsModel needs messages",
        ),
        (
            '[[behaviours]]\nkind = "garbage"\ncount = 1\n[[expect]]\nmetric = "refusals"\nat_least = 1\n',
            "refusals of garbage need messages, which a simulation does not send",
        ),
    ],
)
def test_what_needs_messages_is_refused_and_nothing_is_left(extra: str, reason: str, tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SCENARIO + extra)
    assert reason in refusal(call("simulate", scenario, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_garbage_alone_is_left_out_and_said(tmp_path: Path) -> None:
    scenario = write_scenario(tmp_path, SCENARIO + '[[behaviours]]\nkind = "garbage"\ncount = 1\n')
    ended = call("simulate", scenario, "--out", tmp_path / "out")
    assert ended.exit_code == 0
    assert "NOT SIMULATED: garbage" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--set", "data.set=mnist"), "--data-dir"),
        (("--device", "tpu"), "is not one of 'auto'"),
        (("--device", "cuda"), "cuda"),
        (("--set", "data.partition={type='labels',labels=99}"), "labels"),
    ],
)
def test_bad_arguments_leave_nothing(arguments: tuple[str, str], reason: str, tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - a second that only this test costs

    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    scenario = write_scenario(tmp_path)
    assert reason in refusal(call("simulate", scenario, "--out", tmp_path / "out", *arguments)).replace(
        "CUDA", "cuda"
    )
    assert not (tmp_path / "out").exists()


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    assert "not empty" in refusal(call("simulate", write_scenario(tmp_path), "--out", tmp_path))


def test_a_full_disk_aborts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, out = write_scenario(tmp_path, ROUNDS), tmp_path / "out"

    def full(path: Path, _content: bytes) -> None:
        assert path.name == CHECKPOINT_FILE
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("securefl.runtime.simulation.checkpoint.write_whole", full)
    assert "No space left" in refusal(call("simulate", scenario, "--out", out), 3)
    assert len(RunDirectory.open(out).read_metrics()) == 1


def test_a_run_of_other_names_is_not_taken_for_one_without_its_parties(tmp_path: Path) -> None:
    """Whoever is on a roster under another name was absent from no round."""
    roster = tuple(map(PartyId, ("bern", "north", "oslo", "rome", "south", "west")))
    record(tmp_path / "run", small(6, rounds="1"), roster=roster)
    asked = call("simulate", write_scenario(tmp_path), "--like", tmp_path / "run", "--out", tmp_path / "out")
    assert refusal(asked) == (
        "--like: the run has parties named bern, north, oslo, rome, south, west,"
        " a simulation has p00 to p05 (give a run whose parties have these names)"
    )
    assert files(tmp_path / "out") == set()
