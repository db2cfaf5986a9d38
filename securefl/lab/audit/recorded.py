"""A recorded run as audits see it: the scenario, transcripts by vantage point, and claims."""

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
    """Of an entry for a message: between whom, at which place of the protocol, and a digest of what."""
    fields: Mapping[str, Any] = entry.fields
    vector = fields.get("vector") or {}
    digest = fields.get("sha256") or vector.get("digest")
    return fields.get("from"), fields.get("to"), tuple(fields["place"]), digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded run. All chains hold, and all transcripts are of this run."""

    run: str
    scenario: Scenario
    limits: feasibility.DerivedLimits
    parties: tuple[PartyId, ...]
    """All that the scenario names, ascending."""
    transcripts: Mapping[str, tuple[Transcript, ...]]
    """By vantage point (``server``, a party, ``broker``), one for each start of its process; none of a
    simulation."""
    records: tuple[report.RoundRecord, ...]
    """From ``metrics.jsonl``: what the run itself says of its rounds."""
    blank: tuple[str, ...] = ()
    """Transcripts without a single whole line, by name of file: their processes were killed at once."""
    summary: Mapping[str, Any]
    """What it says of its outcome; empty for a run that did not end."""
    frames: Path | None = None
    """The folder of what processes of a verified run keep beside transcripts; None for a run in memory."""
    colluders: frozenset[PartyId] = frozenset()
    """Parties that pool what they know with the server, as whoever audits supposes."""

    @property
    def simulated(self) -> bool:
        """Whether there was no network, and hence no transcript."""
        return not self.transcripts

    @property
    def seeded(self) -> bool:
        """Whether all secrets came from a seed, so that nothing was secret."""
        view = self.summary.get("server_view", {})
        headers = (t.header.get("entropy", "") for ts in self.transcripts.values() for t in ts)
        return bool(view.get("insecure_seeded_entropy")) or any("INSECURE" in str(h) for h in headers)

    @property
    def seed(self) -> int | None:
        """The public seed; None where no transcript says."""
        seeds = (t.header.get("seed") for ts in self.transcripts.values() for t in ts)
        return next((seed for seed in seeds if isinstance(seed, int)), None)

    @property
    def frozen(self) -> bytes | None:
        """Digest of the parameters that are not trained, as all transcripts state it; None if they do not."""
        stated = self._stated("frozen")
        return bytes.fromhex(stated.pop()) if len(stated) == 1 else None

    @property
    def state(self) -> server_optimisers.AveragedState:
        """Coordinates that the server averages, as all transcripts state it; none if they differ."""
        stated = [t.header.get("averaged", []) for ts in self.transcripts.values() for t in ts]
        if not stated or any(one != stated[0] for one in stated) or not isinstance(stated[0], list):
            return server_optimisers.NO_STATE
        return server_optimisers.AveragedState.read(stated[0])

    @property
    def model_files(self) -> frozenset[str]:
        """SHA-256 of the files that processes read the first model from, in hex; empty without any."""
        return frozenset(self._stated("model_file"))

    @property
    def software(self) -> tuple[Mapping[str, Any], ...]:
        """Versions of what made the first model, by name, of each process that states them."""
        found = (t.header.get("versions") for ts in self.transcripts.values() for t in ts)
        return tuple(one for one in found if isinstance(one, Mapping))

    def _stated(self, field: str) -> set[str]:
        """Digests, in hex, that the headers of transcripts state."""
        found = {str(t.header[field]) for ts in self.transcripts.values() for t in ts if field in t.header}
        return {one for one in found if _DIGEST.fullmatch(one)}

    @property
    def noisy(self) -> bool:
        """Whether each update carries all of its noise: one that is known costs epsilon, no more."""
        privacy = self.scenario.privacy
        return privacy.unit != "none" and not privacy.shared and not self.seeded

    def of(self, vantage: str, kind: str) -> Iterator[tuple[Entry, Evidence]]:
        """All entries of one kind at one vantage point, in order, with where they stand."""
        for transcript in self.transcripts.get(vantage, ()):
            # By its file: an earlier start may have left an empty one.
            start = transcript.path.stem.partition(".")[2]
            source = f"{vantage}.{start}" if start else vantage
            for entry in transcript.entries:
                if entry.kind == kind:
                    yield entry, Evidence(source, entry.n)

    def messages(self, vantage: str, kind: str, message: str) -> Iterator[tuple[Entry, Evidence]]:
        """``sent`` or ``received`` entries of one kind of message."""
        for entry, evidence in self.of(vantage, kind):
            if entry.fields.get("message") == message:
                yield entry, evidence

    def said(self, vantage: str, kind: str, message: str) -> Iterator[tuple[Entry, Evidence]]:
        """As :meth:`messages`, without what was said again word for word: it tells nobody anything new."""
        known = set()
        for entry, evidence in self.messages(vantage, kind, message):
            words = words_of(entry)
            if words not in known:
                known.add(words)
                yield entry, evidence

    @property
    def watched(self) -> tuple[PartyId, ...]:
        """The parties that left a transcript."""
        return tuple(party for party in self.parties if party in self.transcripts)

    @property
    def gone(self) -> tuple[str, ...]:
        """Transcripts that ended in good order, says the summary, and are not there, by name of file."""
        there = {transcript.path.stem for some in self.transcripts.values() for transcript in some}
        there.update(self.blank)
        return tuple(sorted(set(self.summary.get("transcripts", ())) - there))

    @property
    def beheaded(self) -> tuple[str, ...]:
        """Vantage points of which the first rounds are not here, as their segments are deleted or missing."""
        return tuple(name for name, some in self.transcripts.items() if any(each.first for each in some))

    @property
    def has_server(self) -> bool:
        """Whether the server left a transcript."""
        return SERVER in self.transcripts
