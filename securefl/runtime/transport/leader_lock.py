"""Leader lock: a server checks that no other server leads its run, then answers such checks (ADR 0036).

A second server under one run id would take over the first one's session at the broker. It asks first, under a
separate client id. Answers are signed and hold the question's nonce; any other frame of this run's server,
and the retained end of the run, count as well. A broker that drops or replays frames can prevent a start, or
hide another server.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple

from securefl.base import crypto
from securefl.base.errors import ConfigError, PeerError, RunAbortedError, SecureflError
from securefl.base.ids import EVERYONE, SERVER, PartyId, RunId
from securefl.protocol import messages
from securefl.protocol.wire import SIGNATURE, decode, epoch_of, open_frame, peek, topics
from securefl.runtime.transport import addresses, base
from securefl.runtime.transport.mqtt import MqttTransport

LISTEN_SECONDS: Final = 6.0
"""Longer than a server waits to reconnect."""

_TRIES_EVERY: Final = 5.0
"""Seconds between attempts to answer at an unreachable broker."""

_DOMAIN: Final = b"securefl/1/who-leads\x00"
_NONCE: Final = 16
_ASKS, _LEADS = b"?", b"!"


class RunOverError(ConfigError):
    """The run's server has ended it at this broker."""

    def __init__(self, run: RunId, goodbye: messages.Goodbye) -> None:
        super().__init__(
            "--run", f"{run} has ended at this broker: {goodbye.reason}", "choose another id for a new run"
        )
        self.goodbye = goodbye


class _Word(NamedTuple):
    kind: bytes
    nonce: bytes


@asynccontextmanager
async def sole_server(
    brokers: base.BrokerUrl | addresses.Brokers,
    run: RunId,
    identity: crypto.Identity,
    epoch: int = 0,
    *,
    seconds: float | None = None,
    patience: float = 60.0,
) -> AsyncIterator[None]:
    """Check that no other server leads the run, and answer such checks inside the block.

    It asks at all brokers reachable now, since parties may be at any, and answers at all once reachable.

    Args:
        brokers: the run's brokers.
        run: the run's id.
        identity: the server's identity; other signatures are ignored.
        epoch: the last epoch that this server led; ends announced by earlier ones are ignored.
        seconds: listening time; ``LISTEN_SECONDS`` when None.
        patience: seconds after which a lost connection is replaced.

    Raises:
        RunOverError: the run has ended.
        ConfigError: another server leads the run; or the broker refuses this process.
        RunAbortedError: no broker is in reach.
    """
    leader = _Leader(run, identity, epoch, patience)
    troubles: dict[base.BrokerUrl, SecureflError] = {}
    async with AsyncExitStack() as stack:

        async def enter(url: base.BrokerUrl) -> None:
            try:
                await stack.enter_async_context(_sole_at(url, leader, seconds))
            except RunAbortedError as error:
                troubles[url] = error

        listed = addresses.as_brokers(brokers)
        try:
            async with asyncio.TaskGroup() as group:
                for url in listed:
                    group.create_task(enter(url))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        if len(troubles) == len(listed):
            raise addresses.none_of(troubles)
        later = [asyncio.create_task(_answer_at(url, leader)) for url in troubles]
        try:
            yield
        finally:
            for answering in later:
                answering.cancel()
            await asyncio.gather(*later, return_exceptions=True)


@asynccontextmanager
async def _sole_at(broker: base.BrokerUrl, leader: _Leader, seconds: float | None) -> AsyncIterator[None]:
    nonce = secrets.token_bytes(_NONCE)
    client = f"{leader.run}-{SERVER}-{nonce[:4].hex()}"
    voice = await leader.voice_at(broker, client)
    try:
        heard = (topics.down(leader.run, EVERYONE), topics.status(leader.run, SERVER))
        ears = await MqttTransport.connect(broker, f"{client}-listens", heard)
        try:
            await _listen(
                _Starting(voice, leader, nonce), ears, LISTEN_SECONDS if seconds is None else seconds
            )
        finally:
            await ears.close()
        answering = asyncio.create_task(_answer_on(voice, broker, leader), name="who leads")
        try:
            yield
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
    finally:
        await voice.close()


class _Leader(NamedTuple):
    run: RunId
    identity: crypto.Identity
    epoch: int
    patience: float
    """Seconds without a broker before giving up a connection."""

    async def voice_at(self, broker: base.BrokerUrl, client: str) -> MqttTransport:
        limits = base.MqttLimits(give_up_after=self.patience)
        return await MqttTransport.connect(broker, client, (topics.servers(self.run),), limits=limits)

    async def say(self, voice: base.Transport, kind: bytes, nonce: bytes) -> None:
        await voice.publish(topics.servers(self.run), _seal(self.identity, self.run, kind, nonce))

    def word_in(self, frame: base.ArrivedFrame) -> _Word | None:
        return _open_claim(self.identity.public, self.run, frame.payload)


