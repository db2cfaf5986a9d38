"""Progress of a computation, in and out: the vocabulary between machines and sessions."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from securefl.base.errors import PeerError

ResultT_co = TypeVar("ResultT_co", covariant=True)

MAX_AHEAD: Final = 256
"""Messages of one peer that may wait. An honest one is at most one opening ahead, of a few tensors."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message of a computation to another member."""

    to: int
    """Rank of the receiver."""
    number: int
    """From 0, for each ordered pair of members."""
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message from another member."""

    sender: int
    number: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The computation needs messages that have not come."""

    outbound: tuple[Outgoing, ...]


@dataclass(frozen=True, slots=True)
class Done(Generic[ResultT_co]):
    """The computation has its result."""

    outbound: tuple[Outgoing, ...]
    result: ResultT_co = field(repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """A peer made the computation impossible."""

    outbound: tuple[Outgoing, ...]
    error: PeerError


Progress: TypeAlias = Awaiting | Done[ResultT_co] | Failed
