"""One server leads a run: a second one is refused wherever its folder lies, and the first one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from securefl.base.crypto.identity import Identity
from securefl.base.entropy import OsEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.control import Goodbye, RollCall
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.wire import topics
from securefl.protocol.wire.outbox import Outbox
from securefl.runtime.transport.base import BrokerUrl
from securefl.runtime.transport.broker import BrokerWish, start_local_broker
from securefl.runtime.transport.leader_lock import _LEADS, _open_claim, _seal, sole_server
from securefl.runtime.transport.mqtt import MqttTransport
from tests.live.deployed import site, stopped, until_said
from tests.live.federated import BROKERS, LIMIT

pytestmark = pytest.mark.live

RUN = RunId("sole")
OURS, THEIRS = (Identity.generate(SERVER, OsEntropy()) for _ in range(2))
PARTY = Identity.generate(PartyId("p00"), OsEntropy())


@pytest.fixture(scope="module", params=BROKERS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUrl]:
    folder = tmp_path_factory.mktemp("broker")
    with start_local_broker(cast("BrokerWish", request.param), folder, 0, None) as running:
        yield running.url


@pytest.mark.parametrize("broker", BROKERS)
def test_a_second_server_is_refused_and_the_first_one_leads_the_run_to_its_end(
    broker: str, tmp_path: Path
) -> None:
    """While parties train for five seconds, and after the end; from another folder each time."""
    with site(tmp_path, broker, rounds=2) as place:
        parties = place.start_parties(training=5.0)
        first = place.start("server")
        until_said(first, "round 0:")
        with stopped(parties):
            second = place.start("server", out=tmp_path / "second", listening=30)
            code, said, complaint = second.wait(LIMIT)
        assert (code, said) == (2, "")
        assert complaint.startswith("refused --run: deployed is led by another server")
        assert len(complaint.splitlines()) == 1
        code, said, complaint = first.wait(LIMIT)
        assert (code, complaint) == (0, ""), said
        assert place.counted() == [4] * 2
        for party in parties.values():
            assert party.wait(LIMIT)[0] == 0
        code, _, complaint = place.start("server", out=tmp_path / "third", listening=30).wait(LIMIT)
        assert code == 2
        assert "--run: deployed has ended at this broker: 2 rounds done" in complaint
        assert not list((tmp_path / "second").iterdir())
        assert not list((tmp_path / "third").iterdir())


def test_of_servers_that_start_at_the_same_time_one_leads(url: BrokerUrl) -> None:
    async def start(over: asyncio.Event) -> None:
        async with sole_server(url, RunId("same-time"), OURS, seconds=6):
            await over.wait()

    async def body() -> None:
        over = asyncio.Event()
        starting = [asyncio.create_task(start(over)) for _ in range(3)]
        pending = set(starting)
        while len(pending) > 1:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        over.set()
        ended = await asyncio.gather(*starting, return_exceptions=True)
        assert sorted(type(one).__name__ for one in ended) == ["ConfigError", "ConfigError", "NoneType"]

    bounded(body())


def test_nobody_else_keeps_a_server_from_starting(url: BrokerUrl) -> None:
    """Answers signed by others, of other runs, to other questions; ends that are forged or of other runs."""
    forged = [
        _seal(signer, run, _LEADS, bytes(16)) for signer in (THEIRS, PARTY) for run in (RUN, RunId("x"))
    ]
    forged += [
        _seal(OURS, RUN, _LEADS, bytes(16)),
        _seal(OURS, RunId("x"), _LEADS, bytes(16)),
        b"",
        b"!" * 81,
    ]
    frames = [
        frame
        for signer, run in ((THEIRS, RUN), (PARTY, RUN), (OURS, RunId("x")))
        for frame in said(signer, run, Goodbye(reason="forged", aborted=True))
    ]

    async def body() -> None:
        forger = await MqttTransport.connect(url, "forger", (topics.servers(RUN),))
        await forger.publish(topics.down(RUN, EVERYONE), frames[0], retain=True)

        async def forge() -> None:
            while True:
                question = (await forger.receive()).payload
                if question[:1] != b"?":
                    continue
                answers = [_seal(signer, RUN, _LEADS, question[1:17]) for signer in (THEIRS, PARTY)]
                for word in (*forged, *answers, question, b"!" + question[1:]):
                    await forger.publish(topics.servers(RUN), word)
                for frame in (*frames, b"gone"):
                    await forger.publish(topics.down(RUN, EVERYONE), frame)
                    await forger.publish(topics.status(RUN, SERVER), frame)

        forging = asyncio.create_task(forge())
        async with sole_server(url, RUN, OURS, seconds=1.5):
            pass
        forging.cancel()
        await asyncio.gather(forging, return_exceptions=True)
        await forger.publish(topics.down(RUN, EVERYONE), b"", retain=True)
        await forger.close()

    bounded(body())


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Goodbye(reason="so it is", aborted=False), "has ended at this broker: so it is"),
        (RollCall(), "is led"),
    ],
)
def test_whatever_the_server_itself_says_shows_that_it_lives_or_has_ended(
    message: AnyMessage, words: str, url: BrokerUrl
) -> None:
    run = RunId(f"says-{type(message).__name__.lower()}")

    async def body() -> None:
        server = await MqttTransport.connect(url, "says", ())
        (frame,) = said(OURS, run, message)
        await server.publish(topics.down(run, EVERYONE), frame, retain=True)
        with pytest.raises(ConfigError, match=words):
            async with sole_server(url, run, OURS, seconds=30):
                pytest.fail("a second server")
        await server.close()

    bounded(body())


def test_a_word_counts_for_its_run_its_kind_and_its_nonce_only() -> None:
    word = _seal(OURS, RUN, _LEADS, bytes(16))
    assert _open_claim(OURS.public, RUN, word) == (_LEADS, bytes(16))
    for changed in (b"?" + word[1:], word[:5] + b"x" + word[6:], word[:-1], word + b"x", word[:-1] + b"x"):
        assert _open_claim(OURS.public, RUN, changed) is None
    assert _open_claim(OURS.public, RunId("other"), word) is None
    assert _open_claim(THEIRS.public, RUN, word) is None


def said(signer: Identity, run: RunId, message: AnyMessage) -> list[bytes]:
    return list(Outbox(run, signer, OsEntropy()).frames(EVERYONE, Place(-1), message))


def bounded(body: object) -> None:
    async def all_of_it() -> None:
        async with asyncio.timeout(LIMIT):
            await body  # type: ignore[misc]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(all_of_it())
