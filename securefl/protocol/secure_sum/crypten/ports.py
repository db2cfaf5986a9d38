"""Port to CrypTen: the core imports neither CrypTen nor torch."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from securefl.base.arrays import Ring
from securefl.base.ids import PartyId
from securefl.protocol.secure_sum.crypten import progress
from securefl.protocol.secure_sum.crypten.zeros import ZeroShares

ResultT_co = TypeVar("ResultT_co", covariant=True)


class Computation(Protocol[ResultT_co]):
    """One member's part of a computation."""

    def resume(self, incoming: Iterable[progress.Incoming] = ()) -> progress.Progress[ResultT_co]:
        """Deliver messages and compute until one is missing.

        Raises:
            PeerError: a message cannot be delivered; nothing has changed.
        """
        ...

    def close(self) -> None:
        """End the computation at once."""
        ...


class Engine(Protocol):
    """Computation of shares."""

    def share_of_sum(self, members: Sequence[PartyId], rank: int, zeros: ZeroShares, encoded: Ring) -> Ring:
        """Return this member's share of the sum of all members' ``encoded``, without messages.

        ``members`` are by rank; ``encoded``, ring words of shape (d,), is not changed. The new words are
        uniform on their own, and the sum when added over all members.
        """
        ...
