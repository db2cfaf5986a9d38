"""Forbidden repetitions: releases, openings, keys, inputs after a release (protocol.md, steps 9 and 10)."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.recorded import Recorded, words_of
from securefl.methods import clustering
from securefl.runtime.transcript import Entry

_RECEIVED = "sent shares to the server"


def repeats(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield a breach for each forbidden repetition."""
    for look in (_twice, _after_release, _opened_twice, _repeated_keys):
        yield from look(recorded, audit)


def _twice(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    seen: dict[tuple[str, PartyId, int], list[finding.Evidence]] = defaultdict(list)
    for party in recorded.watched:
        for entry, evidence in recorded.of(party, "shares_released"):
            what = f"released shares{_of_what(recorded, entry)}"
            seen[what, party, int(str(entry.fields["round"]))].append(evidence)
    for entry, evidence in recorded.distinct_messages(SERVER, "received", "Release"):
        place: Any = entry.fields["place"]
        seen[_RECEIVED, PartyId(str(entry.fields["from"])), place[0]].append(evidence)
    # Releases are sealed. Hidden groups need two: for counts and for slots.
    often = 2 if clustering.hides_groups(recorded.scenario.groups) else 1
    for (what, party, round_), evidence_ in sorted(seen.items()):
        if len(evidence_) > (often if what == _RECEIVED else 1):
            yield finding.breach(
                audit,
                f"{party} {what} {len(evidence_)} times in round {round_}.",
                evidence=tuple(evidence_),
                remedy="check if this party lost its journal: a second release can reveal updates",
                parties=(party,),
            )


def _of_what(recorded: Recorded, entry: Entry) -> str:
    """Return the step of a release with hidden groups, else ""."""
    if not clustering.hides_groups(recorded.scenario.groups):
        return ""
    instances: Any = entry.fields["instances"]
    return " for slots" if any(r != clustering.COUNTS for r, _ in instances) else " for counts"


def _after_release(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    for party in recorded.watched:
        released: dict[int, finding.Evidence] = {}
        known = set()
        for number, transcript in enumerate(recorded.transcripts[party]):
            source = party if not number else f"{party}.{number + 1}"
            for entry in transcript.entries:
                place: Any = entry.fields.get("place")
                if entry.kind == "shares_released":
                    released[int(str(entry.fields["round"]))] = finding.Evidence(source, entry.n, "released")
                    continue
                if entry.kind != "sent" or entry.fields.get("message") != "MaskedInput":
                    continue
                if place[0] in released and words_of(entry) not in known:
                    yield finding.breach(
                        audit,
                        f"{party} sent another masked input in round {place[0]} after it released shares.",
                        evidence=(released[place[0]], finding.Evidence(source, entry.n, "masked input")),
                        remedy=(
                            "treat its update as known: the difference of two sums reveals it. Update this"
                            " party's software, which must refuse this"
                        ),
                        parties=(party,),
                    )
                known.add(words_of(entry))


def _opened_twice(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    seen: dict[tuple[int, int, int], list[tuple[Any, finding.Evidence]]] = defaultdict(list)
    for entry, evidence in recorded.of(SERVER, "sum_opened"):
        opened: Any = entry.fields["opened"]
        openings = seen[int(str(entry.fields["round"])), opened["reclustering"], opened["cluster"]]
        # A restarted server opens the same sum again, by the same shares (ADR 0056).
        if not any(before == opened and of.source != evidence.source for before, of in openings):
            openings.append((opened, evidence))
    for (round_, r, j), openings in sorted(seen.items()):
        if len(openings) > 1:
            yield finding.breach(
                audit,
                f"The sum of round {round_}, reclustering {r}, cluster {j} was opened {len(openings)} times.",
                evidence=tuple(evidence for _, evidence in openings),
                remedy="treat these updates as known: two sums of one cluster can differ by one party",
            )


def _repeated_keys(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    for party in recorded.watched:
        adverts = [
            (str(entry.fields["sha256"]), evidence)
            for entry, evidence in recorded.distinct_messages(party, "sent", "KeyAdvert")
        ]
        repeated = {digest for digest, times in Counter(d for d, _ in adverts).items() if times > 1}
        if repeated:
            yield finding.breach(
                audit,
                f"{party} advertised the same keys for {len(repeated) + 1} sums or more.",
                evidence=tuple(e for d, e in adverts if d in repeated),
                remedy=(
                    "use fresh keys for each sum: a key that is opened after a dropout unmasks its other sums"
                ),
                parties=(party,),
            )
