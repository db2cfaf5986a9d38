"""Progress of a computation, between machines and sessions."""

from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from securefl.base.errors import PeerError

ResultT_co = TypeVar("ResultT_co", covariant=True)

MAX_AHEAD: Final = 256
"""Most waiting messages of a peer; an honest one is at most one opening of a few tensors ahead."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Message of a computation to another member."""

    to: int
    number: int
    """From 0, per ordered pair of members."""
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Incoming:
    """Message from another member."""

    sender: int
    number: int
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Awaiting:
    """The computation needs messages that have not arrived."""

    outbound: tuple[Outgoing, ...]


@dataclass(frozen=True, slots=True)
class Done(Generic[ResultT_co]):
    """The computation has its result."""

    outbound: tuple[Outgoing, ...]
    result: ResultT_co = field(repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """The computation failed because of a peer."""

    outbound: tuple[Outgoing, ...]
    error: PeerError


Progress: TypeAlias = Awaiting | Done[ResultT_co] | Failed
