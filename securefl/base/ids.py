"""Names of parties and runs, and the coordinates of one secure sum."""

import re
from typing import NamedTuple, NewType

PartyId = NewType("PartyId", str)
RunId = NewType("RunId", str)

SERVER = PartyId("server")
"""Sender name of the server. No party may have it."""

DEALER = PartyId("dealer")
"""Sender name of the dealer of validated sums, in runs that have one. No party may have it."""

EVERYONE = PartyId("*")
"""Recipient name of a message to all parties."""

RESERVED = frozenset({SERVER, "all", "observer"})
"""Names with a meaning in topics and access rules. No party may have one."""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
"""Pattern of a party's or run's name: safe in an MQTT topic, a file name and a terminal."""


class Instance(NamedTuple):
    """Coordinates of one secure sum.

    ``attempt`` counts from 0 and grows with each retry before the freeze (protocol.md).
    """

    run: RunId
    round: int
    reclustering: int
    cluster: int
    attempt: int


def is_name(text: str) -> bool:
    """Return True if ``text`` may name a party or a run (and is not reserved)."""
    return NAME.fullmatch(text) is not None and text not in RESERVED
