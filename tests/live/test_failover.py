"""Several brokers that know nothing of each other: tried in order, left when lost or when nobody is there."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from securefl.base.crypto.identity import Identity
from securefl.base.entropy import OsEntropy
from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.protocol.wire import topics
from securefl.runtime.transport import broker_choice, leader_lock, mqtt
from securefl.runtime.transport.addresses import Brokers
from securefl.runtime.transport.base import BrokerUrl, Link, LostFrame, MqttLimits
from securefl.runtime.transport.broker import BrokerKind, RunningBroker, start_mosquitto
from securefl.runtime.transport.broker_choice import meeting_of
from securefl.runtime.transport.leader_lock import sole_server
from securefl.runtime.transport.mqtt import MqttTransport
from securefl.runtime.transport.probe import check_retention, measure_frame_limit
from tests.live.deployed import site
from tests.live.federated import BROKERS, LIMIT
from tests.live.test_transport import QUICK, Wire, needs_mosquitto, run, start, take

pytestmark = pytest.mark.live

RUN, P00 = RunId("apart"), PartyId("p00")
GONE = b"gone"
# Nothing but the order of things hangs on these.
HURRIED = dataclasses.replace(QUICK, found_within=0.5, alone=2.5, asks_after=0.2, asks_every=0.1)


@pytest.fixture(params=BROKERS)
def kind(request: pytest.FixtureRequest) -> BrokerKind:
    value: BrokerKind = request.param
    return value


@contextmanager
def pair(kind: BrokerKind, folder: Path) -> Iterator[tuple[RunningBroker, RunningBroker, Brokers]]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(start(kind, folder / name)) for name in ("first", "second"))
        yield first, second, Brokers((first.url, second.url))


async def party(brokers: Brokers, limits: MqttLimits = HURRIED) -> MqttTransport:
    will = (topics.status(RUN, P00), GONE)
    filters = topics.subscriptions(RUN, P00)
    return await MqttTransport.connect(brokers, f"{RUN}-{P00}", filters, will, limits, meeting_of(RUN, P00))


async def server(brokers: Brokers | BrokerUrl, limits: MqttLimits = HURRIED) -> MqttTransport:
    will = (topics.status(RUN, SERVER), GONE)
    filters = topics.subscriptions(RUN, SERVER)
    return await MqttTransport.connect(
        brokers, f"{RUN}-{SERVER}", filters, will, limits, meeting_of(RUN, SERVER)
    )


def nowhere() -> BrokerUrl:
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return BrokerUrl("mqtt", "127.0.0.1", free.getsockname()[1])


def test_the_first_broker_that_is_there_is_taken(kind: BrokerKind, tmp_path: Path) -> None:
    async def body(there: BrokerUrl) -> None:
        away = nowhere()
        one = await MqttTransport.connect(Brokers((away, there)), "one", ("x",), limits=QUICK)
        other = await MqttTransport.connect(there, "other", (), limits=QUICK)
        await other.publish("x", b"heard")
        assert (await one.receive()).payload == b"heard"
        for transport in (one, other):
            await transport.close()
        with pytest.raises(RunAbortedError) as caught:
            await MqttTransport.connect(Brokers((away, nowhere())), "none", ())
        line = str(caught.value)
        assert line.startswith(
            f"none of the 2 brokers can be used: cannot reach the broker {away}: connection refused; "
        )
        assert line.count("connection refused") == 2
        assert "\n" not in line

    with start(kind, tmp_path) as broker:
        run(lambda: body(broker.url))


def test_when_a_broker_is_lost_another_one_is_taken_and_so_round(kind: BrokerKind, tmp_path: Path) -> None:
    """What a broker had acknowledged goes first at the next one, in its order, then what waited."""
    with pair(kind, tmp_path) as (first, second, brokers):

        async def body() -> None:
            nonlocal first
            links: list[Link] = []
            lost = [LostFrame("x", b"acknowledged 1"), LostFrame("x", b"acknowledged 2")]
            sender = await MqttTransport.connect(brokers, "sender", (), limits=QUICK)
            sender.watch(links.append, lambda kept: () if kept else lost)
            expected = [frame.payload for frame in lost]
            for number in range(2):
                # The other one, with somebody who listens there from the start.
                reader = await MqttTransport.connect(brokers.urls[1 - number], "reader", ("x",), limits=QUICK)
                (first, second)[number].stop()
                await asyncio.gather(sender.publish("x", b"waited 1"), sender.publish("x", b"waited 2"))
                seen = [frame.payload for frame in await take(reader, 4)]
                assert seen == [*expected, b"waited 1", b"waited 2"]
                await reader.close()
                if number == 0:
                    first = start(kind, tmp_path / "first", first.url.port)
            assert links == [Link(up=False), Link(up=True, kept=False)] * 2
            assert sender.connections == 3
            await sender.close()

        try:
            run(body)
        finally:
            first.stop()


def test_a_connection_that_breaks_is_made_to_the_same_broker_again(kind: BrokerKind, tmp_path: Path) -> None:
    with pair(kind, tmp_path) as (first, second, _):

        async def body() -> None:
            wire = Wire(first.url)
            brokers = Brokers((await wire.open(), second.url))
            away = await MqttTransport.connect(brokers, "away", ("x",), ("status/away", GONE), QUICK)
            links, back = list[Link](), asyncio.Event()

            def told(link: Link) -> None:
                links.append(link)
                if link.up:
                    back.set()

            away.watch(told)
            other = await MqttTransport.connect(first.url, "other", ("status/away",), limits=QUICK)
            # A connection that is ended at once is another matter.
            await asyncio.sleep(mqtt._AT_ONCE)
            wire.reset()
            assert (await other.receive()).payload == GONE
            await other.publish("x", b"kept")
            assert (await away.receive()).payload == b"kept"
            await back.wait()
            assert links == [Link(up=False), Link(up=True, kept=True)]
            for transport in (away, other):
                await transport.close()
            await wire.close()

        run(body)


def test_a_broker_that_ends_each_connection_at_once_is_passed_over(kind: BrokerKind, tmp_path: Path) -> None:
    """It is there, and says yes: trying it again and again would lead nowhere."""

    async def body(there: BrokerUrl) -> None:
        taken = asyncio.Event()

        async def fickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(bytes.fromhex("20020000"))
            taken.set()
            writer.close()

        fickle_server = await asyncio.start_server(fickle, "127.0.0.1", 0)
        address = BrokerUrl("mqtt", "127.0.0.1", fickle_server.sockets[0].getsockname()[1])
        wire = Wire(there)
        first = await wire.open()
        one = await MqttTransport.connect(Brokers((first, address)), "one", ("x",), limits=QUICK)
        wire.cut()
        await taken.wait()
        wire.mend()
        other = await MqttTransport.connect(there, "other", (), limits=QUICK)
        await other.publish("x", b"heard")
        assert (await one.receive()).payload == b"heard"
        for transport in (one, other):
            await transport.close()
        await wire.close()
        fickle_server.close()

    with start(kind, tmp_path) as broker:
        run(lambda: body(broker.url))


# Where the others are.


def test_a_party_goes_to_the_broker_where_the_server_is(kind: BrokerKind, tmp_path: Path) -> None:
    """Both brokers are there. What it had sent to the first one is sent again; then it stays."""
    with pair(kind, tmp_path) as (_, second, brokers):

        async def body() -> None:
            p00 = await party(brokers)
            links: list[Link] = []
            up = topics.up(RUN, P00)
            p00.watch(links.append, lambda kept: () if kept else [LostFrame(up, b"said before")])
            leader = await server(second.url)
            assert (await leader.receive()).payload == b"said before"
            await p00.publish(up, b"said later")
            assert (await leader.receive()).payload == b"said later"
            assert links == [Link(up=False), Link(up=True, kept=False)]
            made = p00.connections
            await leader.publish(topics.down(RUN, P00), b"hello")
            assert (await p00.receive()).payload == b"hello"
            # Silent for longer than it takes to look elsewhere: it asks, and is answered.
            await asyncio.sleep(1.5 * HURRIED.alone)
            assert p00.connections == made
            assert not leader._inbox
            for transport in (p00, leader):
                await transport.close()

        run(body)


def test_a_party_follows_the_server_to_another_broker(kind: BrokerKind, tmp_path: Path) -> None:
    """The server has lost the first one, which is there for everybody else."""
    with pair(kind, tmp_path) as (first, second, brokers):

        async def body() -> None:
            wire = Wire(first.url)
            leader = await server(Brokers((await wire.open(), second.url)))
            p00 = await party(brokers)
            await leader.publish(topics.down(RUN, P00), b"at the first")
            assert (await p00.receive()).payload == b"at the first"
            wire.cut()
            await p00.publish(topics.up(RUN, P00), b"nobody hears it")
            up = topics.up(RUN, P00)
            p00.watch(lambda _link: None, lambda kept: () if kept else [LostFrame(up, b"nobody heard it")])
            while (frame := await leader.receive()).payload != b"nobody heard it":
                continue
            assert frame.topic == up
            for transport in (p00, leader):
                await transport.close()
            await wire.close()

        run(body)


def test_a_server_goes_to_where_anybody_is(
    kind: BrokerKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_choice, "_SERVER_STAYS", 0.3)
    with pair(kind, tmp_path) as (_, second, brokers):

        async def body() -> None:
            p00 = await party(Brokers((second.url,)))
            leader = await server(brokers)
            back = asyncio.Event()
            leader.watch(lambda link: back.set() if link.up else None)
            await back.wait()
            await leader.publish(topics.down(RUN, P00), b"here")
            assert (await p00.receive()).payload == b"here"
            for transport in (p00, leader):
                await transport.close()

        run(body)


def test_a_party_that_finds_the_server_nowhere_gives_up_and_says_so(kind: BrokerKind, tmp_path: Path) -> None:
    with pair(kind, tmp_path) as (first, _, brokers):

        async def body() -> None:
            p00 = await party(brokers, dataclasses.replace(HURRIED, give_up_after=6.0))
            leader = await server(first.url)
            await leader.publish(topics.down(RUN, P00), b"once")
            assert (await p00.receive()).payload == b"once"
            await leader.close()
            with pytest.raises(
                RunAbortedError, match=r"no connection to .*: no other process is connected to mqtt://"
            ) as caught:
                await p00.receive()
            assert all(str(url) in str(caught.value) for url in brokers)
            await p00.close()

        run(body)


def test_processes_with_the_same_brokers_in_any_order_meet(kind: BrokerKind, tmp_path: Path) -> None:
    """The server is at one of them, the parties begin at the other one."""
    with site(tmp_path, kind, rounds=2) as place, start(kind, tmp_path / "other") as other:
        assert isinstance(place.broker, BrokerUrl)
        first, second = Brokers((place.broker, other.url)), Brokers((other.url, place.broker))
        place.broker = first
        server = place.start("server")
        place.broker = second
        parties = place.start_parties()
        code, said, complaint = server.wait(LIMIT)
        assert (code, complaint) == (0, ""), said
        assert place.counted() == [4] * 2
        for party in parties.values():
            assert party.wait(LIMIT)[0] == 0
        # The goodbye is at one of them only, and there is no server any more.
        other.stop()
        place.broker = Brokers((nowhere(), *first))
        code, heard, _ = place.start("p03").wait(LIMIT)
        assert (code, heard.splitlines()[-1]) == (0, "done: 2 rounds done")


def test_a_server_is_led_by_one_at_any_of_its_brokers(kind: BrokerKind, tmp_path: Path) -> None:
    """The one that leads has gone on at the second one; who starts again asks there, too."""
    identity = Identity.generate(SERVER, OsEntropy())
    with pair(kind, tmp_path) as (_, second, brokers):

        async def body() -> None:
            async with sole_server(second.url, RUN, identity, seconds=0.3):
                with pytest.raises(ConfigError, match="is led by another server"):
                    async with sole_server(brokers, RUN, identity, seconds=30):
                        pytest.fail("a second server")
            async with sole_server(Brokers((nowhere(), *brokers)), RUN, identity, seconds=0.3):
                pass
            with pytest.raises(RunAbortedError, match="none of the 2 brokers"):
                async with sole_server(Brokers((nowhere(), nowhere())), RUN, identity, seconds=0.3):
                    pytest.fail("a server without a broker")

        run(body)


@pytest.mark.parametrize("lost", [False, True], ids=["away-at-the-start", "given-up-later"])
def test_a_second_server_is_refused_at_a_broker_that_comes_later(
    lost: bool, kind: BrokerKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_lock, "_TRIES_EVERY", 0.05)
    identity = Identity.generate(SERVER, OsEntropy())
    with pair(kind, tmp_path) as (first, second, brokers), ExitStack() as stack:

        async def lead_again_and_again(url: BrokerUrl) -> None:
            for _ in range(30):
                async with sole_server(url, RUN, identity, seconds=0.5):
                    pass

        async def body() -> None:
            if not lost:
                second.stop()
            async with sole_server(brokers, RUN, identity, seconds=0.3, patience=0.2):
                second.stop()
                back = stack.enter_context(start(kind, tmp_path / "again", second.url.port))
                with pytest.raises(ConfigError, match="is led by another server"):
                    await lead_again_and_again(back.url)

        run(body)
        first.stop()


# What is tried at the start.


@needs_mosquitto
def test_the_smallest_limit_of_all_brokers_in_reach_counts(tmp_path: Path) -> None:
    async def body(brokers: Brokers) -> None:
        await check_retention(brokers, "p", "probe/p")
        limit = await measure_frame_limit(brokers, "p", "probe/p", wanted=128 * 1024, within=LIMIT)
        assert limit == 64 * 1024

    limited = start_mosquitto(tmp_path / "second", extra_lines=("message_size_limit 100000",))
    with start_mosquitto(tmp_path / "first") as first, limited as second:
        run(lambda: body(Brokers((first.url, nowhere(), second.url))))


@needs_mosquitto
def test_a_broker_that_refuses_us_is_named_before_it_is_needed(tmp_path: Path) -> None:
    async def body(first: BrokerUrl, second: BrokerUrl) -> None:
        for brokers in (Brokers((first, second)), Brokers((second, first))):
            with pytest.raises(
                ConfigError, match=f"{second} refuses this process: a client without a user name"
            ):
                await measure_frame_limit(brokers, "p", "probe/p", within=3.0)
            # Once a run goes on, one that takes us is enough.
            await (await MqttTransport.connect(brokers, "p", ())).close()

    closed = start_mosquitto(tmp_path / "second", extra_lines=("allow_anonymous false",))
    with start_mosquitto(tmp_path / "first") as first, closed as second:
        run(lambda: body(first.url, second.url))


def test_probes_without_any_broker_say_what_is_wrong_with_each() -> None:
    async def body() -> None:
        brokers = Brokers((nowhere(), nowhere()))
        for probing in (measure_frame_limit(brokers, "p", "x"), check_retention(brokers, "p", "x")):
            with pytest.raises(RunAbortedError, match="none of the 2 brokers") as caught:
                await probing
            assert all(f"cannot reach the broker {url}" in str(caught.value) for url in brokers)

    run(body)
