"""Access rules of topics, for reading and writing: one table, for mosquitto and for the embedded broker.

The broker is untrusted, so these rules protect nothing that matters for privacy or correctness (signatures
and sealing do that). They keep an honest broker's traffic orderly: a party cannot flood another's topics, and
a last will cannot be forged. A user is the common name of the client certificate.

The topics are those of `securefl.protocol.wire.topics`, plus ``peer/<to>/<from>`` for protocols in which
parties talk to each other directly.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from securefl.base.ids import SERVER
from securefl.runtime.transport.base import topic_matches

Access = Literal["read", "write", "readwrite"]

OBSERVER = "observer"
"""The user that may read everything and write nothing but its own probe and status."""

_ROOT = "sfl/1/+"


class AccessRule(NamedTuple):
    """``user`` None stands for everybody; ``%u`` in the filter is the user's own name."""

    user: str | None
    access: Access
    topic_filter: str


RULES = (
    AccessRule(None, "write", f"{_ROOT}/up/%u"),
    AccessRule(None, "read", f"{_ROOT}/down/%u"),
    AccessRule(None, "read", f"{_ROOT}/down/all"),
    AccessRule(None, "write", f"{_ROOT}/peer/+/%u"),
    AccessRule(None, "read", f"{_ROOT}/peer/%u/+"),
    AccessRule(None, "write", f"{_ROOT}/status/%u"),
    AccessRule(None, "read", f"{_ROOT}/status/{SERVER}"),
    AccessRule(None, "readwrite", f"{_ROOT}/probe/%u"),
    AccessRule(SERVER, "write", f"{_ROOT}/down/+"),
    AccessRule(SERVER, "read", f"{_ROOT}/up/+"),
    AccessRule(SERVER, "read", f"{_ROOT}/status/+"),
    AccessRule(OBSERVER, "read", "sfl/1/#"),
)


BRIDGED = (
    ("write", f"{_ROOT}/up/+"),
    ("readwrite", f"{_ROOT}/status/+"),
    ("read", f"{_ROOT}/down/+"),
    ("readwrite", f"{_ROOT}/peer/{SERVER}/{SERVER}"),
)
"""What a bridge from a broker of parties passes on, at the broker where the server is."""


def mosquitto_acl(bridges: Iterable[str] = ()) -> str:
    """The rules as a mosquitto ``acl_file`` (mosquitto.conf(5)); what no rule grants is denied.

    ``bridges`` are users that are brokers themselves, and speak for all of their parties.
    """
    lines = [f"pattern {rule.access} {rule.topic_filter}" for rule in RULES if rule.user is None]
    for user in dict.fromkeys(rule.user for rule in RULES if rule.user is not None):
        lines += ["", f"user {user}"]
        lines += [f"topic {rule.access} {rule.topic_filter}" for rule in RULES if rule.user == user]
    for bridge in bridges:
        lines += ["", f"user {bridge}", *(f"topic {access} {which}" for access, which in BRIDGED)]
    return "\n".join(lines) + "\n"


def permits(user: str, access: Literal["read", "write"], topic: str) -> bool:
    """Whether ``user`` may read or write ``topic`` (a topic, not a filter)."""
    if not user or set(user) & set("+#/"):
        return False
    return any(
        rule.user in {None, user}
        and access in rule.access
        and topic_matches(rule.topic_filter.replace("%u", user), topic)
        for rule in RULES
    )
