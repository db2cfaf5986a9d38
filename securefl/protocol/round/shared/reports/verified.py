"""Reports on verified rounds."""

from dataclasses import dataclass

from securefl.base import text
from securefl.protocol.round.shared.reports.base import AnyReport


@dataclass(frozen=True, slots=True)
class Repeated(AnyReport):
    """A party has repeated an opening, or the step, and it comes to what the server claims."""

    round: int
    reclustering: int
    cluster: int
    """-1 both for the step."""
    root: bytes


@dataclass(frozen=True, slots=True)
class LinkFollowed(AnyReport):
    """A party goes on with a model of which it knows that the chain confirms it."""

    round: int
    """Whose step made the model; -1 for the first."""
    root: bytes


@dataclass(frozen=True, slots=True)
class ClaimConfirmed(AnyReport):
    """Verifiers have confirmed what the server made of a round."""

    round: int
    root: bytes
    verifiers: int


@dataclass(frozen=True, slots=True)
class ClaimRefused(AnyReport):
    """The server's step is void: not all certified sums opened, or verifiers have not confirmed it."""

    round: int
    reason: str

    def line(self) -> str:
        """See :class:`AnyReport`."""
        return (
            f"round {self.round}: the model is not changed, verification failed: "
            f"{text.printable(self.reason)}"
        )
