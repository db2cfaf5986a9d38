"""A server of a deployment killed in every phase: the same command goes on, and no party is started again."""

from __future__ import annotations

import json
import shutil
import signal
import threading
from pathlib import Path

import pytest

from tests.live.deployed import Site, signal_to, site, stopped, until_said
from tests.live.federated import BROKERS, LIMIT
from tests.live.forked import Forked
from tests.unit.cli.programs import call

pytestmark = pytest.mark.live

STEPS = ("hello", "reveal", "training", "release")
VERIFIED = tuple(
    word
    for each in (
        "secure_sum.server=active",
        "secure_sum.verify=committee",
        "secure_sum.threshold=3",
        "secure_sum.min_survivors=3",
        "secure_sum.colluders=1",
        "secure_sum.colluders_per_cluster=1",
        "clustering.size=3",
        "deadlines.verify=60",
    )
    for word in ("--set", each)
)


def until_recorded(place: Site, program: Forked, **fields: object) -> None:
    """Wait until the last transcript of the server has an entry with these fields."""
    folder = place.out("server") / "transcripts"
    while True:
        for path in folder.glob("server*.jsonl") if folder.exists() else ():
            for line in path.read_bytes().split(b"\n")[:-1]:
                entry = json.loads(line)
                if all(entry.get(name) == value for name, value in fields.items()):
                    return
        program.process.join(0.02)
        assert program.process.exitcode is None, program.wait(LIMIT)


def killed(program: Forked) -> None:
    signal_to(program, signal.SIGKILL)
    program.process.join(LIMIT)


def check_end(place: Site, server: Forked, parties: dict[str, Forked], rounds: int, void: int = 1) -> str:
    """All rounds are done, all but as many as may be void have a model, and nobody was started again."""
    code, said, complaint = server.wait(LIMIT)
    assert (code, complaint) == (0, ""), said
    for name, party in parties.items():
        code, own, complaint = party.wait(LIMIT)
        assert (code, complaint) == (0, ""), (name, own)
    told = place.rows()
    assert [row["round"] for row in told] == list(range(rounds))
    assert sum(row["update_norm"] is None for row in told) <= void
    assert not (place.out("server") / "server.checkpoint").exists()
    return said


def collected(place: Site) -> Path:
    """The server's folder with the transcripts of all, as auditors collect them."""
    for name in place.parties:
        for path in (place.out(name) / "transcripts").glob("*.jsonl"):
            shutil.copy(path, place.out("server") / "transcripts" / path.name)
    return place.out("server")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("broker", BROKERS)
def test_a_server_killed_in_a_round_goes_on(broker: str, step: str, tmp_path: Path) -> None:
    """A kill that comes late, under load, costs the round after it: that is not the last one."""
    with site(tmp_path, broker, rounds=4) as place:
        parties = place.start_parties(training=0.2)
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=1, step=step)
        killed(first)
        second = place.start("server")
        said = check_end(place, second, parties, 4)
        assert "the run resumes from the checkpoint of round" in said
        audited = call("audit", collected(place))
        assert audited.exit_code == 0, audited.stdout


def test_ordinary_traffic_after_a_restart_is_no_accusation(tmp_path: Path) -> None:
    """Neither a console nor a log says that anybody has rejected a message of anybody."""
    with site(tmp_path, "mosquitto", rounds=4) as place:
        log = ("--log-level", "debug")
        parties = {name: place.start(name, before=log, training=0.2) for name in place.parties}
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=1, step="training")
        killed(first)
        second = place.start("server", before=log)
        for program in (second, *parties.values()):
            assert program.wait(LIMIT)[0] == 0
            said = program.stdout.read_text()
            logged = program.stderr.read_text()
            assert "rejected a message" not in said
            assert "connected to" in logged
            assert "rejects a message" not in logged


def test_a_long_journal_is_written_anew_and_a_killed_server_goes_on(tmp_path: Path) -> None:
    """It is as long as it was after thousands of rounds: with entries of another run, which stay."""
    with site(tmp_path, "embedded") as place:
        former = '{"run": "former", "round": 1, "step": "announced"}\n' * 1500
        place.out("server").mkdir()
        journal = place.out("server") / "server.journal"
        journal.write_text(former)
        parties = place.start_parties(training=0.2)
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=1, step="release")
        killed(first)
        check_end(place, place.start("server"), parties, 3)
        own = journal.read_text().removeprefix(former).splitlines()
        assert [json.loads(line)["round"] for line in own] == [1, 2, 2]


