"""Connections break and brokers restart while parties train for seconds: runs go on, with all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from securefl.base.ids import PartyId, RunId
from securefl.methods.attacks.assignment import party_names
from securefl.protocol.round.shared.reports import AnyReport, StepReached
from securefl.protocol.wire import topics
from securefl.runtime.launch import federation, process
from securefl.runtime.process.publisher import GONE
from securefl.runtime.report.progress import JsonProgress
from securefl.runtime.transport.broker import BrokerKind, RunningBroker, start_embedded, start_mosquitto
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live import dawdling
from tests.live.federated import BROKERS, Run, events, run
from tests.live.relay import Relay
from tests.live.scenarios import write_scenario

pytestmark = pytest.mark.live

STEPS = ("hello", "reveal", "training", "certify", "release")
DOWN = 3.0
"""Seconds without a broker, as 'systemctl restart' takes."""
BRIEFLY = 0.2


def start(kind: BrokerKind, directory: Path, port: int = 0) -> RunningBroker:
    make = start_mosquitto if kind == "mosquitto" else start_embedded
    return make(directory / "broker", port=port)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, str], Callable[[], None]]:
    """What is done when the server reaches a step of a round; parties train slowly."""
    acts: dict[tuple[int, str], Callable[[], None]] = {}
    report = JsonProgress.on_report

    def watched(self: JsonProgress, now: float, item: AnyReport) -> None:
        report(self, now, item)
        if isinstance(item, StepReached):
            acts.get((item.round, item.step), lambda: None)()

    monkeypatch.setattr(JsonProgress, "on_report", watched)
    monkeypatch.setattr(process, "party", dawdling.main)
    return acts


def counted(ended: Run) -> list[int]:
    assert ended.exit_code == 0, ended.stderr
    return [len(row["survivors"]) for row in ended.rows]


@pytest.mark.parametrize("kind", BROKERS)
def test_a_connection_that_breaks_costs_nobody_a_round(
    kind: BrokerKind, tmp_path: Path, at: dict[tuple[int, str], Callable[[], None]]
) -> None:
    """Every party's is reset while it trains: in round 0 those of three, in round 1 all at once."""
    everybody = party_names(6)
    with start(kind, tmp_path) as broker, Relay(broker.url) as relay:
        at[0, "training"] = lambda: relay.reset(everybody[:3])
        at[1, "training"] = lambda: relay.reset(everybody)
        ended = run(write_scenario(tmp_path, rounds=3), tmp_path / "run", "--broker", relay.url)
    assert counted(ended) == [6, 6, 6]
    for name in everybody:
        back = ended.transcript(name).of_kind("connection_back")
        assert len(back) == (2 if name in everybody[:3] else 1)
        assert all(entry.fields["kept"] for entry in back)


@contextmanager
def called_gone(broker: RunningBroker, run_id: RunId, names: Iterable[str]) -> Iterator[None]:
    """Meanwhile somebody says five times a second, in the broker's name, that these connections broke."""
    over = threading.Event()

    async def forge() -> None:
        transport = await MqttTransport.connect(broker.url, "forger", ())
        while not over.is_set():
            for name in names:
                await transport.publish(topics.status(run_id, PartyId(name)), GONE)
            await asyncio.sleep(0.2)
        await transport.close()

    with ThreadPoolExecutor(1) as pool:
        forging = pool.submit(asyncio.run, forge())
        try:
            yield
        finally:
            over.set()
            forging.result()


@pytest.mark.parametrize("kind", BROKERS)
def test_forged_words_of_the_broker_cost_nobody_a_round(
    kind: BrokerKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever needs seconds to train is said to be gone all the time; two answer at once."""
    run_id = RunId("forged")
    monkeypatch.setattr(process, "party", dawdling.all_but_two)
    monkeypatch.setattr(federation, "fresh_run_id", lambda _seed: run_id)
    slow = [name for name in party_names(6) if name not in dawdling.QUICK]
    with start(kind, tmp_path) as broker, called_gone(broker, run_id, slow):
        ended = run(write_scenario(tmp_path), tmp_path / "run", "--broker", str(broker.url))
    assert counted(ended) == [6, 6]


@pytest.mark.parametrize("kind", BROKERS)
def test_a_broker_that_restarts_in_any_step_costs_nobody_a_round(
    kind: BrokerKind, tmp_path: Path, at: dict[tuple[int, str], Callable[[], None]]
) -> None:
    """SIGTERM, and a while later a broker that knows nothing: at hello of round 0, reveal of round 1, ..."""
    broker = start(kind, tmp_path)
    port = broker.url.port

    def restart(down: float) -> None:
        nonlocal broker
        broker.stop()
        threading.Event().wait(down)
        broker = start(kind, tmp_path, port)

    for round_, step in enumerate(STEPS):
        at[round_, step] = partial(restart, DOWN if kind == "mosquitto" or step == "training" else BRIEFLY)
    scenario = write_scenario(tmp_path, threshold=3, min_survivors=3, server="active", rounds=len(STEPS))
    try:
        ended = run(scenario, tmp_path / "run", "--broker", f"mqtt://127.0.0.1:{port}")
    finally:
        broker.stop()
    assert counted(ended) == [6] * len(STEPS)
    back = ended.transcript("server").of_kind("connection_back")
    assert [entry.fields["kept"] for entry in back] == [False] * len(STEPS)
    assert sum(event["event"] == "connection_lost" for event in events(ended.stdout)) == len(STEPS)
