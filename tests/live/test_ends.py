"""The end of a run is kept by the broker, signed, for whoever comes later; and nobody else can end one."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from securefl.base.crypto.keyfiles import read_identity
from securefl.base.entropy import OsEntropy
from securefl.base.ids import EVERYONE, RunId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import Goodbye
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.transport.addresses import Brokers
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.deployed import Site, site, until_said
from tests.live.federated import BROKERS, LIMIT

pytestmark = pytest.mark.live


def goodbye(place: Site, signer: str, run: str) -> bytes:
    identity = read_identity(place.folder / f"{signer}.key")
    outbox = Outbox(RunId(run), identity, OsEntropy())
    (frame,) = outbox.frames(EVERYONE, Place(-1), Goodbye(reason="forged", aborted=True))
    return frame


def keep(broker: BrokerUrl | Brokers, topic: str, payload: bytes) -> None:
    async def publish() -> None:
        transport = await MqttTransport.connect(broker, "forger", ())
        await transport.publish(topic, payload, retain=True)
        await transport.close()

    asyncio.run(publish())


@pytest.mark.parametrize("broker", BROKERS)
def test_whoever_comes_after_the_end_is_told_and_nobody_else_can_end_a_run(
    broker: str, tmp_path: Path
) -> None:
    """p03 is killed in round 1, before the end. Kept frames that end other runs, or are forged, end none."""
    with site(tmp_path, broker) as place:
        topic = f"sfl/1/{place.run}/down/all"
        keep(place.broker, topic, goodbye(place, "server", "another-run"))
        parties = {name: place.start(name) for name in place.parties[:-1]}
        parties["p03"] = place.start("p03", dies_at=(1, "Reveals"))
        until_said(parties["p00"], "belongs to run 'another-run', not 'deployed'")
        keep(place.broker, topic, goodbye(place, "p01", place.run))
        server = place.start("server")
        code, said, complaint = server.wait(LIMIT)
        assert (code, complaint) == (0, ""), said
        assert parties["p03"].wait(LIMIT)[0] == -signal.SIGKILL
        for name in place.parties[:-1]:
            code, said, _ = parties[name].wait(LIMIT)
            assert (code, "done: 3 rounds done" in said) == (0, True)
        code, said, _ = place.start("p03").wait(LIMIT)
        assert (code, said.splitlines()[-1]) == (0, "done: 3 rounds done")
        assert "forged" not in said


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("room", [300, 150_000])
def test_a_server_that_cannot_write_asks_the_parties_to_wait_and_goes_on_once_it_can(
    room: int, broker: str, tmp_path: Path
) -> None:
    """From its first line on, or after some rounds."""
    with site(tmp_path, broker, rounds=6) as place:
        parties = place.start_parties()
        for party in parties.values():
            # A server that ends before a party listens tells it nothing.
            until_said(party, "waits for server")
        server = place.start("server", room=room)
        code, said, complaint = server.wait(LIMIT)
        assert code == 3, complaint
        assert "cannot be written: File too large" in complaint
        assert ("round 0" in said) == (room > 300)
        for party in parties.values():
            until_said(party, "cannot be written: File too large")
        code, said, complaint = place.start("server").wait(LIMIT)
        assert (code, complaint) == (0, ""), said
        for party in parties.values():
            code, said, complaint = party.wait(LIMIT)
            assert (code, complaint) == (0, ""), said
            assert "the run pauses" in said
