"""Events: everything that can happen to a machine.

Every event carries ``now``, the time in seconds on a clock that never runs backwards; machines have no other.
"""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from securefl.base.arrays import F64
from securefl.base.ids import PartyId

MessageT = TypeVar("MessageT")


class Place(NamedTuple):
    """The place of a message in a run. Messages about a whole round have reclustering and cluster -1."""

    round: int
    reclustering: int = -1
    cluster: int = -1
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Received(Generic[MessageT]):
    """A message arrived whole, its signature is the sender's, and it was not here before."""

    now: float
    sender: PartyId
    place: Place
    message: MessageT
    signed: bytes = field(default=b"", repr=False)
    """The exact signed frame, for relaying; empty when the message came in several frames."""
    session: bytes = b""
    """Of the sender's process, as signed; empty where nobody asks whose it is."""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The time asked for by the last ``WakeAt`` has come."""

    now: float


@dataclass(frozen=True, slots=True)
class Trained:
    """Local training ended. ``update`` is None when it failed (``failure`` says why, to this party alone)."""

    now: float
    round: int
    work: int
    update: F64 | None = field(repr=False)
    """What is to be added to the round's parameters, f64 ``(d,)``."""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The party knows its task group. ``group`` is None when no loss was finite (``failure`` says so)."""

    now: float
    round: int
    group: int | None = field(repr=False)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The server's model was tested; ``accuracy`` and ``loss`` are None where there is no test set."""

    now: float
    round: int
    accuracy: float | None
    loss: float | None
    backdoor_success: float | None = None
    """None where no backdoor is looked for."""


@dataclass(frozen=True, slots=True)
class Consulted:
    """The gradients asked for by ``Consult`` are there, in its order, each f64 ``(d,)`` and uphill.

    ``gradients`` is None when there are none (``failure`` says why).
    """

    now: float
    round: int
    gradients: tuple[F64, ...] | None = field(repr=False)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class AllSent:
    """Everything sent before ``AwaitSent`` has left."""

    now: float
    round: int
    draw: int


@dataclass(frozen=True, slots=True)
class PresenceHint:
    """The broker says that a party's connection broke. Unsigned: it may only speed up a deadline."""

    now: float
    party: PartyId


@dataclass(frozen=True, slots=True)
class Heard:
    """An authentic, new frame of this party came in, which completes no message yet."""

    now: float
    party: PartyId


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """Whoever runs this process asks it to stop where it can go on later."""

    now: float
    reason: str


@dataclass(frozen=True, slots=True)
class Offline:
    """This process has lost the broker. What it sends waits, and nothing comes in."""

    now: float


@dataclass(frozen=True, slots=True)
class Online:
    """This process has the broker again; what waited leaves now."""

    now: float
    connection: int
    """Which connection of the process this is, from 2: the first one is there before the machine starts."""
    kept: bool
    """Whether the broker kept what came in the meantime."""
