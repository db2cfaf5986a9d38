"""Who may write and read which topic: one table, for mosquitto and for the embedded broker.

The broker is untrusted, so these rules protect nothing that matters for privacy or correctness (signatures
and sealing do that). They keep an honest broker's traffic orderly: a party cannot flood another's topics, and
a last will cannot be forged. A user is the common name of the client certificate.

The topics are those of `securefl.protocol.wire.topics`, plus ``peer/<to>/<from>`` for protocols in which
parties talk to each other directly.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from securefl.base.ids import SERVER
from securefl.runtime.transport.base import topic_matches

Access = Literal["read", "write", "readwrite"]

OBSERVER = "observer"
"""The user that may read everything and write nothing but its own probe."""

_ROOT = "sfl/1/+"


class Rule(NamedTuple):
    """``user`` None stands for everybody; ``%u`` in the filter is the user's own name."""

    user: str | None
    access: Access
    topic_filter: str


RULES = (
    Rule(None, "write", f"{_ROOT}/up/%u"),
    Rule(None, "read", f"{_ROOT}/down/%u"),
    Rule(None, "read", f"{_ROOT}/down/all"),
    Rule(None, "write", f"{_ROOT}/peer/+/%u"),
    Rule(None, "read", f"{_ROOT}/peer/%u/+"),
    Rule(None, "write", f"{_ROOT}/status/%u"),
    Rule(None, "read", f"{_ROOT}/status/{SERVER}"),
    Rule(None, "readwrite", f"{_ROOT}/probe/%u"),
    Rule(SERVER, "write", f"{_ROOT}/down/+"),
    Rule(SERVER, "read", f"{_ROOT}/up/+"),
    Rule(SERVER, "read", f"{_ROOT}/status/+"),
    Rule(OBSERVER, "read", "sfl/1/#"),
)


def mosquitto_acl() -> str:
    """The rules as a mosquitto ``acl_file`` (mosquitto.conf(5)); what no rule grants is denied."""
    lines = [f"pattern {rule.access} {rule.topic_filter}" for rule in RULES if rule.user is None]
    for user in dict.fromkeys(rule.user for rule in RULES if rule.user is not None):
        lines += ["", f"user {user}"]
        lines += [f"topic {rule.access} {rule.topic_filter}" for rule in RULES if rule.user == user]
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