def test_a_server_killed_as_it_waits_for_parties_comes_back(tmp_path: Path) -> None:
    """The server is killed between the header of its transcript and the first round."""
    with site(tmp_path, "embedded") as place:
        first = place.start("server")
        until_recorded(place, first, kind="header")
        killed(first)
        parties = place.start_parties()
        check_end(place, place.start("server"), parties, 3, void=0)


def test_a_server_killed_after_the_end_writes_down_the_outcome(tmp_path: Path) -> None:
    """The parties know the end, the broker keeps it, and there is no summary yet."""
    with site(tmp_path, "mosquitto") as place:
        parties = place.start_parties(training=0.2)
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=2, step="training")
        state = (place.out("server") / "server.checkpoint").read_bytes()
        check_end(place, first, parties, 3)
        summary = place.out("server") / "summary.json"
        told = json.loads(summary.read_text())
        summary.unlink()
        (place.out("server") / "server.checkpoint").write_bytes(state)
        said = check_end(place, place.start("server"), parties, 3)
        assert said.splitlines()[-1] == "done: 3 rounds done"
        again = json.loads(summary.read_text())
        assert (again["exit_code"], again["reason"]) == (0, told["reason"]) == (0, "3 rounds done")
        code, said, complaint = place.start("server").wait(LIMIT)
        assert (code, len(complaint.splitlines())) == (2, 1)
        assert "without a checkpoint" in complaint


def test_a_server_killed_in_every_round_of_a_verified_run_goes_on(tmp_path: Path) -> None:
    """Killed in the step, not after it: what parties have released keeps the next rounds on the same model
    closed, by their own accounts, and a last round without a model is exit code 1."""
    with site(tmp_path, "mosquitto", parties=6, rounds=5) as place:
        parties = place.start_parties(*VERIFIED, training=0.1)
        for at in ((0, "MaskedInput"), (1, "Endorse"), (2, "Hello"), (3, "ChainedReveal")):
            server = place.start("server", *VERIFIED, dies_at=at)
            server.process.join(LIMIT)
            assert server.process.exitcode == -signal.SIGKILL, server.wait(LIMIT)
        check_end(place, place.start("server", *VERIFIED), parties, 5, void=4)
        summary = json.loads((place.out("server") / "summary.json").read_text())
        # Each process has heard of some of them.
        stepped = [row["round"] for row in place.rows() if row["update_norm"] is not None]
        assert set(summary["verification"]["confirmed"]) == set(stepped) >= {4}


def test_a_second_server_is_refused_while_the_first_one_leads(tmp_path: Path) -> None:
    with site(tmp_path, "mosquitto") as place:
        parties = place.start_parties(training=0.3)
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=0, step="training")
        with stopped(parties):
            code, said, complaint = place.start("server", out=tmp_path / "elsewhere").wait(LIMIT)
        assert (code, said) == (2, "")
        assert "led by another server" in complaint
        check_end(place, first, parties, 3, void=0)


def test_sigterm_pauses_after_the_round_and_parties_wait(tmp_path: Path) -> None:
    with site(tmp_path, "mosquitto") as place:
        parties = place.start_parties(training=0.3)
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=0, step="training")
        signal_to(first, signal.SIGTERM)
        code, said, complaint = first.wait(LIMIT)
        assert (code, complaint) == (4, ""), said
        assert [row["round"] for row in place.rows()] == [0]
        for party in parties.values():
            until_said(party, "the run pauses: stopped by SIGTERM")
        check_end(place, place.start("server"), parties, 3, void=0)


def test_an_older_copy_of_the_disk_reopens_nothing(tmp_path: Path) -> None:
    with site(tmp_path, "mosquitto", rounds=5) as place:
        parties = place.start_parties(training=0.2)
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=1, step="training")
        old = (place.out("server") / "server.checkpoint").read_bytes()
        until_recorded(place, first, kind="step_reached", round=3, step="training")
        killed(first)
        copy = tmp_path / "copy"
        copy.mkdir()
        (copy / "server.checkpoint").write_bytes(old)
        code, _, complaint = place.start("server", out=copy).wait(LIMIT)
        assert code == 5
        assert "an older copy" in complaint
        check_end(place, place.start("server"), parties, 5)


