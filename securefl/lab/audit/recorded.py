"""Recorded run: scenario, transcripts by process, and the run's own statements."""

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
    """Recorded run, with valid hash chains and transcripts of this run only."""

    run: str
    scenario: Scenario
    limits: feasibility.DerivedLimits
    parties: tuple[PartyId, ...]
    """All parties of the scenario, ascending."""
    transcripts: Mapping[str, tuple[Transcript, ...]]
    """Transcripts by process (``server``, a party, ``broker``), one per start; empty for a simulation."""
    records: tuple[report.RoundRecord, ...]
    """Rounds as stated in ``metrics.jsonl``."""
    blank: tuple[str, ...] = ()
    """File names of transcripts without a complete line: their processes were killed at once."""
    summary: Mapping[str, Any]
    """Contents of ``summary.json``; empty for a run that did not end."""
    frames: Path | None = None
    """Folder of messages kept in verified runs; None for a run in memory."""
    colluders: frozenset[PartyId] = frozenset()
    """Parties that the auditor assumes to collude with the server."""

    @property
    def simulated(self) -> bool:
        """True if the run was simulated and has no transcripts."""
        return not self.transcripts

    @property
    def seeded(self) -> bool:
        """True if all secrets derive from a seed, so that nothing was secret."""
        view = self.summary.get("server_view", {})
        headers = (t.header.get("entropy", "") for ts in self.transcripts.values() for t in ts)
        return bool(view.get("insecure_seeded_entropy")) or any("INSECURE" in str(h) for h in headers)

    @property
    def seed(self) -> int | None:
        """Public seed; None if no transcript states it."""
        seeds = (t.header.get("seed") for ts in self.transcripts.values() for t in ts)
        return next((seed for seed in seeds if isinstance(seed, int)), None)

    @property
    def frozen(self) -> bytes | None:
        """Digest of frozen parameters that all transcripts state; None if they do not agree."""
        stated = self._header_digests("frozen")
        return bytes.fromhex(stated.pop()) if len(stated) == 1 else None

    @property
    def state(self) -> server_optimisers.AveragedState:
        """Coordinates that the server averages, as all transcripts state them; none if they differ."""
        stated = [t.header.get("averaged", []) for ts in self.transcripts.values() for t in ts]
        if not stated or any(one != stated[0] for one in stated) or not isinstance(stated[0], list):
            return server_optimisers.NO_STATE
        return server_optimisers.AveragedState.read(stated[0])

    @property
    def model_files(self) -> frozenset[str]:
        """Hex SHA-256 of the files of the first model; empty without any."""
        return frozenset(self._header_digests("model_file"))

    @property
    def software(self) -> tuple[Mapping[str, Any], ...]:
        """Versions of the software that made the first model, for each process that states them."""
        found = (t.header.get("versions") for ts in self.transcripts.values() for t in ts)
        return tuple(one for one in found if isinstance(one, Mapping))

    def _header_digests(self, field: str) -> set[str]:
        """Return the hex digests that the headers of transcripts state."""
        found = {str(t.header[field]) for ts in self.transcripts.values() for t in ts if field in t.header}
        return {one for one in found if _DIGEST.fullmatch(one)}

    @property
    def noisy(self) -> bool:
        """True if each update contains all of its noise: a known update costs epsilon, no more."""
        privacy = self.scenario.privacy
        return privacy.unit != "none" and not privacy.shared and not self.seeded

    def of(self, vantage: str, kind: str) -> Iterator[tuple[Entry, Evidence]]:
        """Yield the entries of one kind of one process, in order, with their evidence."""
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
        """Yield :meth:`messages` without identical resends, which reveal nothing new."""
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
        """File names of missing transcripts that the summary lists."""
        there = {transcript.path.stem for some in self.transcripts.values() for transcript in some}
        there.update(self.blank)
        return tuple(sorted(set(self.summary.get("transcripts", ())) - there))

    @property
    def beheaded(self) -> tuple[str, ...]:
        """Processes whose first rounds are missing: deleted or lost segments."""
        return tuple(name for name, some in self.transcripts.items() if any(each.first for each in some))

    @property
    def has_server(self) -> bool:
        """True if the server has a transcript."""
        return SERVER in self.transcripts
