"""Reports of a party on its own part of a round."""

from dataclasses import dataclass

from securefl.base import text
from securefl.base.ids import PartyId
from securefl.protocol.round.shared.reports.base import AnyReport
from securefl.protocol.round.shared.reports.notes import ClusterKey


@dataclass(frozen=True, slots=True)
class UpdateEncoded(AnyReport):
    """Party: an update is encoded; ``saturated`` counts coordinates beyond the encoding's range."""

    round: int
    work: int
    saturated: int

    def line(self) -> str | None:
        beyond = text.count_of(self.saturated, "coordinate")
        return f"round {self.round}: {beyond} cut at encoding.range: raise it" if self.saturated else None


@dataclass(frozen=True, slots=True)
class NothingLearned(AnyReport):
    """Party, in its own log only: local work failed, zeros were sent instead."""

    round: int
    work: int
    reason: str

    def line(self) -> str:
        return f"round {self.round}: training failed, so zeros were sent: {text.printable(self.reason)}"


@dataclass(frozen=True, slots=True)
class LoopStoodStill(AnyReport):
    """Party: no message was handled while training held the interpreter lock."""

    round: int
    seconds: float

    def line(self) -> str:
        return (
            f"round {self.round}: no message was handled for {text.seconds(self.seconds)} while the site"
            " trained: it holds the interpreter lock; --site-python gives it its own process"
        )


@dataclass(frozen=True, slots=True)
class SharesReleased(AnyReport):
    """Party: it released its shares for these instances, once; the fields name members, never shares."""

    round: int
    instances: tuple[ClusterKey, ...]
    attempts: tuple[int, ...] = ()
    seeds_of: tuple[tuple[PartyId, ...], ...] = ()
    """Members with a released share of their self-mask seed: those in the sum; all for a CrypTen sum."""
    keys_of: tuple[tuple[PartyId, ...], ...] = ()

    def own_line(self) -> str:
        return f"round {self.round}: the update of this party is in the sum"


@dataclass(frozen=True, slots=True)
class SatOut(AnyReport):
    """Party: it sits out the rest of this round."""

    round: int
    reason: str

    def line(self) -> str:
        return f"round {self.round}: this party does not take part: {text.printable(self.reason)}"

    def own_line(self) -> str:
        return f"sits out round {self.round}: {self.reason}"
