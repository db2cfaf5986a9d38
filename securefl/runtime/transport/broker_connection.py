"""Connecting to one of several brokers."""

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import aiomqtt

from securefl.base.errors import ConfigError, RunAbortedError, SecureflError
from securefl.runtime.transport import addresses, base, connecting, message_limit

_HANG_UPS: Final = 3
"""Consecutive closes by a broker after which a process does not wait for it."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Broker that accepted this process."""

    connection: connecting.Connection
    at: int
    kept: bool
    """True if it is this process's last broker and has kept its session."""


class Reach:
    """Brokers of one process, and the current one."""

    def __init__(
        self,
        brokers: addresses.Brokers,
        client_id: str,
        last_will: tuple[str, bytes] | None,
        limits: base.MqttLimits,
    ) -> None:
        self._brokers = brokers
        self._client_id = client_id
        self._last_will = last_will
        self._limits = limits
        self._jitter = random.SystemRandom()
        self._visited: set[int] = set()
        self._pause = limits.first_pause
        """Maximum seconds before the next connection."""
        self.at = 0
        """Index of the current or last broker."""
        self.connections = 0

    @property
    def url(self) -> base.BrokerUrl:
        """Address of the current or last broker."""
        return self._brokers.urls[self.at]

    async def first(self) -> Reached:
        """Connect to the first broker that accepts this process.

        Raises:
            ConfigError: all refuse this process or cannot be authenticated, or a TLS file is bad.
            RunAbortedError: none accepts it, and one of them is out of reach or does not answer.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.first_within
        tries = 0
        while True:
            troubles: dict[base.BrokerUrl, SecureflError] = {}
            tries, ending = tries + 1, False
            for at, url in enumerate(self._brokers):
                try:
                    return await self._open(at)
                except aiomqtt.MqttError as error:
                    troubles[url] = connecting.explain(url, error)
                    ending = ending or connecting.hung_up(error)
            # A broker that is shutting down hangs up only once.
            if loop.time() >= until and not (ending and tries < _HANG_UPS):
                raise addresses.none_of(troubles)
            await asyncio.sleep(self._jitter.uniform(0.1, 1.0))

    async def again(
        self, trouble: SecureflError, since: float, *, here: bool, short_lived: bool = False
    ) -> Reached:
        """Connect to any broker after a loss, in turn, with pauses that grow to a limit.

        A broker that closes connections at once is tried no more often than an unreachable one.

        Args:
            trouble: reason of the last loss.
            since: time when this process was last at a broker, by the loop's clock.
            here: True to try the lost broker first, False for the next one.
            short_lived: True if the lost connection was of no use.

        Raises:
            RunAbortedError: none accepts it for too long.
        """
        limits = self._limits
        if not short_lived:
            self._pause = limits.first_pause
        troubles = {self.url: trouble}
        down: set[int] = set()
        while True:
            self.check_patience(since, addresses.none_of(troubles))
            # Jitter, so that parties do not reconnect simultaneously.
            await asyncio.sleep(self._jitter.uniform(self._pause / 2, self._pause))
            self._pause = min(2 * self._pause, limits.longest_pause)
            for at in self._order(self.at if here else self.at + 1):
                url = self._brokers.urls[at]
                try:
                    reached = await self._open(at)
                except aiomqtt.MqttError as error:
                    troubles[url] = connecting.explain(url, error)
                    if connecting.was_down(error):
                        down.add(at)
                except ConfigError as error:
                    troubles[url] = error
                else:
                    # A killed broker restores sessions as last written, without later frames.
                    return replace(reached, kept=reached.kept and at not in down)

    async def elsewhere(self) -> Reached | None:
        """Connect to another broker, trying each once; return None if none accepts."""
        for at in tuple(self._order(self.at + 1))[:-1]:
            try:
                return await self._open(at)
            except (aiomqtt.MqttError, ConfigError):
                continue
        return None

    def limit_at(self, at: int, topic: str, wanted: int = message_limit.WANTED) -> message_limit.MessageLimit:
        """Return a broker's message limit, to be measured over ``topic`` up to ``wanted`` bytes."""
        opening, within = partial(self._beside, at), self._limits.patience
        url, close_within = self._brokers.urls[at], self._limits.close_within
        return message_limit.MessageLimit(
            url, opening, topic, wanted=wanted, within=within, close_within=close_within
        )

    async def _beside(self, at: int) -> connecting.Connection:
        """Open another connection, ``<client id>-probe``, with a clean session."""
        limits = replace(self._limits, silence=0)
        connection = connecting.Connection(
            self._brokers.urls[at], f"{self._client_id}-probe", None, limits, forget=True
        )
        await connection.open()
        return connection

    def check_patience(self, since: float, trouble: SecureflError) -> None:
        """Raise RunAbortedError after too long without a broker, since ``since``."""
        within = self._limits.give_up_after
        if asyncio.get_running_loop().time() - since >= within:
            raise RunAbortedError(f"no connection to {self._brokers} within {within:g} s: {trouble}")

    def _order(self, first: int) -> Iterator[int]:
        return ((first + step) % len(self._brokers) for step in range(len(self._brokers)))

    async def _open(self, at: int) -> Reached:
        connection = await self._connect(at)
        if connection.session_present and at not in self._visited:
            # Frames queued for an earlier program of this name concern past rounds.
            await connection.end(self._limits.close_within)
            forgetting = await self._connect(at, forget=True)
            await forgetting.end(self._limits.close_within)
            connection = await self._connect(at)
        self._visited.add(at)
        return Reached(connection, at, connection.session_present and at == self.at)

    async def _connect(self, at: int, *, forget: bool = False) -> connecting.Connection:
        url, will = self._brokers.urls[at], None if forget else self._last_will
        connection = connecting.Connection(url, self._client_id, will, self._limits, forget=forget)
        await connection.open()
        self.connections += 1
        return connection
