"""Access rules of topics, for mosquitto and for the embedded broker.

The broker is untrusted: signatures and sealing protect the protocol. At an honest broker these rules stop a
party from flooding another's topics or forging a last will. A user is a client certificate's common name.
``peer/<to>/<from>`` are topics between parties; ``sfl-agents`` is between operator and agents.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from securefl.base.ids import SERVER
from securefl.runtime.transport.base import topic_matches

Access = Literal["read", "write", "readwrite"]

OBSERVER = "observer"
"""User that may read all topics and write only its own probe and status."""

OPERATOR = "operator"
"""User that submits runs to agents."""

_ROOT = "sfl/1/+"
_AGENTS = "sfl-agents/1/+"


class AccessRule(NamedTuple):
    """Rule of one user (None: every user); ``%u`` in the filter is the user's name."""

    user: str | None
    access: Access
    topic_filter: str


ACL_RULES = (
    AccessRule(None, "write", f"{_ROOT}/up/%u"),
    AccessRule(None, "read", f"{_ROOT}/down/%u"),
    AccessRule(None, "read", f"{_ROOT}/down/all"),
    AccessRule(None, "write", f"{_ROOT}/peer/+/%u"),
    AccessRule(None, "read", f"{_ROOT}/peer/%u/+"),
    AccessRule(None, "write", f"{_ROOT}/status/%u"),
    AccessRule(None, "read", f"{_ROOT}/status/{SERVER}"),
    AccessRule(None, "readwrite", f"{_ROOT}/probe/%u"),
    AccessRule(None, "read", f"{_AGENTS}/orders/#"),
    AccessRule(None, "read", f"{_AGENTS}/status/+/{SERVER}"),
    AccessRule(None, "write", f"{_AGENTS}/status/+/%u"),
    AccessRule(SERVER, "write", f"{_ROOT}/down/+"),
    AccessRule(SERVER, "read", f"{_ROOT}/up/+"),
    AccessRule(SERVER, "read", f"{_ROOT}/status/+"),
    AccessRule(SERVER, "readwrite", f"{_AGENTS}/orders/#"),
    AccessRule(SERVER, "read", f"{_AGENTS}/status/#"),
    AccessRule(OBSERVER, "read", "sfl/1/#"),
    AccessRule(OPERATOR, "read", f"{_AGENTS}/#"),
    AccessRule(OPERATOR, "write", f"{_AGENTS}/orders/#"),
    AccessRule(OPERATOR, "write", f"{_AGENTS}/probe"),
)


BRIDGED = (
    ("write", f"{_ROOT}/up/+"),
    ("readwrite", f"{_ROOT}/status/+"),
    ("read", f"{_ROOT}/down/+"),
    ("readwrite", f"{_ROOT}/peer/{SERVER}/{SERVER}"),
    ("read", f"{_AGENTS}/orders/#"),
    ("write", f"{_AGENTS}/status/+/+"),
    ("read", f"{_AGENTS}/status/+/{SERVER}"),
)
"""Access of a bridge from a broker of parties, at the broker of server and operator.

Orders come from the operator there, and notices cross in both directions.
"""


def mosquitto_acl(bridges: Iterable[str] = ()) -> str:
    """Return the rules as a mosquitto ``acl_file`` (mosquitto.conf(5)), which denies by default.

    ``bridges`` are brokers that act for all their parties.
    """
    lines = [f"pattern {rule.access} {rule.topic_filter}" for rule in ACL_RULES if rule.user is None]
    for user in dict.fromkeys(rule.user for rule in ACL_RULES if rule.user is not None):
        lines += ["", f"user {user}"]
        lines += [f"topic {rule.access} {rule.topic_filter}" for rule in ACL_RULES if rule.user == user]
    for bridge in bridges:
        lines += ["", f"user {bridge}", *(f"topic {access} {which}" for access, which in BRIDGED)]
    return "\n".join(lines) + "\n"


def permits(user: str, access: Literal["read", "write"], topic: str) -> bool:
    """Return True if ``user`` may read or write ``topic`` (not a filter)."""
    if not user or set(user) & set("+#/"):
        return False
    return any(
        rule.user in {None, user}
        and access in rule.access
        and topic_matches(rule.topic_filter.replace("%u", user), topic)
        for rule in ACL_RULES
    )
