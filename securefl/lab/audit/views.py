"""*views*: comparison of the messages that the server sent to different parties.

Another model, assignment, set of hellos or survivor set can single out a party (Pasquini et al., arXiv
2111.07380; protocol.md, steps 2, 6 and 7).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.exhibits import Table
from securefl.lab.audit.missing_messages import never_came
from securefl.lab.audit.missing_transcripts import holes
from securefl.lab.audit.recorded import Recorded
from securefl.runtime import report

AUDIT: Final = "views"


class _Topic(NamedTuple):
    key: str
    name: str
    stops: str
    """Protection by the protocol."""


_TOPICS: Final = (
    _Topic("model", "model", "masks are bound to the model, so that sums over two models do not open"),
    _Topic(
        "hellos", "list of hellos", "masks are bound to this list, so that sums over two lists do not open"
    ),
    _Topic("assignment", "assignment, seed and sample counts", "each party recomputes it from all nonces"),
    _Topic("survivors", "survivor set", 'server = "active" requires a certificate over one set'),
    _Topic("certificate", "certificate", "signatures cover one statement"),
    _Topic("counts", "counts of hidden groups", "none, members rely on the server"),
)


@dataclass(frozen=True, slots=True)
class _Seen:
    party: PartyId
    value: str
    evidence: finding.Evidence


Sightings = Mapping[tuple[str, int, int], tuple[_Seen, ...]]
"""Received versions by topic, round and draw of nonces (or cluster of counts)."""


def audit_views(recorded: Recorded) -> finding.Chapter:
    """Check that all parties received the same messages in each round."""
    found = _sightings(recorded)
    findings: list[finding.Finding] = []
    rows = []
    for topic in _TOPICS:
        mine = {key: seen for key, seen in found.items() if key[0] == topic.key}
        split = {key: seen for key, seen in mine.items() if len({one.value for one in seen}) > 1}
        findings += [_split(recorded, topic, key, seen) for key, seen in sorted(split.items())]
        compared = sum(map(len, mine.values()))
        rows.append((topic.name, len({key[1] for key in mine}), compared, len(split)))
    if not findings and recorded.watched:
        server = " and the server's" if recorded.has_server else ""
        findings.append(
            finding.holds(
                AUDIT,
                f"All parties received the same model, assignment and survivor set in each of"
                f" {report.count_of(len({key[1] for key in found}), 'round')}, by"
                f" {report.count_of(len(recorded.watched), 'party transcript')}{server}.",
            )
        )
    missing = (
        (finding.note(AUDIT, "Nothing to compare: in a simulation all parties have the same data."),)
        if recorded.simulated
        else holes(recorded, AUDIT)
    )
    return finding.Chapter(
        audit=AUDIT,
        title="Views: did all parties receive the same messages?",
        method=(
            "Each party's transcript has the SHA-256 of every message that it received, the assignment that"
            " it computed and the survivor set that it received. They are compared with each other and with"
            " the server's. Messages that the server reported missing are looked up: nonces and inputs."
        ),
        findings=(*findings, *never_came(recorded, AUDIT), *missing),
        exhibits=(
            Table(
                title="Compared messages",
                columns=("message", "rounds", "copies", "conflicts"),
                rows=tuple(rows),
            ),
        ),
    )


def _sightings(recorded: Recorded) -> Sightings:
    found: dict[tuple[str, int, int], list[_Seen]] = defaultdict(list)
    for party in (*recorded.watched, *((SERVER,) if recorded.has_server else ())):
        for topic, round_, draw, value, evidence in _seen_by(recorded, party):
            found[topic, round_, draw].append(_Seen(party, value, evidence))
    return {key: tuple(seen) for key, seen in found.items()}


def _seen_by(recorded: Recorded, party: PartyId) -> Iterator[tuple[str, int, int, str, finding.Evidence]]:
    messages = {
        "ModelAnnounce": "model",
        "Announce": "hellos",
        "ChainedAnnounce": "hellos",
        "Certificate": "certificate",
    }
    direction = "sent" if party == SERVER else "received"
    for message, topic in messages.items():
        for entry, evidence in recorded.messages(party, direction, message):
            place: Any = entry.fields["place"]
            yield topic, place[0], place[3], str(entry.fields["sha256"]), evidence
    for entry, evidence in recorded.of(party, "clusters_drawn"):
        fields: Mapping[str, Any] = entry.fields
        value = f"{fields['assignment_digest']} {fields.get('seed')} {fields.get('counts')}"
        yield "assignment", fields["round"], 0, value, evidence
    for entry, evidence in recorded.of(party, "survivors_frozen"):
        survivors: Any = entry.fields["survivors"]
        yield "survivors", int(str(entry.fields["round"])), 0, ",".join(sorted(survivors)), evidence
    for entry, evidence in recorded.of(party, "slots_counted"):
        counts: Any = entry.fields
        yield "counts", counts["round"], counts["cluster"], str((counts["counts"], counts["seats"])), evidence


def _split(
    recorded: Recorded, topic: _Topic, key: tuple[str, int, int], seen: tuple[_Seen, ...]
) -> finding.Finding:
    groups: dict[str, list[_Seen]] = defaultdict(list)
    for one in seen:
        groups[one.value].append(one)
    ordered = sorted(groups.values(), key=lambda group: (len(group), group[0].party))
    odd = sorted({one.party for group in ordered[:-1] for one in group} - {SERVER})
    round_ = key[1]
    released = {
        party
        for party in recorded.watched
        for entry, _ in recorded.of(party, "shares_released")
        if entry.fields["round"] == round_
    }
    sizes = ", ".join(str(len({one.party for one in group})) for group in ordered)
    went = sorted(released.intersection(odd))
    return finding.breach(
        AUDIT,
        f"In round {round_} transcripts have {len(groups)} versions of the {topic.name} (by number of"
        f" transcripts: {sizes}). Parties with a rare version:"
        f" {report.list_of(odd) or 'none, only the server'}."
        + (
            f" Of these, {report.list_of(went)} released shares."
            if went
            else " None of them released shares."
        ),
        evidence=tuple(
            group[0].evidence.with_text(f"{topic.name} {group[0].value[:24]}") for group in ordered
        ),
        remedy=f"do not trust this server: it sent conflicting messages. Protection: {topic.stops}",
        parties=tuple(odd),
    )
