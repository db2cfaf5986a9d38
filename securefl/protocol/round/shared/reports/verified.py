"""Reports on verified rounds."""

from dataclasses import dataclass

from securefl.base import text
from securefl.protocol.round.shared.reports.base import AnyReport


@dataclass(frozen=True, slots=True)
class Repeated(AnyReport):
    """Party: it repeated an opening, or the step, as claimed."""

    round: int
    reclustering: int
    cluster: int
    """Both -1 for the step."""
    root: bytes


@dataclass(frozen=True, slots=True)
class LinkFollowed(AnyReport):
    """Party: it continues with a model that the chain confirms."""

    round: int
    """Round whose step made the model; -1 for the first."""
    root: bytes


@dataclass(frozen=True, slots=True)
class ClaimConfirmed(AnyReport):
    """Server: verifiers confirmed the result of a round."""

    round: int
    root: bytes
    verifiers: int


@dataclass(frozen=True, slots=True)
class ClaimRefused(AnyReport):
    """Server: the step is void, as sums did not open or verifiers did not confirm it."""

    round: int
    reason: str

    def line(self) -> str:
        return (
            f"round {self.round}: the model is not changed, verification failed: "
            f"{text.printable(self.reason)}"
        )
