"""Metrics of runs and deployments while they are in progress, against what the run leaves behind."""

from __future__ import annotations

import json
import re
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from securefl.base.errors import ConfigError
from securefl.protocol.round import AnyReport
from securefl.runtime.launch.bundled import find_bundled
from securefl.runtime.launch.federation import run_here
from securefl.runtime.launch.options import NoProgress, RunOptions
from securefl.runtime.monitoring.endpoint import MOST_CONNECTIONS
from securefl.runtime.report.records import RoundRecord
from securefl.scenario import load_scenario
from tests.live.deployed import site, until_said
from tests.live.federated import LIMIT
from tests.unit.monitoring.scrapes import Samples, fetch, readiness, scrape, value

pytestmark = pytest.mark.live
QUICKSTART = find_bundled(Path("quickstart"))


class ScrapingProgress(NoProgress):
    """It scrapes at every report and at the end; ``silent`` clients connect first and never read."""

    def __init__(self, silent: int = 0) -> None:
        self.url = ""
        self.scrapes: list[Samples] = []
        self.ready: list[int] = []
        self.clients = ExitStack()
        self._silent = silent

    def note(self, text: str) -> None:
        if found := re.match(r"metrics at (http://127\.0\.0\.1:(\d+))/metrics$", text):
            self.url = found[1]
            for _ in range(self._silent):
                client = socket.create_connection(("127.0.0.1", int(found[2])), timeout=30)
                self.clients.enter_context(client).sendall(b"GET /metrics HTTP/1.0\r\n\r\n")

    def on_report(self, now: float, report: AnyReport) -> None:
        if not self._silent:
            self.ready.append(readiness(self.url)[0])
            self.scrapes.append(scrape(self.url))

    def finish(self) -> None:
        if not self._silent and len(self.scrapes) > 1:
            self.scrapes.append(scrape(self.url))


def run_with(progress: ScrapingProgress, out: Path, *overrides: str) -> tuple[dict[str, object], list[int]]:
    """Summary of a run of two rounds, and the parties counted in each."""
    counted: list[int] = []

    def count(record: RoundRecord) -> None:
        counted.append(len(record.counted))

    scenario = load_scenario(QUICKSTART, ("stop.rounds=2", "expect=[]", *overrides))
    options = RunOptions(broker="embedded", metrics_port=0, out=out, on_round=count)
    run_here(scenario, options, progress)
    summary: dict[str, object] = json.loads((out / "summary.json").read_text())
    return summary, counted


def test_every_scrape_of_a_run_can_be_read_and_the_last_has_the_numbers_of_the_summary(
    tmp_path: Path,
) -> None:
    progress = ScrapingProgress()
    summary, counted = run_with(progress, tmp_path / "run")
    assert len(progress.scrapes) > 20
    assert 200 in progress.ready
    last = progress.scrapes[-1]
    rounds = [value(one, "securefl_rounds_total") for one in progress.scrapes]
    assert (rounds, rounds[-1], len(counted)) == (sorted(rounds), 2, 2)
    told = [(row["opened"], row["lost"], row["rejected"]) for row in summary["rounds"]]  # type: ignore[attr-defined]
    assert tuple(map(sum, zip(*told, strict=True))) == (
        value(last, "securefl_sums_opened_total"),
        value(last, "securefl_sums_lost_total"),
        value(last, "securefl_sums_rejected_total", by="rule"),
    )
    traffic = summary["traffic"]
    for way in ("up", "down"):
        assert traffic[way] == {  # type: ignore[index]
            "messages": value(last, "securefl_messages_total", direction=way),
            "bytes": value(last, "securefl_traffic_bytes_total", direction=way),
        }
    row = summary["rounds"][-1]  # type: ignore[index]
    assert value(last, "securefl_model_metric", metric="accuracy") == row["accuracy"]
    assert value(last, "securefl_model_metric", metric="loss") == row["loss"]
    assert value(last, "securefl_round_seconds_count") == 2
    spent = sum(one["seconds"] for one in summary["rounds"])  # type: ignore[attr-defined]
    assert value(last, "securefl_round_seconds_sum") == pytest.approx(spent, abs=0.01)
    rejected = sum(number for (name, _), number in last.items() if name == "securefl_rejections_total")
    assert rejected == sum(one["count"] for one in summary["refusals"])  # type: ignore[attr-defined]
    assert [value(last, f"securefl_parties_{what}") for what in ("joined", "expected")] == [12, 12]
    assert {dict(labels)["run"] for _, labels in last} == {summary["run"]}


