"""Reports on the sums of a round."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from securefl.base import text
from securefl.base.ids import PartyId
from securefl.base.sums import exact_sum
from securefl.methods import clustering
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports.base import AnyReport
from securefl.protocol.round.shared.reports.notes import ClusterKey, RoundNotes, SumSeen
from securefl.protocol.round.shared.reports.picture import AnyPicture, mark_parties

CLOSED: Final = "kept closed by the leakage ledger"


@dataclass(frozen=True, slots=True)
class InstanceRetried(AnyReport):
    """Server: an instance is retried without some members."""

    round: int
    reclustering: int
    cluster: int
    attempt: int
    excluded: tuple[PartyId, ...]

    def line(self) -> str:
        return f"{_sum_of(self)} is repeated without {text.list_of(self.excluded)}"

    def row_numbers(self) -> Mapping[str, int]:
        return {"retries": 1}

    def note(self, notes: RoundNotes) -> None:
        notes.excluded.update(self.excluded)


@dataclass(frozen=True, slots=True)
class InstanceLost(AnyReport):
    """Server: this instance will not be opened."""

    round: int
    reclustering: int
    cluster: int
    reason: str

    def line(self) -> str:
        return f"{_sum_of(self)} has no sum in this round: {text.printable(self.reason)}"

    def note(self, notes: RoundNotes) -> None:
        notes.lost[self.reclustering, self.cluster] = self.reason

    def show(self, picture: AnyPicture) -> AnyPicture:
        return mark_parties(picture, picture.members((self.reclustering, self.cluster)), "lost")


@dataclass(frozen=True, slots=True)
class UpdatesValidated(AnyReport):
    """Server: members whose updates passed the checks of all others, or not."""

    round: int
    reclustering: int
    cluster: int
    attempt: int
    accepted: tuple[PartyId, ...]
    rejected: tuple[PartyId, ...]
    projections: int
    """Numbers about each update that the dealer and one evaluator know together."""

    def line(self) -> str | None:
        refused = (
            f"{_sum_of(self)} rejected the update of {text.list_of(self.rejected)}: its norm is too large"
        )
        return refused if self.rejected else None

    def row_numbers(self) -> Mapping[str, int]:
        measured = len(self.accepted) + len(self.rejected)
        return {"projections": self.projections * measured, "measured": measured}

    def note(self, notes: RoundNotes) -> None:
        notes.oversized.update(self.rejected)


@dataclass(frozen=True, slots=True)
class TriplesDealt(AnyReport):
    """Dealer: an attempt got its triples."""

    round: int
    reclustering: int
    cluster: int
    attempt: int
    members: int


@dataclass(frozen=True, slots=True)
class SumsWithheld(AnyReport):
    """Server and party: reclusterings that the leakage ledger keeps closed."""

    round: int
    reclusterings: tuple[int, ...]
    crossed: tuple[tuple[PartyId, ...], ...]
    """Parties whose limits each would cross."""
    reason: str

    def line(self) -> str:
        which = "reclustering" if len(self.reclusterings) == 1 else "reclusterings"
        numbers = " and ".join(map(str, self.reclusterings))
        return f"round {self.round}: {which} {numbers} {CLOSED}: {text.printable(self.reason)}"

    def note(self, notes: RoundNotes) -> None:
        notes.closed = dict.fromkeys(self.reclusterings, f"{CLOSED}: {self.reason}")


@dataclass(frozen=True, slots=True)
class SlotsCounted(AnyReport):
    """Counts of a cluster's survivors in each hidden group.

    The server reports all clusters with opened counts; a member its own, as received.
    """

    round: int
    cluster: int
    counts: tuple[int, ...]
    """A lying member can make them any numbers."""
    slots: tuple[int, ...]
    """Groups whose sums may be opened; none if the counts are impossible."""
    seats: tuple[int, ...] = ()
    """Ascending; none if the counts are impossible."""

    @property
    def totals(self) -> Mapping[ClusterKey, int]:
        """Members in the sum of each slot that may be opened."""
        return {(clustering.COUNTS + 1 + slot, self.cluster): self.counts[slot] for slot in self.slots}

    def note(self, notes: RoundNotes) -> None:
        notes.inside.update(self.totals)

    def show(self, picture: AnyPicture) -> AnyPicture:
        return replace(picture, inside=(picture.inside or 0) + exact_sum(self.totals.values()))


@dataclass(frozen=True, slots=True)
class SumOpened(AnyReport):
    """Server: one cluster sum was opened."""

    round: int
    opened: ClusterSum

    def note(self, notes: RoundNotes) -> None:
        one = self.opened
        notes.sums.append(SumSeen(*one.key, one.members, one.survivors, notes.inside.get(one.key)))

    def show(self, picture: AnyPicture) -> AnyPicture:
        return replace(picture, opened=picture.opened + 1, total_opened=picture.total_opened + 1)


@dataclass(frozen=True, slots=True)
class SumChecked(AnyReport):
    """Server: result of a noise check; the rule sees no sum that fails."""

    round: int
    reclustering: int
    cluster: int
    ok: bool
    p_value: float
    """P-value of all checks together."""
    reason: str
    e_values: tuple[float, ...]
    """By kind of check; empty for the published pair."""

    def line(self) -> str | None:
        failed = f"{_sum_of(self)} left out of the model by the noise checks: {text.printable(self.reason)}"
        return None if self.ok else failed

    def note(self, notes: RoundNotes) -> None:
        if not self.ok:
            notes.failed[self.reclustering, self.cluster] = self.reason

    def show(self, picture: AnyPicture) -> AnyPicture:
        left_out = () if self.ok else picture.members((self.reclustering, self.cluster))
        return mark_parties(picture, left_out, "rejected")


def _sum_of(report: InstanceRetried | InstanceLost | UpdatesValidated | SumChecked) -> str:
    return f"round {report.round}: cluster {report.reclustering}.{report.cluster}"
