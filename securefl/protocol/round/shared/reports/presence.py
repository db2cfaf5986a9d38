"""Reports on presence: parties, their software, the broker, the server."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from securefl.base import text
from securefl.base.ids import PartyId
from securefl.protocol.round.shared.reports.base import AnyReport
from securefl.protocol.round.shared.reports.notes import RoundNotes
from securefl.protocol.round.shared.reports.picture import AnyPicture


@dataclass(frozen=True, slots=True)
class PartiesJoined(AnyReport):
    """Server: parties present at the start of the run."""

    present: tuple[PartyId, ...]
    missing: tuple[PartyId, ...]

    def line(self) -> str:
        """Return a line with the number of present parties, the total, and the names of missing parties."""
        absent = f"; missing: {text.list_of(self.missing)}" if self.missing else ""
        return f"{len(self.present)} of {len(self.present) + len(self.missing)} parties present{absent}"

    def show(self, picture: AnyPicture) -> AnyPicture:
        return replace(picture, present=self.present, missing=self.missing)


@dataclass(frozen=True, slots=True)
class LateJoin(AnyReport):
    """Server: parties in the round's hellos that were absent before."""

    round: int
    joined: tuple[PartyId, ...]
    """Parties that were missing when this server started."""
    returned: tuple[tuple[PartyId, int], ...]
    """Other parties, with the first round of their absence."""

    def line(self) -> str:
        joined = (f"{text.list_of(self.joined)} joined in round {self.round}",) if self.joined else ()
        by_round: dict[int, list[PartyId]] = {}
        for party, since in self.returned:
            by_round.setdefault(since, []).append(party)
        back = (
            f"{text.list_of(names)} returned in round {self.round}, absent since round {since}"
            for since, names in sorted(by_round.items())
        )
        return "; ".join((*joined, *back))

    def note(self, notes: RoundNotes) -> None:
        notes.joined |= {**dict.fromkeys(self.joined), **dict(self.returned)}

    def show(self, picture: AnyPicture) -> AnyPicture:
        missing = tuple(party for party in picture.missing if party not in self.joined)
        return replace(picture, present=tuple(sorted({*picture.present, *self.joined})), missing=missing)


class Versions(NamedTuple):
    """Software versions of one process."""

    python: str
    numpy: str
    securefl: str


@dataclass(frozen=True, slots=True)
class VersionsDiffer(AnyReport):
    """Server: parties with other versions, which may change last bits of results."""

    own: Versions
    others: tuple[tuple[PartyId, Versions], ...]

    def line(self) -> str:
        """Return the parties by version, with the server's version."""
        running: dict[tuple[int, str], list[str]] = {}
        for party, versions in self.others:
            for place, (version, servers) in enumerate(zip(versions, self.own, strict=True)):
                if version != servers:
                    running.setdefault((place, version), []).append(party)
        parts = (
            f"{text.list_of(names)} run{'s' if len(names) == 1 else ''} {_PROGRAMS[place]}"
            f" {text.printable(version, 32)}, the server {self.own[place]}"
            for (place, version), names in sorted(running.items())
        )
        return f"versions differ: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class ConnectionLost(AnyReport):
    """Server and party: the broker is lost."""

    def line(self) -> str:
        return "the broker cannot be reached; deadlines are suspended, and securefl reconnects"


@dataclass(frozen=True, slots=True)
class ConnectionBack(AnyReport):
    """Server and party: the broker is back."""

    connection: int
    kept: bool
    """True if the broker kept messages."""

    def line(self) -> str:
        meanwhile = "with" if self.kept else "perhaps without"
        return f"the broker is back, {meanwhile} what came meanwhile (connection {self.connection})"


@dataclass(frozen=True, slots=True)
class QuorumAwaited(AnyReport):
    """Server: too few parties for the round, so it waits."""

    round: int
    reason: str
    seconds: float
    """In a row without enough parties."""

    def line(self) -> str:
        waited = text.seconds(self.seconds)
        return f"round {self.round}: waiting for more parties, {waited} so far: {text.printable(self.reason)}"


@dataclass(frozen=True, slots=True)
class EpochLed(AnyReport):
    """Server: it leads a run that another server led before."""

    epoch: int
    round: int

    def line(self) -> str:
        return f"the run resumes from the checkpoint of round {self.round} (server start {self.epoch})"


@dataclass(frozen=True, slots=True)
class EpochFollowed(AnyReport):
    """Party: it follows another server than before."""

    epoch: int

    def line(self) -> str:
        return f"the server was restarted (start {self.epoch}); this party continues with it"


@dataclass(frozen=True, slots=True)
class RunPaused(AnyReport):
    """The server stops; the run resumes once it is started again."""

    reason: str

    def line(self) -> str:
        why = text.printable(self.reason)
        return f"the run pauses: {why}; it resumes when the server is started again"


_PROGRAMS = Versions("Python", "numpy", "securefl")
