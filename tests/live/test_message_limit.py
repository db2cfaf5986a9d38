"""Brokers that carry less than the one before: restarted, or spare ones. Frames arrive in carriers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import pytest

from securefl.base.errors import ConfigError, RunAbortedError
from securefl.base.ids import SERVER
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.wire import Inbox, peek, topics
from securefl.protocol.wire.envelope import CARRIER
from securefl.runtime.transport.addresses import Brokers
from securefl.runtime.transport.base import BrokerUrl, Link, LostFrame, MqttLimits
from securefl.runtime.transport.broker import RunningBroker, start_mosquitto
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.federated import events
from tests.live.federated import run as federated
from tests.live.outages import OUTSIDE, Fault, Ground, broken, once_each
from tests.live.scenarios import write_scenario
from tests.live.test_transport import QUICK, needs_mosquitto, run, take
from tests.unit.wire.ends import PLACE, RUN, A, inbox, outbox

pytestmark = [pytest.mark.live, needs_mosquitto]

Option = Literal["message_size_limit", "max_packet_size"]
OPTIONS: tuple[Option, ...] = ("message_size_limit", "max_packet_size")
UP = topics.up(RUN, A)
LARGE = MaskedInput(vector=bytes(range(256)) * 1200)
"""Travels in one frame of 300 KiB."""
PROBES = 7
"""Most connections for the probes of one connection: one for each size, and one more."""
HEADER = 1 + 2 + len(topics.probe(RUN, A)) + 2
"""Bytes of a probe's packet that mosquitto counts besides its payload: its type, its topic and its number."""


@pytest.fixture(params=OPTIONS)
def option(request: pytest.FixtureRequest) -> Option:
    value: Option = request.param
    return value


@contextmanager
def brokers(folder: Path) -> Iterator[Callable[..., RunningBroker]]:
    """Start brokers, also one after the other at the same port; the last ones are stopped in the end."""
    with ExitStack() as stack:

        def start(*lines: str, port: int = 0) -> RunningBroker:
            name = f"broker-{len(list(folder.glob('broker-*')))}"
            broker = start_mosquitto(folder / name, port=port, extra_lines=lines)
            stack.callback(broker.stop)
            return broker

        yield start


def clients(broker: RunningBroker) -> list[str]:
    """The ids of the clients that have connected to a broker, in order, by its log."""
    lines = broker.log.read_text().splitlines()
    names = [line.split(" as ")[1].split(" ")[0] for line in lines if "New client connected" in line]
    return [name for name in names if not name.startswith("auto-")]


async def member(
    urls: BrokerUrl | Brokers, name: str, *filters: str, limits: MqttLimits = QUICK
) -> MqttTransport:
    return await MqttTransport.connect(urls, name, filters, limits=limits, probe=topics.probe(RUN, A))


async def message(transport: MqttTransport, box: Inbox) -> tuple[object, list[str]]:
    """The next message, and the kinds of the frames that brought it."""
    kinds = []
    while True:
        frame = await transport.receive()
        kinds.append(peek(frame.payload, "broker").header.kind)
        delivery = box.accept(frame.payload, "broker", 0.0)
        if delivery is not None:
            return delivery.message, kinds


