"""``/metrics``, ``/healthz`` and ``/readyz``: what reports make of them, and who cannot delay whom."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Aborted
from securefl.protocol.round.shared.reports import (
    AnyReport,
    ConnectionBack,
    ConnectionLost,
    EpochLed,
    NothingLearned,
    PartiesJoined,
    QuorumAwaited,
    RoundStarted,
    StepReached,
)
from securefl.runtime.monitoring.endpoint import MOST_CONNECTIONS, monitoring
from securefl.runtime.monitoring.monitor import RunMonitor
from securefl.runtime.monitoring.rejections import CLASSES, rejection_class
from securefl.runtime.monitoring.state import BOUNDS, MOST_VALUES, Durations
from securefl.runtime.report.witness import (
    Ending,
    Fact,
    PartyPresence,
    Refusal,
    Traffic,
    Waiting,
)
from tests.simulation.world import scenario
from tests.unit.monitoring.scrapes import fetch, readiness, scrape, value
from tests.unit.report.test_rundir import NOON

P0, P1 = PartyId("p00"), PartyId("p01")


@pytest.fixture
def monitor() -> RunMonitor:
    return RunMonitor("r1", scenario(6))


@pytest.fixture
def url(monitor: RunMonitor) -> Iterator[str]:
    with monitoring("127.0.0.1", 0, monitor) as found:
        yield found


def tell(monitor: RunMonitor, *reports: AnyReport, name: PartyId = SERVER) -> None:
    for one in reports:
        monitor.take(name, Fact(1.0, one))


def test_before_the_first_news_there_is_health_and_no_readiness(url: str) -> None:
    assert fetch(f"{url}/healthz")[0] == 200
    assert readiness(url) == (503, {"ready": False, "reasons": ["starting"]})
    assert scrape(url) == {}


def test_a_server_is_ready_once_its_parties_are_there(monitor: RunMonitor, url: str) -> None:
    monitor.take(SERVER, PartyPresence(joined=1, connected=2, expected=3))
    monitor.take(SERVER, Waiting(("south",), NOON, asked=3))
    reason = "waiting for parties: 1 of 3 have joined, without south"
    assert readiness(url) == (503, {"ready": False, "reasons": [reason]})
    samples = scrape(url)
    assert [value(samples, f"securefl_parties_{what}") for what in ("joined", "connected", "expected")] == [
        *(1, 2, 3)
    ]
    assert value(samples, "securefl_waiting_for_parties") == 1
    tell(monitor, PartiesJoined((P0, P1), ()), RoundStarted(0, b""), StepReached(0, "hello"))
    assert readiness(url) == (200, {"ready": True, "reasons": []})
    assert value(scrape(url), "securefl_step", securefl_step="hello") == 1
    tell(monitor, QuorumAwaited(0, "one is there", 1.0))
    assert readiness(url)[0] == 503
    tell(monitor, StepReached(0, "reveal"))
    assert (readiness(url)[0], value(scrape(url), "securefl_ready")) == (200, 1)
    assert value(scrape(url), "securefl_step", securefl_step="hello") == 0


def test_a_party_is_ready_while_it_is_connected(monitor: RunMonitor, url: str) -> None:
    monitor.take(P0, PartyPresence(joined=0, connected=0, expected=3))
    assert readiness(url)[0] == 200
    tell(monitor, ConnectionLost(), name=P0)
    assert readiness(url) == (503, {"ready": False, "reasons": ["not connected to the broker"]})
    tell(monitor, ConnectionBack(2, kept=True), name=P0)
    assert readiness(url)[0] == 200
    assert value(scrape(url), "securefl_reconnections_total", "p00") == 1
    monitor.take(P0, Ending(Aborted("over")))
    assert readiness(url) == (503, {"ready": False, "reasons": ["the run has ended"]})


def test_counters_follow_from_news(monitor: RunMonitor, url: str) -> None:
    monitor.take(SERVER, PartyPresence(0, 0, expected=3))
    monitor.take(SERVER, Traffic({"p00": (1, 10), "p01": (2, 20)}, {"*": (2, 100), "p00": (1, 5)}))
    monitor.take(P0, Traffic({"server": (2, 100)}, {"server": (1, 10)}))
    for reason in ("late: Hello of round 0, too", "signs the survivors at the wrong time", "what?"):
        monitor.take(SERVER, Refusal(1.0, "p01", reason))
    tell(monitor, EpochLed(3, 1))
    tell(monitor, NothingLearned(0, 0, "out of memory"), name=P0)
    samples = scrape(url)
    volumes = [
        (value(samples, f"securefl_{what}_total", process, direction=way))
        for what in ("messages", "traffic_bytes")
        for process in ("server", "p00")
        for way in ("up", "down")
    ]
    assert volumes == [3, 7, 1, 2, 30, 305, 10, 100]
    counts = {one: value(samples, "securefl_rejections_total", reason=one) for one in CLASSES}
    assert counts == dict.fromkeys(CLASSES, 0.0) | {"late": 1, "untimely": 1, "other": 1}
    assert value(samples, "securefl_restarts_total") == 2
    assert value(samples, "securefl_failed_trainings_total", "p00") == 1
    assert not any(sample == "securefl_epsilon" for sample, _ in samples), "no privacy, no epsilon"
    assert "out of memory" not in fetch(f"{url}/metrics")[2], "a reason is free text of a site"


def test_failed_trainings_of_others_may_be_secret() -> None:
    monitor = RunMonitor("r1", scenario(6), trainings=False)
    tell(monitor, NothingLearned(0, 0, "out of memory"), name=P0)
    with monitoring("127.0.0.1", 0, monitor) as url:
        assert not any(name.startswith("securefl_failed_trainings") for name, _ in scrape(url))


def test_labels_do_not_grow_with_what_peers_send(monitor: RunMonitor, url: str) -> None:
    monitor.take(SERVER, Refusal(1.0, "p01", "what?"))
    before = scrape(url).keys()
    for number in range(1000):
        monitor.take(SERVER, Refusal(1.0, f"stranger{number}", f"reason {number}"))
        monitor.take(SERVER, Traffic({f"stranger{number}": (1, 1)}))
    assert scrape(url).keys() == before
    assert MOST_VALUES <= 64


@pytest.mark.parametrize(
    ("reason", "expected"),
    {
        "late: meant for the server before it was started again": "late",
        "the certificate has signatures of another statement": "authentication",
        "Hello of round 3 arrived too early: the server is joining": "untimely",
        "Hello is not in its canonical encoding": "malformed",
        "runs another configuration than this party": "other",
        "": "other",
    }.items(),
)
def test_reasons_have_classes(reason: str, expected: str) -> None:
    assert rejection_class(reason) == expected


def test_a_histogram_is_cumulative() -> None:
    found = Durations()
    for seconds in (0.1, 0.2, 5000.0):
        found = found.plus(seconds)
    assert found.total == pytest.approx(5000.3)
    assert found.buckets()[:2] == [("0.1", 1), ("0.25", 2)]
    assert found.buckets()[-2:] == [(str(BOUNDS[-1]), 2), ("+Inf", 3)]


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/../etc/passwd"])
def test_other_paths_name_those_that_there_are(url: str, path: str) -> None:
    status, _, text = fetch(url + path)
    assert (status, json.loads(text)["paths"]) == (404, ["/metrics", "/healthz", "/readyz"])


def test_clients_that_do_not_read_exclude_neither_the_run_nor_later_clients(
    monitor: RunMonitor, url: str
) -> None:
    """Their threads are bounded; news are taken meanwhile, and others are served once they are gone."""
    address = url.removeprefix("http://").rsplit(":", 1)
    with ExitStack() as stack:
        idle = []
        for _ in range(MOST_CONNECTIONS):
            one = stack.enter_context(socket.create_connection((address[0], int(address[1])), timeout=30))
            one.sendall(b"GET /metrics HTTP/1.0\r\n")
            idle.append(one)
        extra = stack.enter_context(socket.create_connection((address[0], int(address[1])), timeout=30))
        assert extra.recv(1) == b"", "one too many is closed at once"
        for number in range(1000):
            tell(monitor, RoundStarted(number, b""))
        assert monitor.snapshot()[SERVER].round == 999
        idle[0].sendall(b"\r\n")
        assert idle[0].makefile("rb").readline().split()[1] == b"200"
    for _ in range(1000):
        try:
            if fetch(f"{url}/healthz")[0] == 200:
                break
        except OSError:
            continue  # until a thread has noticed that its client is gone
    assert value(scrape(url), "securefl_round") == 999


def test_a_port_in_use_is_refused_in_one_line(monitor: RunMonitor, url: str) -> None:
    port = int(url.rsplit(":", 1)[1])
    with pytest.raises(ConfigError) as refused, monitoring("127.0.0.1", port, monitor):
        pass
    assert str(refused.value) == (
        f"--metrics-port: cannot listen on 127.0.0.1:{port}: Address already in use"
        " (choose a free port of this machine)"
    )


def test_a_host_that_does_not_exist_is_refused_in_one_line(monitor: RunMonitor) -> None:
    with pytest.raises(ConfigError, match=r"^--metrics-host: ") as refused:
        monitoring("no.such.invalid", 0, monitor).__enter__()
    assert str(refused.value).startswith("--metrics-host: cannot listen on no.such.invalid:0: ")


def test_without_the_extra_the_remedy_is_named(monitor: RunMonitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    monkeypatch.delitem(sys.modules, "securefl.runtime.monitoring.families", raising=False)
    with pytest.raises(ConfigError, match=r"securefl\[monitoring\]"), monitoring("127.0.0.1", 0, monitor):
        pass
