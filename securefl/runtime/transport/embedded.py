"""Embedded broker for demos and tests without mosquitto: amqtt in its own process.

``python -m securefl.runtime.transport.embedded <settings as JSON>``. Unlike mosquitto, it forgets
unacknowledged frames with their connection, holds nothing back for slow readers, and does not handle a second
program under the same client id. Changes to amqtt:

- Its anonymous sessions are not persistent; here every client has a user name.
- Client certificates are required, and their common name is the user. A session continues only under its
  first user.
- A clean session outlives its connection for up to a second; reused as a persistent one, it would keep
  nothing. Here the session begins anew (MQTT 3.1.1, 3.1.2.4).
- It iterates over the subscription table across awaits; a concurrent subscription ended another client's
  connection or withheld a frame. Here it iterates over a copy.
- If a client reconnects before the broker notices the loss, the old connection's end would end the new
  session.
- It ends a connection at the keep-alive time, not at one and a half times that (MQTT 3.1.1, 3.1.2.10).
- No ``$SYS`` topics, no packet log.
"""

import asyncio
import json
import logging
import ssl
import sys
from collections.abc import Iterator
from typing import Any

from amqtt.broker import Broker
from amqtt.contexts import Action, BrokerConfig, ListenerConfig
from amqtt.errors import AMQTTError
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin

from securefl.runtime.transport.acl import permits

_EXTRA_KEEP_ALIVE = 15


class Welcome(BaseAuthPlugin):  # type: ignore[misc] # amqtt is untyped
    """Authentication that accepts every session: TLS has authenticated the client."""

    async def authenticate(self, *, session: Any) -> bool:
        """Return True if there is a session."""
        return session is not None


class TopicRules(BaseTopicPlugin):  # type: ignore[misc] # amqtt is untyped
    """Rules of `securefl.runtime.transport.acl` for users named by their certificate."""

    async def topic_filtering(
        self, *, session: Any = None, topic: str | None = None, action: Any = None
    ) -> bool:
        """Return True if a session may publish to or receive from a topic; it may always subscribe."""
        if session is None or topic is None:
            return False
        if action == Action.SUBSCRIBE:
            return True
        return permits(session.username or "", "write" if action == Action.PUBLISH else "read", topic)


class Subscriptions(dict[str, list[Any]]):
    """(session, QoS) of each subscriber by filter; iteration uses a snapshot."""

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self.keys()))

    def items(self) -> Any:
        """Return a snapshot."""
        return [(topic_filter, tuple(self[topic_filter])) for topic_filter in self]


class EmbeddedBroker(Broker):  # type: ignore[misc] # amqtt is untyped
    """amqtt's broker with mandatory client certificates."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self._owners: dict[str, str] = {}
        self._subscriptions = Subscriptions()
        self._left: set[Any] = set()
        """Handlers of connections whose session another one has taken over."""

    @staticmethod
    def _create_ssl_context(listener: ListenerConfig) -> ssl.SSLContext:
        context: ssl.SSLContext = Broker._create_ssl_context(listener)
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    async def _initialize_client_session(
        self, reader: Any, writer: Any, remote_address: str, remote_port: int
    ) -> tuple[Any, Any]:
        handler, session = await super()._initialize_client_session(
            reader, writer, remote_address, remote_port
        )
        user = _common_name(writer.get_ssl_info()) or session.client_id
        if self._owners.setdefault(session.client_id, user) != user:
            await writer.close()
            raise AMQTTError(f"client id {session.client_id!r} belongs to another user")
        session.username = user
        if session.parent and session.clean_session:
            # Found for a persistent session: amqtt would treat it as clean for ever.
            await self._del_all_subscriptions(session)
            session.clear_queues()
            session.clean_session = False
            session.parent = 0
        return handler, session

    async def _handle_client_session(
        self, reader: Any, writer: Any, client_session: Any, handler: Any, server: Any, listener_name: str
    ) -> None:
        before, old = self._sessions.get(client_session.client_id, (None, None))
        if before is client_session and client_session.transitions.is_connected():
            self._left.add(old)
        try:
            await super()._handle_client_session(
                reader, writer, client_session, handler, server, listener_name
            )
        finally:
            self._left.discard(handler)

    async def _handle_disconnect(self, client_session: Any, handler: Any, disconnect_waiter: Any) -> None:
        if handler not in self._left:
            await super()._handle_disconnect(client_session, handler, disconnect_waiter)


def _common_name(connection: ssl.SSLObject | None) -> str | None:
    certificate = connection.getpeercert() if connection is not None else None
    for relative_name in (certificate or {}).get("subject", ()):
        for attribute in relative_name:
            if attribute[0] == "commonName":
                return str(attribute[1])
    return None


async def serve(settings: dict[str, Any]) -> None:
    """Run until killed. ``settings``: port, acl (bool), and with TLS cafile, certfile, keyfile."""
    # As __main__ this module is not the one that amqtt imports.
    plugins: dict[str, dict[str, Any]] = {"securefl.runtime.transport.embedded.Welcome": {}}
    if settings["acl"]:
        plugins["securefl.runtime.transport.embedded.TopicRules"] = {}
    files = {name: settings[name] for name in ("cafile", "certfile", "keyfile") if name in settings}
    listener = ListenerConfig(bind=f"127.0.0.1:{settings['port']}", ssl=bool(files), **files)
    config = BrokerConfig(
        listeners={"default": listener}, plugins=plugins, timeout_disconnect_delay=_EXTRA_KEEP_ALIVE
    )
    await EmbeddedBroker(config).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    asyncio.run(serve(json.loads(sys.argv[1])))
