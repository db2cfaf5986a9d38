"""One party floods a broker while the server is away (attacks/n8): its memory stays below a limit."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import psutil
import pytest

from securefl.runtime.transport.base import ArrivedFrame
from securefl.runtime.transport.broker import QUEUE_BYTES, RunningBroker, start_mosquitto
from securefl.runtime.transport.local_tls import LocalTls, make_local_tls
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.test_transport import as_user, needs_mosquitto

pytestmark = [pytest.mark.live, needs_mosquitto]

MIB = 1 << 20
FRAME = 480 * 1024
LIMIT = 8 * MIB
DOCUMENTS = Path(__file__).parents[2] / "docs" / "deployment.md"


def test_the_documented_limit_is_the_one_of_local_brokers() -> None:
    assert re.findall(r"^max_queued_bytes (\d+)$", DOCUMENTS.read_text(), re.MULTILINE) == [str(QUEUE_BYTES)]


def resident(broker: RunningBroker) -> int:
    """Bytes of mosquitto, which runs below a small launcher or in its place."""
    process = psutil.Process(broker.pid)
    return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))


def test_a_flood_fills_the_limit_and_no_more(tmp_path: Path) -> None:
    """p2 sends 46 MiB to a server that is away; afterwards the server is reached by others as before."""
    tls = make_local_tls(tmp_path / "tls", ["server", "p1", "p2"])
    with start_mosquitto(
        tmp_path / "broker", tls=tls, acl=True, extra_lines=(f"max_queued_bytes {LIMIT}",)
    ) as broker:
        asyncio.run(asyncio.wait_for(flood(broker, tls), 120))


async def flood(broker: RunningBroker, tls: LocalTls) -> None:
    server_url = as_user(broker.url, tls, "server")
    server = await MqttTransport.connect(server_url, "r-server", ("sfl/1/r/up/+",))
    await leave_the_session(server)
    p1 = await MqttTransport.connect(as_user(broker.url, tls, "p1"), "r-p1", ("sfl/1/r/down/p1",))
    p2 = await MqttTransport.connect(as_user(broker.url, tls, "p2"), "r-p2", ("sfl/1/r/down/p2",))
    before = resident(broker)
    for _ in range(100):
        await p2.publish("sfl/1/r/up/p2", bytes(FRAME))
    # Acknowledged after the flood, so that the broker has dealt with all of it.
    await p1.publish("sfl/1/r/up/p1", b"during")
    grown = resident(broker) - before
    assert LIMIT / 2 < grown < 2 * LIMIT, "as much as the limit of one client, of 46 MiB"
    server = await MqttTransport.connect(server_url, "r-server", ("sfl/1/r/up/+",))
    await p1.publish("sfl/1/r/up/p1", b"after")
    while True:
        frame = await server.receive()
        if isinstance(frame, ArrivedFrame) and frame.payload == b"after":
            break
    for transport in (server, p1, p2):
        await transport.close()


async def leave_the_session(server: MqttTransport) -> None:
    """End the connection as a killed server does: the broker keeps its session."""
    keeper = server._keeper
    assert keeper is not None
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)
