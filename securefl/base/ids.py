"""Names of parties and runs, and the coordinates of one secure sum."""

import re
from typing import NamedTuple, NewType

PartyId = NewType("PartyId", str)
RunId = NewType("RunId", str)

SERVER = PartyId("server")
"""The sender name of the server. No party may carry it."""

DEALER = PartyId("dealer")
"""The sender name of the dealer of validated sums, where a run has one. No party may carry it."""

EVERYONE = PartyId("*")
"""The recipient name of a message to all parties."""

RESERVED = frozenset({SERVER, "all", "observer"})
"""Names with a meaning of their own in topics and access rules. No party may carry one."""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
"""What a party or run may be called: safe in an MQTT topic, a file name and a terminal."""


class Instance(NamedTuple):
    """One secure sum: ``attempt`` counts from 0 and grows with each retry before the freeze (protocol.md)."""

    run: RunId
    round: int
    reclustering: int
    cluster: int
    attempt: int


def is_name(text: str) -> bool:
    """Whether ``text`` may name a party or a run (and is not a reserved name)."""
    return NAME.fullmatch(text) is not None and text not in RESERVED
