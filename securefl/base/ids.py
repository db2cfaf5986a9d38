"""Names of parties and runs; coordinates of a secure sum."""

import re
from typing import NamedTuple, NewType

PartyId = NewType("PartyId", str)
RunId = NewType("RunId", str)

SERVER = PartyId("server")
"""Name of the server. No party may have it."""

DEALER = PartyId("dealer")
"""Name of the dealer of validated sums. No party may have it."""

EVERYONE = PartyId("*")
"""Recipient of a message to all parties."""

RESERVED = frozenset({SERVER, "all", "observer"})
"""Names in topics and access rules. No party may have one."""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
"""Name of a party or run: safe in an MQTT topic, a file name and a terminal."""


class Instance(NamedTuple):
    """Coordinates of one secure sum.

    ``attempt`` counts retries before the freeze from 0 (protocol.md).
    """

    run: RunId
    round: int
    reclustering: int
    cluster: int
    attempt: int


def is_name(text: str) -> bool:
    """Return True if ``text`` may name a party or a run."""
    return NAME.fullmatch(text) is not None and text not in RESERVED