def test_what_waits_for_a_restarted_broker_gets_through_its_smaller_limit(
    option: Option, tmp_path: Path
) -> None:
    """Both what the broker had acknowledged before, and what it had not."""
    with brokers(tmp_path) as start:
        first = start()

        async def body() -> None:
            out, box = outbox(frame_limit=512 * 1024), inbox(max_message=2**20)
            (lost,) = out.frames(SERVER, PLACE, LARGE)
            (waiting,) = out.frames(SERVER, PLACE, MaskedInput(vector=bytes(70_000)))
            (small,) = out.frames(SERVER, PLACE, MaskedInput(vector=bytes(100)))
            sender = await member(first.url, "sender")
            back = asyncio.Event()
            sender.watch(
                lambda link: back.set() if link.up else None, lambda _: [LostFrame(UP, lost)], out.carriers
            )
            await sender.publish(UP, lost)
            first.stop()
            sending = [asyncio.create_task(sender.publish(UP, frame)) for frame in (waiting, small)]
            second = start(f"{option} 40000", port=first.url.port)
            reader = await MqttTransport.connect(second.url, "reader", (UP,), limits=QUICK)
            await asyncio.gather(*sending)
            await back.wait()
            assert sender.connections == 2
            # The reader may have come after what was sent again.
            while True:
                found, kinds = await message(reader, box)
                if found != LARGE:
                    break
                assert set(kinds) == {CARRIER}
            assert found == MaskedInput(vector=bytes(70_000))
            assert kinds == [CARRIER] * 3
            assert await message(reader, box) == (MaskedInput(vector=bytes(100)), ["MaskedInput"])
            for transport in (sender, reader):
                await transport.close()
            made = clients(second)
            assert made.count("sender") == 1
            assert made.count("sender-probe") <= PROBES

        run(body)


def test_a_spare_broker_with_a_smaller_limit_takes_over(option: Option, tmp_path: Path) -> None:
    with brokers(tmp_path) as start:
        first, spare = start(), start(f"{option} 20000")
        listed = Brokers((first.url, spare.url))

        async def body() -> None:
            out, box = outbox(frame_limit=512 * 1024), inbox(max_message=2**20)
            (frame,) = out.frames(SERVER, PLACE, LARGE)
            (again,) = out.frames(SERVER, PLACE, MaskedInput(vector=bytes(20_000)))
            reader = await MqttTransport.connect(spare.url, "reader", (UP,), limits=QUICK)
            sender = await member(listed, "sender")
            links: list[Link] = []
            sender.watch(links.append, lambda _: [LostFrame(UP, frame)], out.carriers)
            await sender.publish(UP, frame)
            first.stop()
            assert (await message(reader, box))[0] == LARGE
            await sender.publish(UP, again)
            assert await message(reader, box) == (MaskedInput(vector=bytes(20_000)), [CARRIER, CARRIER])
            assert links == [Link(up=False), Link(up=True, kept=False)]
            for transport in (sender, reader):
                await transport.close()
            assert clients(spare).count("sender") == 1
            assert clients(spare).count("sender-probe") <= PROBES

        run(body)


def test_a_frame_of_exactly_the_limit_goes_whole_and_a_larger_one_in_carriers(
    option: Option, tmp_path: Path
) -> None:
    more = 0 if option == "message_size_limit" else HEADER

    async def body(url: BrokerUrl) -> None:
        out = outbox(frame_limit=512 * 1024)
        reader = await MqttTransport.connect(url, "reader", (UP,), limits=QUICK)
        sender = await member(url, "sender")
        sender.watch(lambda _: None, carriers=out.carriers)
        (sample,) = out.frames(SERVER, PLACE, MaskedInput(vector=bytes(32_000)))
        for size, carried in ((32_768, False), (32_769, True), (32_768, False)):
            (frame,) = out.frames(SERVER, PLACE, MaskedInput(vector=bytes(32_000 + size - len(sample))))
            assert len(frame) == size
            await sender.publish(UP, frame)
            (arrived,) = await take(reader, 1)
            assert (peek(arrived.payload, "").header.kind == CARRIER) is carried
            if carried:
                await take(reader, 1)
            else:
                assert arrived.payload == frame
        assert sender.connections == 1
        for transport in (sender, reader):
            await transport.close()

    with brokers(tmp_path) as start:
        run(lambda: body(start(f"{option} {32_768 + more}").url))


@pytest.mark.parametrize("spare", [0, -1])
def test_the_smallest_limit_that_is_enough(spare: int, option: Option, tmp_path: Path) -> None:
    more = 0 if option == "message_size_limit" else HEADER

    async def body(url: BrokerUrl) -> None:
        if spare == 0:
            await (await member(url, "enough")).close()
            return
        with pytest.raises(ConfigError, match=r"rejects messages of 16,384 bytes") as caught:
            await member(url, "too-little")
        assert option in caught.value.remedy

    with brokers(tmp_path) as start:
        run(lambda: body(start(f"{option} {16_384 + more + spare}").url))


