"""Messages that join, pause and leave a run, and heartbeats."""

from typing import Annotated, Final

from msgspec import Meta

from securefl.protocol.messages import base

WIRE_VERSION: Final = 3
"""Version 1 lacks epochs of servers, version 2 statements in hellos."""


Version = Annotated[str, Meta(pattern=r"^[0-9A-Za-z.+-]{1,32}\Z")]


class Here(base.Message, frozen=True, kw_only=True):
    """Heartbeat of a new connection, from a process to the server or from the server to all.

    Its fresh sequence number lets it cancel a presence hint; a recorded frame proves nothing (ADR 0032).
    """

    connection: Annotated[int, Meta(ge=1, lt=2**31)]
    """From 1."""
    kept: bool
    """True if the broker stored messages meanwhile."""


class RollCall(base.Message, frozen=True, kw_only=True):
    """Request from a starting server that running parties join again."""


class Join(base.Message, frozen=True, kw_only=True):
    """Request to join. The server answers a wrong digest (another scenario) with ``Goodbye``."""

    config_digest: base.Digest


class JoinRun(Join, frozen=True, kw_only=True):
    """:class:`Join` with the party's wire version and progress. Old versions send a plain one."""

    version: Annotated[int, Meta(ge=1, lt=2**31)]
    leader: Annotated[bytes, Meta(max_length=8)]
    """Session of the server of the highest epoch known; empty for none."""
    round: Annotated[int, Meta(ge=-1, lt=2**31)]
    """Last round whose draw the party has seen; -1 for none."""


class Software(base.Message, frozen=True, kw_only=True):
    """Software versions of a joining party. The server reports differences: they may change last bits."""

    python: Version
    numpy: Version
    securefl: Version


class Pause(base.Message, frozen=True, kw_only=True):
    """Notice that the run pauses until the server restarts."""

    reason: Annotated[str, Meta(max_length=1_000)]


class Goodbye(base.Message, frozen=True, kw_only=True):
    """Notice that the run is over, for all or for the recipient."""

    reason: Annotated[str, Meta(max_length=1_000)]
    aborted: bool
