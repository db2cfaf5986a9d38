"""Reaching a broker: which address of several is tried when, and whether it has kept anything."""

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
"""So many times in a row a broker closes the connection before that is taken for a refusal."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A broker that takes this process."""

    connection: connecting.Connection
    at: int
    """Its place in the list."""
    kept: bool
    """Whether it is the one that this process was at last, and has kept its session."""


class Reach:
    """The brokers of one process, and where it is among them."""

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
        """The longest time before the next connection."""
        self.at = 0
        """The place of the broker that this process is at, or was last."""
        self.connections = 0
        """How often a connection was made."""

    @property
    def url(self) -> base.BrokerUrl:
        """The address of that broker."""
        return self._brokers.urls[self.at]

    async def first(self) -> Reached:
        """Reach the first broker that takes this process.

        Raises:
            ConfigError: all refuse who it is or are not who they should be, or a file for TLS is bad.
            RunAbortedError: one of them is out of reach, and none takes it.
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
            # One that ends while it is asked looks as if it refused. It will not look so again.
            if loop.time() >= until and not (ending and tries < _HANG_UPS):
                raise addresses.none_of(troubles)
            await asyncio.sleep(self._jitter.uniform(0.1, 1.0))

    async def again(
        self, trouble: SecureflError, since: float, *, here: bool, short_lived: bool = False
    ) -> Reached:
        """Reach any broker after a loss: in turn, with pauses that grow, until it is time to give up.

        The pauses go on to grow over connections that are short-lived: a broker that takes this process and
        ends the connection at once is not asked more often than one that is away.

        Args:
            trouble: why the last connection ended.
            since: when this process was last at a broker, by the clock of the loop.
            here: whether the one that was lost is tried first, or the one after it.
            short_lived: whether the connection that was lost had been of no use.

        Raises:
            RunAbortedError: none takes it for too long.
        """
        limits = self._limits
        if not short_lived:
            self._pause = limits.first_pause
        troubles = {self.url: trouble}
        down: set[int] = set()
        while True:
            self.check_patience(since, addresses.none_of(troubles))
            # Jitter, so that all parties do not come back in the same moment.
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
                    # One that was killed has sessions as it last wrote them, without what came since.
                    return replace(reached, kept=reached.kept and at not in down)

    async def elsewhere(self) -> Reached | None:
        """Reach another broker than the present one, trying each of them once; None where there is none."""
        for at in tuple(self._order(self.at + 1))[:-1]:
            try:
                return await self._open(at)
            except (aiomqtt.MqttError, ConfigError):
                continue
        return None

    def limit_at(self, at: int, topic: str, wanted: int = message_limit.WANTED) -> message_limit.MessageLimit:
        """Return the limit of messages at a broker, to be measured over ``topic`` up to ``wanted`` bytes."""
        opening, within = partial(self._beside, at), self._limits.patience
        url, close_within = self._brokers.urls[at], self._limits.close_within
        return message_limit.MessageLimit(
            url, opening, topic, wanted=wanted, within=within, close_within=close_within
        )

    async def _beside(self, at: int) -> connecting.Connection:
        """Open another connection to a broker, ``<client id>-probe``, of which the broker keeps nothing.

        Raises:
            ConfigError: a file for TLS cannot be used.
            aiomqtt.MqttError: the broker does not take it.
        """
        limits = replace(self._limits, silence=0)
        connection = connecting.Connection(
            self._brokers.urls[at], f"{self._client_id}-probe", None, limits, forget=True
        )
        await connection.open()
        return connection

    def check_patience(self, since: float, trouble: SecureflError) -> None:
        """Give up what has not been there for too long.

        Raises:
            RunAbortedError: it has not been there since ``since``.
        """
        within = self._limits.give_up_after
        if asyncio.get_running_loop().time() - since >= within:
            raise RunAbortedError(f"no connection to {self._brokers} within {within:g} s: {trouble}")

    def _order(self, first: int) -> Iterator[int]:
        return ((first + step) % len(self._brokers) for step in range(len(self._brokers)))

    async def _open(self, at: int) -> Reached:
        """Connect to one of the brokers.

        Raises:
            ConfigError: a file for TLS is not what it is said to be.
            aiomqtt.MqttError: it does not take this process.
        """
        connection = await self._connect(at)
        if connection.session_present and at not in self._visited:
            # What a broker kept for an earlier program of this name is about rounds that are over.
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