def test_a_broker_that_carries_too_little_ends_the_run_with_its_limit_as_the_cause(
    option: Option, tmp_path: Path
) -> None:
    """And without a storm of connections: pauses grow from 0.1 s to the end of patience after 3 s."""
    with brokers(tmp_path) as start:
        first = start()

        async def body() -> None:
            patient = MqttLimits(give_up_after=3.0, first_pause=0.1, longest_pause=5.0)
            sender = await member(first.url, "sender", limits=patient)
            first.stop()
            second = start(f"{option} 16000", port=first.url.port)
            with pytest.raises(RunAbortedError) as caught:
                await sender.publish(UP, b"small")
            line = str(caught.value)
            assert f"{second.url} rejects messages of 16,384 bytes" in line
            assert f"{option} 1" in line
            assert "another program" not in line
            assert clients(second).count("sender") <= 8
            await sender.close()

        run(body)


def test_a_frame_beyond_the_limit_is_refused_where_no_carriers_are_made(tmp_path: Path) -> None:
    """Of a process that makes no carriers."""

    async def body(url: BrokerUrl) -> None:
        sender = await member(url, "sender")
        with pytest.raises(
            RunAbortedError, match=r"accepts messages of at most 16,384 bytes, and one has 20,000"
        ):
            await sender.publish(UP, bytes(20_000))
        await sender.publish(UP, bytes(16_384))
        await sender.close()

    with brokers(tmp_path) as start:
        run(lambda: body(start("message_size_limit 20000").url))


def test_a_broker_restarted_without_retained_messages_passes_on_the_end_of_a_run(tmp_path: Path) -> None:
    """It would close the connection of a client that asks it to retain one."""
    with brokers(tmp_path) as start:
        first = start()

        async def body() -> None:
            sender = await member(first.url, "sender")
            first.stop()
            second = start("retain_available false", port=first.url.port)
            reader = await MqttTransport.connect(second.url, "reader", (UP,), limits=QUICK)
            await sender.publish(UP, b"the end", retain=True)
            assert (await reader.receive()).payload == b"the end"
            assert sender.connections == 2
            for transport in (sender, reader):
                await transport.close()

        run(body)


# Whole runs.


def connections(folder: Path) -> Counter[str]:
    """How often each process of a run has connected, by the brokers' logs: to send, and to probe."""
    lines = [line for log in folder.glob("broker-*/*.log") for line in log.read_text().splitlines()]
    names = [line.split(" as ")[1].split(" ")[0] for line in lines if "New client connected" in line]
    return Counter(name for name in names if not name.startswith(("auto-", "listener")))


@pytest.mark.parametrize(
    ("fault", "steps"),
    [
        ("restart", ("model", "inputs", "release")),
        ("kill", ("shares", "certify", "goodbye")),
        ("swap", ("join", "inputs", "release")),
        ("swap", ("model", "training", "goodbye")),
    ],
)
def test_a_run_goes_on_over_brokers_that_carry_less_and_less(
    fault: Fault, steps: tuple[str, ...], option: Option, tmp_path: Path
) -> None:
    """Models and inputs of 300 KiB, over brokers of 100 kB, 40 kB and 20 kB: every party counts each time."""
    limits = ("", f"{option} 100000", f"{option} 40000", f"{option} 20000")
    ground = Ground("mosquitto", tmp_path, addresses=2 if fault == "swap" else 1, limits=limits)
    rounds = 1 + sum(step not in OUTSIDE for step in steps)
    scenario = write_scenario(tmp_path, threshold=3, min_survivors=3, server="active", rounds=rounds)
    with broken(ground, once_each(ground, fault, 0.0, steps)) as done:
        model = "model={ type = 'mlp', hidden = [1024] }"
        ended = federated(scenario, tmp_path / "run", "--broker", str(ground.brokers), "--set", model)
    assert len(done) == len(steps), "a step was not seen"
    assert ended.exit_code == 0, ended.stderr
    assert [len(row["survivors"]) for row in ended.rows] == [6] * rounds
    said = [event["event"] for event in events(ended.stdout)]
    assert not {"draw_voided", "round_skipped", "instance_retried"} & set(said)
    made = connections(tmp_path)
    own = {name: count for name, count in made.items() if not name.endswith("-probe")}
    assert sum(name.endswith(tuple(f"-p0{n}" for n in range(6))) for name in own) == 6
    # Twice as many as brokers: a party that hears no other process at one address tries the next one.
    assert max(own.values()) <= 2 * (1 + len(steps))
    assert all(count <= PROBES * own.get(name.removesuffix("-probe"), 1) for name, count in made.items())