class _Starting:
    """Starting server that asks. Of two that ask at once the smaller nonce leads."""

    def __init__(self, voice: base.Transport, leader: _Leader, nonce: bytes) -> None:
        self.voice = voice
        self.leader = leader
        self._nonce = nonce
        self._known: set[bytes] = set()

    async def ask(self) -> None:
        await self.leader.say(self.voice, _ASKS, self._nonce)

    async def hear(self, frame: base.ArrivedFrame) -> None:
        """Handle another server's claim; raise ConfigError if it leads."""
        word = self.leader.word_in(frame)
        if word is None or word == (_ASKS, self._nonce):
            return
        if word == (_LEADS, self._nonce):
            raise _displaced_error(self.leader.run)
        if word.kind == _ASKS and word.nonce > self._nonce:
            await self.leader.say(self.voice, _LEADS, word.nonce)
        elif word.kind == _ASKS and word.nonce not in self._known:
            # It may have begun to listen after this one asked.
            self._known.add(word.nonce)
            await self.ask()


async def _listen(starting: _Starting, ears: base.Transport, seconds: float) -> None:
    leader = starting.leader

    async def servers() -> None:
        while True:
            await starting.hear(await starting.voice.receive())

    async def frames() -> None:
        while True:
            _check_frame(await ears.receive(), leader.run, leader.identity.public, leader.epoch)

    listening = {asyncio.create_task(servers()), asyncio.create_task(frames())}
    try:
        await starting.ask()
        done, _ = await asyncio.wait(listening, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)


def _check_frame(frame: base.ArrivedFrame, run: RunId, server: crypto.PublicIdentity, epoch: int) -> None:
    """Raise an error if the server is shown to run, or the run to have ended."""
    try:
        payload = peek(frame.payload, "broker")
        header = payload.header
        open_frame(frame.payload, payload, server, run, PartyId(header.recipient))
        message = decode(bytes(payload.body), SERVER) if header.kind == messages.Goodbye.__name__ else None
    except PeerError:
        # Only the server's frames count.
        return
    if isinstance(message, messages.Goodbye):
        if epoch_of(header.session) < epoch:
            # From a superseded server, which could not end the run.
            return
        raise RunOverError(run, message)
    raise _displaced_error(run)


async def _answer(voice: base.Transport, leader: _Leader) -> None:
    try:
        while True:
            word = leader.word_in(await voice.receive())
            if word is not None and word.kind == _ASKS:
                await leader.say(voice, _LEADS, word.nonce)
    except (base.TransportClosedError, RunAbortedError):
        # The run's own connection reports it.
        return


async def _answer_on(voice: base.Transport, broker: base.BrokerUrl, leader: _Leader) -> None:
    await _answer(voice, leader)
    await _answer_at(broker, leader)


async def _answer_at(broker: base.BrokerUrl, leader: _Leader) -> None:
    """Answer at a broker whenever it is reachable, until cancelled."""
    client = f"{leader.run}-{SERVER}-{secrets.token_hex(4)}"
    while True:
        await asyncio.sleep(_TRIES_EVERY)
        try:
            voice = await leader.voice_at(broker, client)
        except (ConfigError, RunAbortedError):
            continue
        try:
            await _answer(voice, leader)
        finally:
            await voice.close()


def _displaced_error(run: RunId) -> ConfigError:
    return ConfigError(
        "--run", f"{run} is led by another server at this broker", "stop that server, or choose another id"
    )


def _seal(identity: crypto.Identity, run: RunId, kind: bytes, nonce: bytes) -> bytes:
    """Return kind (1 byte), nonce (16), signature (64) over a domain label, the run and both."""
    return kind + nonce + identity.sign(_DOMAIN + crypto.encode(run, kind, nonce))


def _open_claim(server: crypto.PublicIdentity, run: RunId, payload: bytes) -> _Word | None:
    if len(payload) != 1 + _NONCE + SIGNATURE or payload[:1] not in {_ASKS, _LEADS}:
        return None
    word = _Word(payload[:1], payload[1 : 1 + _NONCE])
    signed = _DOMAIN + crypto.encode(run, *word)
    return word if server.verify(signed, payload[1 + _NONCE :]) else None
