"""Two bridged mosquitto brokers, as docs/brokers.md has it: parties at one, the server at the other."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.wire import topics
from securefl.runtime.agents import board
from securefl.runtime.process.publisher import GONE
from securefl.runtime.transport.acl import mosquitto_acl
from securefl.runtime.transport.base import ArrivedFrame, BrokerUrl
from securefl.runtime.transport.broker import RunningBroker, find_mosquitto, start_mosquitto
from securefl.runtime.transport.local_tls import LocalTls, make_local_tls
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.deployed import site
from tests.live.federated import LIMIT
from tests.live.outages import acting
from tests.live.test_transport import QUICK, Wire, as_user, run, take

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed"),
]
GUIDE = (Path(__file__).parents[2] / "docs" / "brokers.md").read_text()
RUN, P00 = RunId("bridged"), PartyId("p00")


def bridge_lines(far: BrokerUrl, tls: LocalTls | None = None) -> tuple[str, ...]:
    """What the guide says."""
    blocks: list[str] = re.findall(r"^```\n(connection .*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    (block,) = blocks
    block = block.replace("hub.example.org:8883", f"{far.host}:{far.port}")
    if tls is None:
        return tuple(line for line in block.splitlines() if "/etc/" not in line)
    own = tls.clients["bridge"]
    for name, file in (
        ("ca.pem", tls.ca_file),
        ("bridge.tls.pem", own.cert_file),
        ("bridge.tls.key", own.key_file),
    ):
        assert f"/etc/mosquitto/securefl/{name}\n" in block
        block = block.replace(f"/etc/mosquitto/securefl/{name}\n", f"{file}\n")
    return tuple(block.splitlines())


@dataclass
class Bridged:
    """``far``: where the server is; ``near``: where the parties are, which begins the bridge."""

    folder: Path
    far: RunningBroker
    near: RunningBroker
    lines: tuple[str, ...]
    """Of the bridge."""

    def restart(self, which: str) -> None:
        broker: RunningBroker = getattr(self, which)
        broker.stop()
        port = broker.url.port
        lines = self.lines if which == "near" else ()
        setattr(self, which, start_mosquitto(self.folder / which, port=port, extra_lines=lines))


@contextmanager
def bridged(folder: Path, tls: LocalTls | None = None, pause: str = "1 5") -> Iterator[Bridged]:
    """``pause``: seconds until the bridge is made again, in mosquitto's words."""
    rules: tuple[str, ...] = ()
    if tls is not None:
        (folder / "far.acl").write_text(mosquitto_acl(["bridge"]))
        (folder / "far.acl").chmod(0o600)
        rules = (f"acl_file {folder / 'far.acl'}",)
    far = start_mosquitto(folder / "far", tls=tls, extra_lines=rules)
    try:
        told = bridge_lines(far.url, tls)
        lines = tuple(line.replace("restart_timeout 1 5", f"restart_timeout {pause}") for line in told)
        near = start_mosquitto(folder / "near", tls=tls, acl=tls is not None, extra_lines=lines)
        both = Bridged(folder, far, near, lines)
        try:
            yield both
        finally:
            both.near.stop()
            both.far.stop()
    finally:
        far.stop()


async def crossing(far: BrokerUrl, near: BrokerUrl) -> None:
    """Wait until the bridge passes on what either broker is told: ``far`` by the server, ``near`` by p00."""
    there = await MqttTransport.connect(far, "there", (topics.up(RUN, P00),), limits=QUICK)
    here = await MqttTransport.connect(near, "here", (topics.down(RUN, P00),), limits=QUICK)
    for sender, topic, hearer in (
        (here, topics.up(RUN, P00), there),
        (there, topics.down(RUN, P00), here),
    ):
        hearing = asyncio.create_task(hearer.receive())
        while not hearing.done():
            await sender.publish(topic, b"is it there?")
            await asyncio.wait({hearing}, timeout=0.1)
    for transport in (here, there):
        await transport.close()


@pytest.mark.parametrize("secured", [False, True], ids=["open", "tls-and-rules"])
def test_what_crosses_a_bridge(secured: bool, tmp_path: Path) -> None:
    """Frames both ways, once each; wills; the end of a run, for whoever comes later at either broker."""
    tls = make_local_tls(tmp_path / "tls", ["server", "observer", "p00", "bridge"]) if secured else None

    def at(broker: RunningBroker, user: str) -> BrokerUrl:
        return broker.url if tls is None else as_user(broker.url, tls, user)

    async def body() -> None:
        await crossing(at(both.far, "server"), at(both.near, "p00"))
        wire = Wire(both.near.url)
        p00 = dataclasses.replace(at(both.near, "p00"), port=(await wire.open()).port)
        will = (topics.status(RUN, P00), GONE)
        party = await MqttTransport.connect(p00, "p00", topics.subscriptions(RUN, P00), will, QUICK)
        server = await MqttTransport.connect(
            at(both.far, "server"), "server", topics.subscriptions(RUN, SERVER), limits=QUICK
        )
        near, far = [
            await MqttTransport.connect(at(broker, "observer"), "all", (f"sfl/1/{RUN}/#",), limits=QUICK)
            for broker in (both.near, both.far)
        ]
        said = [
            (party, topics.status(RUN, P00), b"here"),
            (party, topics.up(RUN, P00), b"input"),
            (server, topics.status(RUN, SERVER), b"here"),
            (server, topics.down(RUN, P00), b"model"),
        ]
        for sender, topic, payload in said:
            await sender.publish(topic, payload)
            # In order: nothing comes twice, nor back over the bridge.
            assert [await listener.receive() for listener in (near, far)] == [(topic, payload)] * 2
        assert [frame.payload for frame in await take(party, 2)] == [b"here", b"model"]
        assert [frame.payload for frame in await take(server, 3)] == [b"here", b"input", b"here"]
        wire.cut()
        assert await server.receive() == (topics.status(RUN, P00), GONE)
        end = ArrivedFrame(topics.down(RUN, EVERYONE), b"the end")
        await server.publish(*end, retain=True)
        for broker in (both.near, both.far):
            while True:
                late = await MqttTransport.connect(at(broker, "p00"), "late", (end.topic,), limits=QUICK)
                hearing = asyncio.create_task(late.receive())
                heard, _ = await asyncio.wait({hearing}, timeout=1.0)
                await late.close()
                if heard:
                    assert await hearing == end
                    break
                await asyncio.gather(hearing, return_exceptions=True)
        for transport in (party, server, near, far):
            await transport.close()
        await wire.close()

    with bridged(tmp_path, tls) as both:
        run(body)