@pytest.mark.parametrize("steps", [("hello", "training"), ("reveal", "release"), ("training", "done")])
@pytest.mark.parametrize(
    ("count", "more"),
    [
        (6, ()),
        (6, ("--set", "clustering.reclusterings=2", "--set", "leakage.mode=report")),
        # The model depends on who was in which cluster.
        (9, ("--set", 'aggregation.rule={ type = "median" }')),
    ],
)
def test_a_simulation_like_it_has_the_same_model(
    count: int, more: tuple[str, ...], steps: tuple[str, ...], tmp_path: Path
) -> None:
    """With seeded entropy, bit for bit, with void rounds, absences and a second server that ends a round.

    A server killed at "done" has written down all of its round but the end.
    """
    with site(tmp_path, "mosquitto", parties=count, rounds=6) as place:
        data = tmp_path / "data"
        assert call("data", "export", place.scenario, "--seed", "7", "--out", data, *more).exit_code == 0
        more = ("--set", "clustering.size=3", *more)
        seeded = ("--insecure-seeded-entropy", "--seed", "7", *more)
        parties = {
            name: place.start(name, *seeded, "--data", str(data / f"{name}.npz"), training=0.2)
            for name in place.parties
        }
        test = ("--data", str(data / "test.npz"))
        for round_, step in zip((1, 3), steps, strict=True):
            at_end = (round_, "RoundDone") if step == "done" else None
            server = place.start("server", *seeded, *test, dies_at=at_end)
            if at_end:
                server.process.join(LIMIT)
                assert server.process.exitcode == -signal.SIGKILL, server.wait(LIMIT)
            else:
                until_recorded(place, server, kind="step_reached", round=round_, step=step)
                killed(server)
            # Away for a while: p05 is not in the draw that follows.
            signal_to(parties["p05"], signal.SIGKILL)
            parties["p05"].process.join(LIMIT)
            parties["p05"] = place.start(
                "p05", *seeded, "--data", str(data / "p05.npz"), out=place.out("p05"), training=0.2
            )
        last = place.start("server", *seeded, *test)
        check_end(place, last, parties, 6, void=1 if "done" in steps else 2)
        simulated = call(
            "simulate",
            place.scenario,
            *seeded,
            "--exact",
            "--like",
            place.out("server"),
            "--out",
            tmp_path / "sim",
        )
        assert simulated.exit_code == 0, simulated.stdout
        ours, theirs = (
            (folder / "model.safetensors").read_bytes() for folder in (place.out("server"), tmp_path / "sim")
        )
        assert ours == theirs
        lines = (tmp_path / "sim" / "metrics.jsonl").read_text().splitlines()
        for ran, again in zip(place.rows(), map(json.loads, lines), strict=True):
            assert ran["clusters"]["opened"] == again["clusters"]["opened"]


def test_a_server_killed_as_it_tests_a_model_has_the_whole_row(tmp_path: Path) -> None:
    """The next server ends the round: its row lists the sums that the first one opened."""
    more = ("--set", "clustering.reclusterings=2", "--set", "leakage.mode=report")
    with site(tmp_path, "mosquitto", parties=6, size=3) as place:
        parties = place.start_parties(*more, training=0.1)
        first = place.start("server", *more, dies_at=(1, "RoundDone"))
        first.process.join(LIMIT)
        assert first.process.exitcode == -signal.SIGKILL, first.wait(LIMIT)
        assert [row["round"] for row in place.rows()] == [0]
        check_end(place, place.start("server", *more), parties, 3, void=0)
        for row in place.rows():
            opened = row["clusters"]["opened"]
            assert [(one["reclustering"], one["cluster"]) for one in opened] == [
                (0, 0),
                (0, 1),
                (1, 0),
                (1, 1),
            ]
            assert all(len(one["survivors"]) == 3 for one in opened)
            assert row["counted"] == 6


TIGHT = tuple(
    word
    for step in ("hello", "reveal", "keys", "shares", "training", "certify", "release")
    for word in ("--set", f"deadlines.{step}=4")
)


@pytest.mark.parametrize("step", STEPS)
def test_a_server_that_stood_still_loses_no_round(step: str, tmp_path: Path) -> None:
    """Stopped for twice the deadline: deadlines move by the time that was not run, and all are counted."""
    with site(tmp_path, "embedded", parties=6, size=3) as place:
        parties = place.start_parties(*TIGHT, training=0.2)
        server = place.start("server", *TIGHT)
        until_recorded(place, server, kind="step_reached", round=1, step=step)
        with stopped({"server": server}):
            threading.Event().wait(8)  # the fault itself: a machine that is suspended
        check_end(place, server, parties, 3, void=0)
        assert place.counted() == [6, 6, 6]
