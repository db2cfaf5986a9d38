"""A deployed run leaves what a local one leaves, judges it alike, and does so however it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from securefl.lab.audit.load import load
from securefl.lab.audit.run import audit
from securefl.runtime.report.rundir import RunDirectory
from tests.live.deployed import contents, signal_to, site, until_said
from tests.live.federated import BROKERS, LIMIT, events, run
from tests.live.scenarios import write_scenario

pytestmark = pytest.mark.live
UNMET = '\n[[expect]]\nmetric = "rounds"\nat_least = 9\n[[expect]]\nmetric = "refusals"\nat_most = 0\n'


def shape(value: Any) -> Any:
    """Which keys there are, but for steps, sizes, and counts of parties, which no deployed server knows."""
    left_out = {"seconds", "sums_by_size", "failed_trainings", "updates_beyond_range", "beyond_range"}
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items() if key not in left_out}
    return [shape(item) for item in value[:1]] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("broker", BROKERS)
def test_a_deployed_run_leaves_what_a_local_one_leaves(broker: str, tmp_path: Path) -> None:
    """Its server's folder and its parties' hold together the files of a run directory, and say as much."""
    with site(tmp_path, broker, more=UNMET) as place:
        parties = place.start_parties()
        code, said, complaint = place.start("server", "--json", "--keep-models", "2").wait(LIMIT)
        assert (code, complaint) == (1, ""), said
        for name, party in parties.items():
            assert party.wait(LIMIT)[0] == 0, name
        local = run(place.scenario, tmp_path / "local", "--broker", broker, "--keep-models", "2")
        assert local.exit_code == 1, local.stderr
        left = contents(place.out("server"))
        for name in place.parties:
            left |= contents(place.out(name))
        # In a local run the last model lies beside the parties' files anyway.
        heard = {f"{name}.last.safetensors" for name in place.parties}
        # A local run cannot go on: its keys end with it.
        assert left.keys() == contents(tmp_path / "local").keys() | heard | {"server.journal"}
        deployed = RunDirectory.open(place.out("server"))
        assert deployed.scenario_file.read_bytes() == local.directory.scenario_file.read_bytes()
        summary, own = deployed.read_summary(), local.summary
        # A server knows how its own transcript ends, and nobody else's.
        assert summary.pop("transcripts").keys() == {"server"} < own.pop("transcripts").keys()
        assert shape(summary) == shape(own)
        assert [shape(row) for row in deployed.read_metrics()] == [shape(row) for row in local.rows]
        lines, alike = events(said), events(local.stdout)
        assert lines[-1] == {"event": "summary", **deployed.read_summary()}
        assert {line["event"] for line in lines} == {line["event"] for line in alike} - {"note"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_server_that_is_stopped_leaves_its_summary_and_everybody_a_model(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Ctrl-C ends the run; after the others it goes on, and parties wait.

    A minute of rounds is left for the signal.
    """
    with site(tmp_path, "embedded", rounds=300) as place:
        parties = place.start_parties(training=0.2)
        server = place.start("server", "--keep-models", "all")
        until_said(server, "server: round 1:")
        signal_to(server, number)
        code, said, complaint = server.wait(LIMIT)
        if number == signal.SIGINT:
            assert (code, complaint) == (3, f"aborted stopped by {number.name}\n"), said
        else:
            assert (code, complaint) == (4, ""), said
        assert (place.out("server") / "server.checkpoint").exists() == (number != signal.SIGINT)
        summary = json.loads((place.out("server") / "summary.json").read_text())
        assert (summary["exit_code"], summary["reason"]) == (code, f"stopped by {number.name}")
        assert len(summary["rounds"]) >= 2
        assert summary["transcripts"].keys() == {"server"}
        models = [
            (place.out("server") / "models" / f"round-{row['round']:04d}.safetensors").read_bytes()
            for row in summary["rounds"]
        ]
        assert models[-1] == (place.out("server") / "model.safetensors").read_bytes()
        assert len({*models}) == len(models)
        for name, party in parties.items():
            if number != signal.SIGINT:
                until_said(party, f"the run pauses: stopped by {number.name}")
                signal_to(party, signal.SIGTERM)
            assert party.wait(LIMIT)[0] == 3
            # Of the last round, if it was announced; a party may have been told of the end first.
            assert (place.out(name) / f"{name}.last.safetensors").read_bytes() in models[-2:]


def test_before_its_run_begins_a_signal_leaves_nothing(tmp_path: Path) -> None:
    """While it listens for other servers: it has not got as far as writing anything."""
    with site(tmp_path, "embedded") as place:
        server = place.start("server", listening=60.0)
        place.out("server").mkdir(exist_ok=True)
        while not any(place.out("server").iterdir()):
            server.process.join(0.01)
            assert server.process.exitcode is None
        signal_to(server, signal.SIGTERM)
        code, said, complaint = server.wait(LIMIT)
        assert (code, said) == (3, "")
        assert complaint == "aborted by SIGTERM; what was written stays\n"
        assert contents(place.out("server")) == {}


def test_transcripts_of_processes_keep_to_their_bound_and_are_audited(tmp_path: Path) -> None:
    """Thirty rounds are 2.7 MB at this server; a party's 0.4 MB stay whole."""
    scenario = write_scenario(tmp_path, rounds=30)
    ended = run(scenario, tmp_path / "run", "--broker", "embedded", "--transcript-megabytes", "1")
    assert ended.exit_code == 0, ended.stderr
    folder = ended.directory.transcript_folder
    assert sum(file.stat().st_size for file in folder.rglob("server*.jsonl")) <= 1_000_000
    server, party = ended.transcript("server"), ended.transcript("p03")
    assert server.complete
    assert server.round is not None
    assert party.first == 0
    recorded = load(ended.directory.path)
    assert recorded.beheaded == ("server",)
    report = audit(recorded)
    assert report.exit_code == 0
    claims = " ".join(finding.claim for finding in report.findings)
    assert f"server lacks rounds 0 to {server.round - 1}" in claims
    assert f"The models of {30 - server.round} rounds follow from the opened sums" in claims
