"""MQTT client ids that belong to the credentials of their connection.

A broker ends the connection of a client when another one takes its id. mosquitto takes any id from any
certificate, so that ids which all know (``RUN-server``) would let every party end the server's connection.
Here an id goes on with a code that only the holder of the connection's private key, or password, can compute.
It is the same after a restart, so that the broker finds the session, and differs by run and connection.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from securefl.base.errors import ConfigError
from securefl.runtime.transport.base import BrokerUrl

_LABEL: Final = b"securefl mqtt client id\0"
_CODE_CHARACTERS: Final = 32
"""128 bits in hex."""


def bound_client_id(client_id: str, url: BrokerUrl) -> str:
    """Return ``client_id`` with the code of the credentials in ``url``; as it is if there are none.

    The result is a secret of the connection: it belongs in no message and no log.

    Raises:
        ConfigError: the private key cannot be read.
    """
    secret = _secret(url)
    if secret is None:
        return client_id
    code = hmac.new(secret, _LABEL + client_id.encode(), hashlib.sha256).hexdigest()
    return f"{client_id}-{code[:_CODE_CHARACTERS]}"


def _secret(url: BrokerUrl) -> bytes | None:
    if url.key_file is not None:
        try:
            return hashlib.sha256(url.key_file.read_bytes()).digest()
        except OSError as error:
            raise ConfigError("key_file", f"{url.key_file} cannot be read: {error.strerror}") from error
    if url.password:
        # Slow on purpose: who reads the broker's log sees the id, and could try passwords against it.
        salt = _LABEL + (url.username or "").encode()
        return hashlib.scrypt(url.password.encode(), salt=salt, n=2**14, r=8, p=1)
    return None