# Connections that are of no use.


class Fickle:
    """A broker that accepts each client, acknowledges no message, and ends connections after a while."""

    def __init__(self, stands: float) -> None:
        self._stands = stands
        self.connections = 0
        self.tenth, self.twentieth = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> BrokerUrl:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return BrokerUrl("mqtt", "127.0.0.1", self._server.sockets[0].getsockname()[1])

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.connections == 10:
            self.tenth.set()
        if self.connections == 20:
            self.twentieth.set()
        try:
            async with asyncio.timeout(self._stands):
                while data := await reader.read(65536):
                    if data[0] >> 4 == 1:
                        writer.write(bytes.fromhex("20020000"))
                    if data[0] >> 4 == 8:
                        writer.write(b"\x90\x03" + data[2:4] + b"\x01")
        except (TimeoutError, ConnectionError):
            pass
        finally:
            writer.close()


def test_connections_that_stand_but_carry_nothing_are_no_progress() -> None:
    """Each stands for longer than it takes to forget the one before."""

    async def body() -> None:
        broker = Fickle(stands=0.2)
        async with broker as url:
            limits = dataclasses.replace(QUICK, settled=0.05, give_up_after=1.5)
            sender = await MqttTransport.connect(url, "stuck", ("x",), limits=limits)
            sending = asyncio.create_task(sender.publish("x", bytes(1000)))
            many = asyncio.create_task(broker.twentieth.wait())
            await asyncio.wait({sending, many}, return_when=asyncio.FIRST_COMPLETED)
            assert not many.done(), "it has tried for more than twice its patience"
            many.cancel()
            await asyncio.wait({many})
            with pytest.raises(RunAbortedError, match="no connection to") as caught:
                await sending
            assert "with messages of up to 1,000 bytes under way" in str(caught.value)
            await sender.close()

    run(body)


def test_connections_that_stand_with_nothing_to_send_are_progress() -> None:
    async def body() -> None:
        broker = Fickle(stands=0.1)
        async with broker as url:
            limits = dataclasses.replace(QUICK, settled=0.05, give_up_after=0.3)
            idle = await MqttTransport.connect(url, "idle", ("x",), limits=limits)
            reading = asyncio.create_task(idle.receive())
            await broker.tenth.wait()
            assert not reading.done(), "ten connections take longer than its patience"
            reading.cancel()
            await asyncio.wait({reading})
            await idle.close()

    run(body)


def test_connections_that_end_at_once_are_made_ever_more_rarely() -> None:
    """Twelve a second for as long as its patience lasts, were each pause the first."""

    async def body() -> None:
        broker = Fickle(stands=0.05)
        async with broker as url:
            # Long enough for a loaded machine to connect twice: pauses double from 0.1 s to 5 s.
            limits = MqttLimits(first_pause=0.1, longest_pause=5.0, give_up_after=10.0)
            sender = await MqttTransport.connect(url, "hasty", ("x",), limits=limits)
            with pytest.raises(
                RunAbortedError, match="check that no other program uses the client id 'hasty'"
            ):
                await sender.receive()
            await sender.close()
        assert 1 < broker.connections <= 10

    run(body)
