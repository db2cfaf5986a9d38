"""Messages on joining and leaving a run, and heartbeats in between."""

from typing import Annotated, Final

from msgspec import Meta

from securefl.protocol.messages import base

WIRE_VERSION: Final = 3
"""Version of the wire that this program uses. 1: servers without epochs. 2: hellos without statements."""


Version = Annotated[str, Meta(pattern=r"^[0-9A-Za-z.+-]{1,32}\Z")]
"""The version of a program, as it is printed."""


class Here(base.Message, frozen=True, kw_only=True):
    """A process to the server, the server to all: my connection stands. Said on each one.

    Signed as all messages are, with the session of the process and a number of its own in the envelope: who
    is said to be gone is heard again, and what the broker recorded earlier proves nothing (ADR 0032).
    """

    connection: Annotated[int, Meta(ge=1, lt=2**31)]
    """How many connections this process has made, this one included."""
    kept: bool
    """Whether the broker kept what came while there was none. A broker that started again has not."""


class RollCall(base.Message, frozen=True, kw_only=True):
    """Server to all, when it starts: who is there? Parties that started first join again."""


class Join(base.Message, frozen=True, kw_only=True):
    """Party to server: I am here, with this configuration.

    A wrong digest means that the two do not run the same scenario; the server answers with ``Goodbye``.
    """

    config_digest: base.Digest


class JoinRun(Join, frozen=True, kw_only=True):
    """A :class:`Join` that says what the party speaks and knows. A plain one is of a version without it."""

    version: Annotated[int, Meta(ge=1, lt=2**31)]
    """:data:`WIRE_VERSION` of the sender."""
    leader: Annotated[bytes, Meta(max_length=8)]
    """The session of the server of the highest epoch that it knows; empty for none."""
    round: Annotated[int, Meta(ge=-1, lt=2**31)]
    """The last round of which it has seen the draw; -1 for none."""


class Software(base.Message, frozen=True, kw_only=True):
    """Party to server, before it joins: versions that the last bits of its results may depend on.

    The server compares them with its own and reports differences. Nothing depends on them.
    """

    python: Version
    numpy: Version
    securefl: Version


class Pause(base.Message, frozen=True, kw_only=True):
    """Server to all: it ends for now, and is started again; the run goes on then."""

    reason: Annotated[str, Meta(max_length=1_000)]


class Goodbye(base.Message, frozen=True, kw_only=True):
    """Server to one or all: the run is over (or over for you)."""

    reason: Annotated[str, Meta(max_length=1_000)]
    aborted: bool