def test_clients_that_do_not_read_cost_no_round_and_no_party(tmp_path: Path) -> None:
    progress = ScrapingProgress(silent=MOST_CONNECTIONS + 2)
    with progress.clients:
        summary, counted = run_with(progress, tmp_path / "run", "behaviours=[]")
    assert progress.url
    assert counted == [12, 12]
    assert [(row["opened"], row["lost"]) for row in summary["rounds"]] == [(4, 0), (4, 0)]  # type: ignore[attr-defined]


def test_epsilon_is_that_of_the_rows_at_the_server_and_at_a_party(tmp_path: Path) -> None:
    with site(tmp_path, "embedded", rounds=2, more=PRIVACY) as place:
        party = place.start("p00", "--metrics-port", "0", *SOON)
        programs = {name: place.start(name, *SOON) for name in place.parties[1:]}
        server = place.start("server", "--metrics-port", "0", *SOON)
        urls = [_url(until_said(one, "metrics at ")) for one in (server, party)]
        until_said(server, "round 0:")
        until_said(party, "round 0:")
        spent = value(scrape(urls[0]), "securefl_epsilon")
        own = value(scrape(urls[1]), "securefl_epsilon", "p00")
        for one in (server, party, *programs.values()):
            assert one.wait(LIMIT)[0] == 0
        epsilons = [row["epsilon"]["p00"] for row in place.rows()]
    assert spent in epsilons
    assert own in epsilons


SOON = ("--set", "deadlines.submit=4")
"""Seconds until parties send their inputs, at the same time."""
PRIVACY = """
[encoding]
clip = 1.0
scale_bits = 9
[privacy]
unit = "party"
multiplier = 4.0
delta = 1e-3
"""


def test_a_deployed_server_and_party_have_endpoints_of_their_own(tmp_path: Path) -> None:
    with site(tmp_path, "embedded", rounds=3) as place:
        server = place.start("server", "--metrics-port", "0")
        url = _url(until_said(server, "metrics at "))
        assert fetch(f"{url}/healthz")[0] == 200
        status, told = readiness(url)
        assert (status, told["ready"]) == (503, False)
        party = place.start("p00", "--metrics-port", "0")
        own = _url(until_said(party, "metrics at "))
        others = [place.start(name) for name in place.parties[1:]]
        until_said(server, "4 of 4 parties present")
        samples = scrape(url)
        assert value(samples, "securefl_parties_joined") == 4
        assert value(samples, "securefl_waiting_for_parties") == 0
        assert value(scrape(own), "securefl_broker_connected", "p00") == 1
        for one in (server, party, *others):
            assert one.wait(LIMIT)[0] == 0


def _url(said: str) -> str:
    found = re.search(r"metrics at (http://127\.0\.0\.1:\d+)/metrics", said)
    assert found, said
    return found[1]


def test_a_port_in_use_leaves_no_folder(tmp_path: Path) -> None:
    scenario = load_scenario(QUICKSTART, ("stop.rounds=1",))
    with socket.create_server(("127.0.0.1", 0)) as other:
        options = RunOptions(broker="embedded", metrics_port=other.getsockname()[1], out=tmp_path / "run")
        with pytest.raises(
            ConfigError, match=r"^--metrics-port: cannot listen on .*: Address already in use"
        ):
            run_here(scenario, options, NoProgress())
    assert not (tmp_path / "run").exists()
