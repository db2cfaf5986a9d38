"""Reports on the steps of a round."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from securefl.base import text
from securefl.base.ids import PartyId
from securefl.protocol.round.shared.reports.base import AnyReport
from securefl.protocol.round.shared.reports.notes import RoundNotes
from securefl.protocol.round.shared.reports.picture import AnyPicture, mark_parties


@dataclass(frozen=True, slots=True)
class RoundStarted(AnyReport):
    """Server: a new round, with the digest of its model."""

    round: int
    model_digest: bytes

    def show(self, picture: AnyPicture) -> AnyPicture:
        began = picture.now if picture.began is None else picture.began
        fresh = replace(picture, step="", opened=0, planned=0)
        return replace(fresh, round=self.round, since=picture.now, began=began)


@dataclass(frozen=True, slots=True)
class StepReached(AnyReport):
    """Server: the round entered this step, a key of the deadlines section."""

    round: int
    step: str

    def note(self, notes: RoundNotes) -> None:
        notes.enter_step(self.step)

    def show(self, picture: AnyPicture) -> AnyPicture:
        return replace(picture, step=self.step)


@dataclass(frozen=True, slots=True)
class ModelSent(AnyReport):
    """Server: model and invitation of a draw are sent."""

    round: int
    draw: int


@dataclass(frozen=True, slots=True)
class DrawVoided(AnyReport):
    """Server: nonces were withheld, the draw is void."""

    round: int
    draw: int
    withheld: tuple[PartyId, ...]

    def line(self) -> str:
        who = text.list_of(self.withheld)
        return f"round {self.round}: clusters are drawn again, since {who} did not answer in time"

    def row_numbers(self) -> Mapping[str, int]:
        return {"redraws": 1}

    def note(self, notes: RoundNotes) -> None:
        notes.withheld.update(self.withheld)


@dataclass(frozen=True, slots=True)
class RoundSkipped(AnyReport):
    """Server: the round ends without clusters."""

    round: int
    reason: str

    def note(self, notes: RoundNotes) -> None:
        notes.skipped = self.reason


@dataclass(frozen=True, slots=True)
class ClustersDrawn(AnyReport):
    """Server and party: the round's certified assignment."""

    round: int
    assignment_digest: bytes
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]
    resting: tuple[PartyId, ...] = ()
    seed: bytes = b""
    """Public, as all nonces are."""
    counts: tuple[tuple[PartyId, int], ...] = ()
    """Declared sample counts of all parties present."""
    atom_seed: bytes = b""
    tasks: tuple[int, ...] = ()
    """Task group of each cluster, if groups are open."""
    groups: tuple[tuple[PartyId, int], ...] = ()
    """Group of each party present, if open."""
    cap: int | None = None
    """See ``Draw.cap``."""

    def note(self, notes: RoundNotes) -> None:
        notes.resting = frozenset(self.resting)
        notes.members = {(r, j): m for r, row in enumerate(self.clusters) for j, m in enumerate(row)}
        notes.declared, notes.cap = dict(self.counts), self.cap

    def show(self, picture: AnyPicture) -> AnyPicture:
        first = self.clusters[0] if self.clusters else ()
        return replace(
            picture,
            clusters=first,
            planned=len([members for row in self.clusters for members in row]),
            standings={party: "waiting" for members in first for party in members},
            inside=None,
        )


@dataclass(frozen=True, slots=True)
class SurvivorsFrozen(AnyReport):
    """Server and party: the survivor set, and the participants outside it."""

    round: int
    survivors: tuple[PartyId, ...]
    dropped: tuple[PartyId, ...]

    def line(self) -> str | None:
        """Return the missing parties, if any."""
        planned = len(self.survivors) + len(self.dropped)
        survive = f"round {self.round}: {len(self.survivors)} of {planned} survive"
        return f"{survive}, without {text.list_of(self.dropped)}" if self.dropped else None

    def own_line(self) -> None:
        """Return None: a party has other reports on its own part."""

    def note(self, notes: RoundNotes) -> None:
        notes.frozen = frozenset(self.survivors)

    def show(self, picture: AnyPicture) -> AnyPicture:
        return mark_parties(mark_parties(picture, self.survivors, "counted"), self.dropped, "dropped")
