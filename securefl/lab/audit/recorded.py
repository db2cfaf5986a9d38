"""Recorded run: scenario, transcripts, and its own statements."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit.finding import Evidence
from securefl.methods import feasibility, server_optimisers
from securefl.runtime import report
from securefl.runtime.transcript import Entry, Transcript
from securefl.scenario import Scenario

_DIGEST: Final = re.compile("([0-9a-f]{64})?")


def words_of(entry: Entry) -> tuple[object, ...]:
    """Return sender, receiver, place and digest of a message's entry."""
    fields: Mapping[str, Any] = entry.fields
    vector = fields.get("vector") or {}
    digest = fields.get("sha256") or vector.get("digest")
    return fields.get("from"), fields.get("to"), tuple(fields["place"]), digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Recorded run with valid hash chains."""

    run: str
    scenario: Scenario
    limits: feasibility.DerivedLimits
    parties: tuple[PartyId, ...]
    transcripts: Mapping[str, tuple[Transcript, ...]]
    """By process (``server``, a party, ``broker``) and start; empty for a simulation."""
    records: tuple[report.RoundRecord, ...]
    blank: tuple[str, ...] = ()
    """Files of transcripts without a complete line."""
    summary: Mapping[str, Any]
    """``summary.json``; empty for a run that did not end."""
    frames: Path | None = None
    """Messages kept in verified runs; None for a run in memory."""
    colluders: frozenset[PartyId] = frozenset()
    """Assumed colluders of the server."""

    @property
    def simulated(self) -> bool:
        """True if there are no transcripts."""
        return not self.transcripts

    @property
    def seeded(self) -> bool:
        """True if all secrets derive from a seed."""
        view = self.summary.get("server_view", {})
        headers = (t.header.get("entropy", "") for ts in self.transcripts.values() for t in ts)
        return bool(view.get("insecure_seeded_entropy")) or any("INSECURE" in str(h) for h in headers)

    @property
    def seed(self) -> int | None:
        """Public seed, if stated."""
        seeds = (t.header.get("seed") for ts in self.transcripts.values() for t in ts)
        return next((seed for seed in seeds if isinstance(seed, int)), None)

    @property
    def frozen(self) -> bytes | None:
        """Digest of frozen parameters; None unless all transcripts agree."""
        stated = self._header_digests("frozen")
        return bytes.fromhex(stated.pop()) if len(stated) == 1 else None

    @property
    def state(self) -> server_optimisers.AveragedState:
        """Coordinates that the server averages; none unless all transcripts agree."""
        stated = [t.header.get("averaged", []) for ts in self.transcripts.values() for t in ts]
        if not stated or any(one != stated[0] for one in stated) or not isinstance(stated[0], list):
            return server_optimisers.NO_STATE
        return server_optimisers.AveragedState.read(stated[0])

    @property
    def model_files(self) -> frozenset[str]:
        """Hex SHA-256 of files of the first model."""
        return frozenset(self._header_digests("model_file"))

    @property
    def software(self) -> tuple[Mapping[str, Any], ...]:
        """Versions of the software that made the first model, by process that states them."""
        found = (t.header.get("versions") for ts in self.transcripts.values() for t in ts)
        return tuple(one for one in found if isinstance(one, Mapping))

    def _header_digests(self, field: str) -> set[str]:
        """Return the hex digests in the headers of transcripts."""
        found = {str(t.header[field]) for ts in self.transcripts.values() for t in ts if field in t.header}
        return {one for one in found if _DIGEST.fullmatch(one)}

    @property
    def noisy(self) -> bool:
        """True if each update contains all of its noise: a known update costs epsilon, no more."""
        privacy = self.scenario.privacy
        return privacy.unit != "none" and not privacy.shared and not self.seeded

    def of(self, vantage: str, kind: str) -> Iterator[tuple[Entry, Evidence]]:
        """Yield the entries of one kind of a process, with evidence."""
        for transcript in self.transcripts.get(vantage, ()):
            # Named by file: an earlier start may have left an empty one.
            start = transcript.path.stem.partition(".")[2]
            source = f"{vantage}.{start}" if start else vantage
            for entry in transcript.entries:
                if entry.kind == kind:
                    yield entry, Evidence(source, entry.n)

    def messages(self, vantage: str, kind: str, message: str) -> Iterator[tuple[Entry, Evidence]]:
        """Yield ``sent`` or ``received`` entries of one kind of message."""
        for entry, evidence in self.of(vantage, kind):
            if entry.fields.get("message") == message:
                yield entry, evidence

    def distinct_messages(self, vantage: str, kind: str, message: str) -> Iterator[tuple[Entry, Evidence]]:
        """Yield :meth:`messages` without identical resends."""
        known = set()
        for entry, evidence in self.messages(vantage, kind, message):
            words = words_of(entry)
            if words not in known:
                known.add(words)
                yield entry, evidence

    @property
    def watched(self) -> tuple[PartyId, ...]:
        """Parties with a transcript."""
        return tuple(party for party in self.parties if party in self.transcripts)

    @property
    def gone(self) -> tuple[str, ...]:
        """Files of missing transcripts that the summary lists."""
        there = {transcript.path.stem for some in self.transcripts.values() for transcript in some}
        there.update(self.blank)
        return tuple(sorted(set(self.summary.get("transcripts", ())) - there))

    @property
    def beheaded(self) -> tuple[str, ...]:
        """Processes whose first segments are missing."""
        return tuple(name for name, some in self.transcripts.items() if any(each.first for each in some))

    @property
    def has_server(self) -> bool:
        """True if the server has a transcript."""
        return SERVER in self.transcripts
