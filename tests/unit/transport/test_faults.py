"""Each fault does what its description says, to exactly the frames that it names."""

from __future__ import annotations

import asyncio

import pytest

from securefl.base.errors import UsageError
from securefl.runtime.transport.base import ArrivedFrame, TransportClosedError
from tests.unit.transport.faults import Direction, Fault, FaultKind, FaultyTransport
from tests.unit.transport.memory import MemoryHub


def through(faults: list[Fault], frames: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """What a receiver sees of ``frames`` if they pass ``faults`` (of one direction)."""

    async def body() -> list[tuple[str, bytes]]:
        hub = MemoryHub()
        incoming = bool(faults) and faults[0].direction is Direction.IN
        plain, receiver = hub.connect("a", ()), hub.connect("b", ("#",))
        sender = plain if incoming else FaultyTransport(plain, faults)
        reader = FaultyTransport(receiver, faults) if incoming else receiver
        for topic, payload in frames:
            await sender.publish(topic, payload)
        seen: list[tuple[str, bytes]] = []
        try:
            async with asyncio.timeout(0):
                while True:
                    frame = await reader.receive()
                    seen.append((frame.topic, frame.payload))
        except TimeoutError:
            pass
        return seen

    return asyncio.run(body())


FRAMES = [("t", bytes([number, number])) for number in range(4)]
A, B, C, D = FRAMES


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize(
    ("kind", "nth", "amount", "expected"),
    [
        (FaultKind.DROP, 1, 1, [A, C, D]),
        (FaultKind.DROP, None, 1, []),
        (FaultKind.DROP, 9, 1, FRAMES),
        (FaultKind.DUPLICATE, 0, 1, [A, A, B, C, D]),
        (FaultKind.DUPLICATE, 3, 2, [A, B, C, D, D, D]),
        (FaultKind.DELAY, 0, 1, [B, A, C, D]),
        (FaultKind.DELAY, 1, 2, [A, C, D, B]),
        (FaultKind.DELAY, 2, 2, [A, B, D]),
        (FaultKind.CORRUPT, 1, 0, [A, ("t", b"\xfe\x01"), C, D]),
        (FaultKind.CORRUPT, 1, 3, [A, ("t", b"\x01\xfe"), C, D]),
    ],
)
def test_one_fault(
    direction: Direction, kind: FaultKind, nth: int | None, amount: int, expected: list[tuple[str, bytes]]
) -> None:
    assert through([Fault(kind, direction, "#", nth, amount)], FRAMES) == expected


def test_only_matching_topics_count() -> None:
    frames = [("a/1", b"0"), ("b/1", b"1"), ("b/2", b"2"), ("a/2", b"3")]
    assert through([Fault(FaultKind.DROP, topics="b/+", nth=1)], frames) == [frames[0], frames[1], frames[3]]


def test_faults_combine() -> None:
    faults = [
        Fault(FaultKind.CORRUPT, nth=0),
        Fault(FaultKind.DUPLICATE, nth=0),
        Fault(FaultKind.DELAY, nth=0),
    ]
    spoilt = ("t", b"\x00\xff")
    assert through(faults, FRAMES) == [B, spoilt, spoilt, C, D]
    assert through([Fault(FaultKind.DROP), Fault(FaultKind.DUPLICATE)], FRAMES) == [B, C, D]


def test_an_empty_frame_survives_corruption() -> None:
    assert through([Fault(FaultKind.CORRUPT, nth=None)], [("t", b"")]) == [("t", b"")]


def test_directions_do_not_touch_each_other() -> None:
    async def body() -> None:
        hub = MemoryHub()
        transport = FaultyTransport(hub.connect("a", ("t",)), [Fault(FaultKind.DROP, Direction.IN)])
        await transport.publish("t", b"dropped on the way in")
        await transport.publish("t", b"passes")
        assert await transport.receive() == ArrivedFrame("t", b"passes")
        await transport.close()
        with pytest.raises(TransportClosedError):
            await transport.receive()

    asyncio.run(body())


def test_impossible_faults_are_our_bug() -> None:
    with pytest.raises(UsageError):
        Fault(FaultKind.DROP, nth=-1)
    with pytest.raises(UsageError):
        Fault(FaultKind.DROP, topics="a/#/b")
    for kind, amount in ((FaultKind.DELAY, 0), (FaultKind.DUPLICATE, 0), (FaultKind.CORRUPT, -1)):
        with pytest.raises(UsageError):
            Fault(kind, amount=amount)