def test_agents_beyond_a_bridge(tmp_path: Path) -> None:
    """Retained orders and notices cross, for an agent that comes later, too; none comes back."""
    tls = make_local_tls(tmp_path / "tls", ["server", "operator", "observer", "p00", "bridge"])
    of = board.Topics("trial")
    site, leader = (of.orders, of.notice("+", SERVER)), (of.orders, of.notice("+", "+"))

    async def connected(broker: RunningBroker, user: str, *filters: str) -> MqttTransport:
        return await MqttTransport.connect(as_user(broker.url, tls, user), user, filters, limits=QUICK)

    async def body() -> None:
        await crossing(as_user(both.far.url, tls, "server"), as_user(both.near.url, tls, "p00"))
        operator = await connected(both.far, "operator", f"{of.root}/#")
        server = await connected(both.far, "server", *leader)
        orders = [(of.submission("one"), b"submission"), (of.part("one", 0), bytes(board.PART))]
        for topic, payload in orders:
            await operator.publish(topic, payload, retain=True)
        party = await connected(both.near, "p00", *site)
        assert sorted(await take(party, 2)) == sorted(orders)
        notices = [(party, "p00", b"accepted"), (server, "server", b"running"), (party, "p00", b"running")]
        for sender, name, payload in notices:
            await sender.publish(of.notice("one", name), payload, retain=True)
            if sender is server:
                assert await party.receive() == (of.notice("one", name), payload)
        sent = orders + [(of.notice("one", name), payload) for _, name, payload in notices]
        for hearer in (operator, server):
            assert sorted(await take(hearer, 5)) == sorted(sent)
        await party.close()
        party = await connected(both.near, "p00", *site)
        assert sorted(await take(party, 3)) == sorted([*orders, sent[3]])
        # Other messages would have come before this one.
        await operator.publish(of.stop("one"), b"stop", retain=True)
        for hearer in (operator, server, party):
            assert await hearer.receive() == (of.stop("one"), b"stop")
        for transport in (party, server, operator):
            await transport.close()

    with bridged(tmp_path, tls) as both:
        run(body)


def test_a_run_over_a_bridge_goes_on_when_either_broker_restarts(tmp_path: Path) -> None:
    """While parties train; everybody is counted. Who comes late hears the end at the parties' broker."""
    with site(tmp_path, "mosquitto", rounds=3) as place, bridged(tmp_path) as both:
        asyncio.run(crossing(both.far.url, both.near.url))
        acts = {
            (0, "training"): lambda: both.restart("near"),
            (1, "training"): lambda: both.restart("far"),
        }
        with acting(both.far.url, acts) as done:
            place.broker = both.far.url
            server = place.start("server")
            place.broker = both.near.url
            parties = place.start_parties(training=1.0)
            code, said, complaint = server.wait(LIMIT)
            assert (code, complaint) == (0, ""), said
            for party in parties.values():
                assert party.wait(LIMIT)[0] == 0
            assert done == list(acts)
            code, heard, _ = place.start("p03").wait(LIMIT)
            assert (code, heard.splitlines()[-1]) == (0, "done: 3 rounds done")
    assert place.counted() == [4] * 3


def test_a_broker_that_forgets_a_bridge_costs_nobody_beyond_it_a_round(tmp_path: Path) -> None:
    """The server is back at once, the bridge seconds later: what is sent between the two goes to nobody."""
    with site(tmp_path, "mosquitto", rounds=3) as place, bridged(tmp_path, pause="4") as both:
        asyncio.run(crossing(both.far.url, both.near.url))
        acts = {
            (number, step): lambda: both.restart("far")
            for number, step in enumerate(("keys", "training", "release"))
        }
        with acting(both.far.url, acts) as done:
            place.broker = both.far.url
            server = place.start("server")
            place.broker = both.near.url
            parties = place.start_parties(training=1.0)
            code, said, complaint = server.wait(LIMIT)
            assert (code, complaint) == (0, ""), said
            for party in parties.values():
                assert party.wait(LIMIT)[0] == 0
            assert done == list(acts)
    assert place.counted() == [4] * 3
