"""A party's certificate takes over no other connection (attacks/n3), at either broker as documented."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from securefl.base.errors import SecureflError
from securefl.runtime.transport.base import ArrivedFrame, MqttLimits
from securefl.runtime.transport.broker import RunningBroker, start_embedded, start_mosquitto
from securefl.runtime.transport.local_tls import LocalTls, make_local_tls
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.federated import BROKERS
from tests.live.test_transport import as_user

pytestmark = pytest.mark.live

KICKS = 40
HASTY = MqttLimits(first_pause=0.01, longest_pause=0.05)


def started(kind: str, folder: Path, tls: LocalTls) -> RunningBroker:
    start = {"mosquitto": start_mosquitto, "embedded": start_embedded}[kind]
    return start(folder, tls=tls, acl=True)


@pytest.mark.parametrize("kind", BROKERS)
def test_another_partys_certificate_ends_no_connection(kind: str, tmp_path: Path) -> None:
    """p2 connects again and again as ``r-server``; each frame that p1 sends meanwhile reaches the server."""
    tls = make_local_tls(tmp_path / "tls", ["server", "p1", "p2"])

    async def body(broker: RunningBroker) -> None:
        url, gone = broker.url, ("sfl/1/r/status/server", b"gone")
        server = await MqttTransport.connect(as_user(url, tls, "server"), "r-server", ("sfl/1/r/up/+",), gone)
        p1 = await MqttTransport.connect(as_user(url, tls, "p1"), "r-p1", ("sfl/1/r/status/server",))
        for number in range(KICKS):
            with suppress(SecureflError):
                thief = await MqttTransport.connect(as_user(url, tls, "p2"), "r-server", (), limits=HASTY)
                await thief.close()
            await p1.publish("sfl/1/r/up/p1", b"%d" % number)
            frame = await server.receive()
            assert isinstance(frame, ArrivedFrame)
            assert frame.payload == b"%d" % number
        # The will of a connection that was taken over would have come before this.
        await server.publish("sfl/1/r/status/server", b"here")
        seen = await p1.receive()
        assert isinstance(seen, ArrivedFrame)
        assert seen.payload == b"here"
        await p1.close()
        await server.close()

    with started(kind, tmp_path / "broker", tls) as broker:
        asyncio.run(asyncio.wait_for(body(broker), 120))


@pytest.mark.parametrize("kind", BROKERS)
def test_one_party_takes_part_in_several_runs_at_one_broker(kind: str, tmp_path: Path) -> None:
    tls = make_local_tls(tmp_path / "tls", ["p1"])

    async def body(broker: RunningBroker) -> None:
        url = as_user(broker.url, tls, "p1")
        runs = [
            await MqttTransport.connect(url, f"{run}-p1", (f"sfl/1/{run}/probe/p1",)) for run in ("a", "b")
        ]
        for transport, run in zip(runs, ("a", "b"), strict=True):
            await transport.publish(f"sfl/1/{run}/probe/p1", run.encode())
        for transport, run in zip(runs, ("a", "b"), strict=True):
            frame = await transport.receive()
            assert isinstance(frame, ArrivedFrame)
            assert frame.payload == run.encode()
            await transport.close()

    with started(kind, tmp_path / "broker", tls) as broker:
        asyncio.run(asyncio.wait_for(body(broker), 60))
