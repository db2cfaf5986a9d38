"""A party fills the broker while the server is away: the run goes on when the server comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from securefl.base.ids import PartyId, RunId
from securefl.protocol.wire.topics import up
from securefl.runtime.transport.addresses import Brokers
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.deployed import site
from tests.live.test_resumed import check_end, killed, until_recorded
from tests.live.test_transport import needs_mosquitto

pytestmark = [pytest.mark.live, needs_mosquitto]

MIB = 1 << 20
LIMITS = ("max_queued_messages 0", f"max_queued_bytes {MIB}")


async def flood(broker: BrokerUrl | Brokers, run: str) -> None:
    """Send sixteen times as much to the server as the broker keeps for it."""
    intruder = await MqttTransport.connect(broker, "flooding", (f"sfl/1/{run}/down/flooding",))
    for _ in range(64):
        await intruder.publish(up(RunId(run), PartyId("p03")), bytes(MIB // 4))
    await intruder.close()


def test_a_full_queue_costs_the_round_that_the_server_left_and_no_other(tmp_path: Path) -> None:
    """What the broker drops then is of that round; the server refuses the flood, and asks everybody anew."""
    with site(tmp_path, "mosquitto", rounds=4, broker_lines=LIMITS) as place:
        parties = place.start_parties(training=0.2)
        first = place.start("server")
        until_recorded(place, first, kind="step_reached", round=1, step="training")
        killed(first)
        asyncio.run(asyncio.wait_for(flood(place.broker, place.run), 120))
        check_end(place, place.start("server"), parties, 4)
        assert place.counted()[2:] == [4, 4]
