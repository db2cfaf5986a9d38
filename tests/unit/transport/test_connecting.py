"""What a connection makes of a broker's answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from securefl.base.errors import ConfigError
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.connecting import Connection


@pytest.mark.parametrize(("codes", "refused"), [((1, 1), None), ((1, 0x80), "b/#"), ((0x87, 1), "a/#")])
def test_a_refused_subscription_is_the_configurations_fault(
    codes: tuple[int, ...], refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def answer(_self: Connection, topics: list[tuple[str, int]]) -> tuple[int, ...]:
        asked.extend(topics)
        return codes

    monkeypatch.setattr(Connection, "subscribe", answer)

    async def body() -> None:
        url = BrokerUrl("mqtt", "127.0.0.1", 1)
        connection = Connection(url, "p00", None, keep_alive=1, in_flight=1, patience=1.0)
        await connection.subscribe_all(())
        assert asked == []
        await connection.subscribe_all(("a/#", "b/#"))

    if refused is None:
        asyncio.run(body())
        assert asked == [("a/#", 1), ("b/#", 1)]
    else:
        with pytest.raises(ConfigError, match=f"refuses 'p00' the subscription to {refused}"):
            asyncio.run(body())
