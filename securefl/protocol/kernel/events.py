"""Events: everything that can happen to a machine.

``now`` is the time in seconds on a monotonic clock, the only clock of a machine.
"""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from securefl.base.arrays import F64
from securefl.base.ids import PartyId

MessageT = TypeVar("MessageT")


class Place(NamedTuple):
    """Place of a message in a run; reclustering and cluster are -1 for a whole round."""

    round: int
    reclustering: int = -1
    cluster: int = -1
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class Received(Generic[MessageT]):
    """A whole, new message with the sender's valid signature."""

    now: float
    sender: PartyId
    place: Place
    message: MessageT
    signed: bytes = field(default=b"", repr=False)
    """Exact signed frame, for relaying; empty if there were several."""
    session: bytes = b""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """The time of the last ``WakeAt`` has come."""

    now: float


@dataclass(frozen=True, slots=True)
class Trained:
    """Local training ended with an update, f64 ``(d,)``, or None and a ``failure`` for this party only."""

    now: float
    round: int
    work: int
    update: F64 | None = field(repr=False)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The party knows its task group; ``group`` is None, with a ``failure``, if no loss was finite."""

    now: float
    round: int
    group: int | None = field(repr=False)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The server's model was tested; ``accuracy`` and ``loss`` are None without a test set."""

    now: float
    round: int
    accuracy: float | None
    loss: float | None
    backdoor_success: float | None = None


@dataclass(frozen=True, slots=True)
class Consulted:
    """Gradients for ``Consult``, in its order, each f64 ``(d,)``, uphill; None with a ``failure``."""

    now: float
    round: int
    gradients: tuple[F64, ...] | None = field(repr=False)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class AllSent:
    """The broker has acknowledged all frames sent before ``AwaitSent``."""

    now: float
    round: int
    draw: int


@dataclass(frozen=True, slots=True)
class PresenceHint:
    """The broker reports a party's broken connection. Unsigned: it may only shorten a deadline."""

    now: float
    party: PartyId


@dataclass(frozen=True, slots=True)
class Heard:
    """An authentic, new frame arrived, which completes no message yet."""

    now: float
    party: PartyId


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """The operator asks this process to pause where it can resume."""

    now: float
    reason: str


@dataclass(frozen=True, slots=True)
class Offline:
    """The process lost the broker."""

    now: float


@dataclass(frozen=True, slots=True)
class Online:
    """The process has the broker again and sends the waiting messages."""

    now: float
    connection: int
    """From 2; the first is made before the machine starts."""
    kept: bool
    """True if the broker stored messages meanwhile."""
