"""What only the in-memory hub does; the common contract is in ``tests/live/test_transport.py``."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import cast

import pytest

from securefl.base.errors import UsageError
from securefl.runtime.transport.base import ArrivedFrame, TransportClosedError
from tests.unit.transport.memory import MemoryHub


def run(body: Coroutine[None, None, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await body
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(bounded())


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_full_subscriber_holds_the_publisher_back() -> None:
    async def body() -> None:
        hub = MemoryHub(capacity=2)
        alice, bob = hub.connect("a", ()), hub.connect("b", ("x",))
        await alice.publish("x", b"0")
        await alice.publish("x", b"1")
        third = asyncio.create_task(alice.publish("x", b"2"))
        fourth = asyncio.create_task(alice.publish("x", b"3"))
        await turns()
        assert not third.done()
        assert [(await bob.receive()).payload for _ in range(4)] == [b"0", b"1", b"2", b"3"]
        await asyncio.gather(third, fourth)

    run(body())


def test_a_waiting_publisher_is_freed_when_either_side_leaves() -> None:
    async def body() -> None:
        hub = MemoryHub(capacity=1)
        alice, carol = hub.connect("a", ()), hub.connect("c", ())
        bob = hub.connect("b", ("x",))
        await alice.publish("x", b"")
        waiting, leaving = (asyncio.create_task(one.publish("x", b"")) for one in (alice, carol))
        await turns()
        await carol.close()
        with pytest.raises(TransportClosedError):
            await leaving
        assert not waiting.done()
        await bob.close()
        await waiting

    run(body())


def test_a_cancelled_publish_is_withdrawn() -> None:
    async def body() -> None:
        hub = MemoryHub(capacity=1)
        alice, bob = hub.connect("a", ()), hub.connect("b", ("x",))
        await alice.publish("x", b"first")
        waiting = asyncio.create_task(alice.publish("x", b"withdrawn"))
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await bob.receive()).payload == b"first"
        await alice.publish("x", b"last")
        assert (await bob.receive()).payload == b"last"

    run(body())


def test_taps_see_everything_and_hold_nobody_back() -> None:
    async def body() -> None:
        hub = MemoryHub(capacity=1)
        tap = hub.tap()
        alice = hub.connect("a", ())
        for number in range(5):
            await alice.publish(f"t/{number}", b"")
        assert [(await tap.receive()).topic for _ in range(5)] == [f"t/{number}" for number in range(5)]
        await tap.close()
        await alice.publish("t/unseen", b"")

    run(body())


def test_a_second_member_with_the_same_id_cuts_the_first_off() -> None:
    async def body() -> None:
        hub = MemoryHub()
        watcher = hub.connect("w", ("will",))
        first = hub.connect("a", ("x",), ("will", b"first died"))
        second = hub.connect("a", ("x",))
        with pytest.raises(TransportClosedError):
            await first.receive()
        assert await watcher.receive() == ArrivedFrame("will", b"first died")
        await first.close()
        await watcher.publish("x", b"to the second")
        assert (await second.receive()).payload == b"to the second"

    run(body())


def test_frames_are_copies() -> None:
    async def body() -> None:
        hub = MemoryHub()
        alice, bob = hub.connect("a", ()), hub.connect("b", ("x",))
        buffer = bytearray(b"before")
        await alice.publish("x", cast(bytes, buffer))
        buffer[:] = b"after!"
        assert (await bob.receive()).payload == b"before"

    run(body())


def test_misuse() -> None:
    async def body() -> None:
        with pytest.raises(UsageError):
            MemoryHub(capacity=0)
        with pytest.raises(UsageError):
            MemoryHub().kill("nobody")

    run(body())
