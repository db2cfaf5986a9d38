"""Messages that a server reported missing: nonces, which void a draw, and masked inputs (dropouts).

Both choose the updates of sums (protocol.md, steps 2 and 6). Lost messages look the same; transcripts of
sender and server distinguish them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.recorded import Recorded
from securefl.methods import clustering
from securefl.runtime import report, transcript

_REMEDY: Final = (
    "check the network: if it loses no messages, the server drops them to choose whose updates it adds up."
    " colluders_per_cluster, min_survivors and the leakage ledger bound its gain"
)
_LIED: Final = (
    "do not trust this server: it drops messages and so chooses whose updates it adds up."
    " colluders_per_cluster, min_survivors and the leakage ledger bound its gain"
)
_DROPPED_OUT: Final = "nothing to do: an honest run with dropouts looks the same"


def never_came(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield a finding for each voided draw and each freeze that omits a message.

    A breach if the server's own transcript has the message, a warning if only the sender's has it, else a
    note. Freezes with atoms are not checked: transcripts do not determine their dropouts.
    """
    for entry, evidence in recorded.of(SERVER, "draw_voided"):
        yield _void_finding(recorded, audit, entry, evidence)
    if recorded.scenario.clustering.atoms == 1:
        for entry, evidence in recorded.of(SERVER, "survivors_frozen"):
            yield from _dropout_findings(recorded, audit, entry, evidence)


def _void_finding(
    recorded: Recorded, audit: str, entry: transcript.Entry, evidence: finding.Evidence
) -> finding.Finding:
    fields: Mapping[str, Any] = entry.fields
    round_, draw = fields["round"], fields["draw"]
    blamed = tuple(map(PartyId, fields["withheld"]))
    came = {
        who: where
        for who, at, where in _received_messages(recorded, _REVEALS, entry)
        if who in blamed and (at[0], at[3]) == (round_, draw)
    }
    sent = {
        who: where
        for who, at, where in _sent_messages(recorded, _REVEALS)
        if who in blamed and (at[0], at[3]) == (round_, draw)
    }
    claim = (
        f"The server voided draw {draw} of round {round_} and reported that the nonce of"
        f" {report.list_of(blamed)} is missing"
    )
    return _finding(audit, claim, blamed, evidence, came, sent)


def _dropout_findings(
    recorded: Recorded, audit: str, frozen: transcript.Entry, evidence: finding.Evidence
) -> Iterator[finding.Finding]:
    """Compare a survivor set with the one that transcripts give."""
    fields: Mapping[str, Any] = frozen.fields
    round_, survivors = fields["round"], frozenset(map(PartyId, fields["survivors"]))
    drawn: Any = [e.fields for e, _ in recorded.of(SERVER, "clusters_drawn") if e.fields["round"] == round_]
    if not drawn or not survivors:
        return
    clusters = {(r, j): m for r, row in enumerate(drawn[-1]["clusters"]) for j, m in enumerate(row)}
    least = recorded.scenario.secure_sum.min_survivors
    came = _senders_by_instance(round_, (_received_messages(recorded, kinds, frozen) for kinds in _INPUTS))
    sent = _senders_by_instance(round_, (_sent_messages(recorded, kinds) for kinds in _INPUTS))
    for key in _lost_together(recorded, frozen) & clusters.keys():
        if not came.get(key, {}).keys() >= set(clusters[key]):
            came.pop(key, None)
            sent.pop(key, None)
    for inputs in (*came.values(), *sent.values()):
        # Left out by validation; their shares of other updates arrived.
        for party in _refused_updates(recorded, round_) & inputs.keys():
            del inputs[party]
    either = {key: {**sent.get(key, {}), **came.get(key, {})} for key in clusters}
    ought = clustering.survivor_set(clusters, either, least) - survivors
    if not ought:
        return
    known = clustering.survivor_set(clusters, came, least) - survivors
    # Without a recorded lie: lost inputs, not members that dropped out along with them.
    unheard = {who for key, inputs in sent.items() for who in inputs.keys() - came.get(key, {}).keys()}
    missing = tuple(sorted(known or ought & unheard))
    yield _finding(
        audit,
        f"The server reported that in round {round_} {report.list_of(missing)} dropped out before submitting",
        missing,
        evidence,
        {who: where for inputs in came.values() for who, where in inputs.items() if who in known},
        {who: where for inputs in sent.values() for who, where in inputs.items() if who in missing},
    )


def _lost_together(recorded: Recorded, frozen: transcript.Entry) -> frozenset[tuple[int, int]]:
    """Return validated sums lost before the freeze: each member holds a part of every update."""
    if recorded.scenario.secure_sum.validated is None:
        return frozenset()
    lost: Any = [
        entry.fields
        for entry, evidence in recorded.of(SERVER, "instance_lost")
        if entry.fields["round"] == frozen.fields["round"] and entry.n < frozen.n
    ]
    return frozenset((each["reclustering"], each["cluster"]) for each in lost)


def _refused_updates(recorded: Recorded, round_: int) -> frozenset[PartyId]:
    refusals = (entry.fields for entry, _ in recorded.of(SERVER, "updates_validated"))
    names: list[Any] = [fields["rejected"] for fields in refusals if fields["round"] == round_]
    return frozenset(PartyId(name) for group in names for name in group)


_REVEALS = ("Reveal", "ChainedReveal")
_INPUTS = (("MaskedInput",), ("Receipt", "VectorReceipt"))
"""Equivalent kinds, with and without verified rounds."""
_Message = tuple[PartyId, Any, finding.Evidence]


def _received_messages(
    recorded: Recorded, kinds: Collection[str], before: transcript.Entry
) -> Iterator[_Message]:
    """Yield messages received before the entry, except from refused parties."""
    refused = {e.fields["culprit"] for e, _ in recorded.of(SERVER, "refused") if e.n < before.n}
    for kind in kinds:
        for entry, where in recorded.messages(SERVER, "received", kind):
            sender = PartyId(str(entry.fields["from"]))
            if entry.n < before.n and sender not in refused:
                yield sender, entry.fields["place"], where


def _sent_messages(recorded: Recorded, kinds: Collection[str]) -> Iterator[_Message]:
    for party in recorded.watched:
        for kind in kinds:
            for entry, where in recorded.messages(party, "sent", kind):
                yield party, entry.fields["place"], where


def _senders_by_instance(
    round_: int, kinds: Iterable[Iterable[_Message]]
) -> dict[tuple[int, int], dict[PartyId, finding.Evidence]]:
    """Return the senders of both kinds of messages in the last attempt, by instance."""
    both: list[dict[tuple[int, int, int], dict[PartyId, finding.Evidence]]] = []
    for messages in kinds:
        found: dict[tuple[int, int, int], dict[PartyId, finding.Evidence]] = defaultdict(dict)
        for sender, place, where in messages:
            if place[0] == round_:
                found[place[1], place[2], place[3]][sender] = where
        both.append(found)
    inputs, receipts = both
    complete = {}
    for r, j, attempt in sorted(inputs):
        witnessed = receipts.get((r, j, attempt), {})
        complete[r, j] = {who: at for who, at in inputs[r, j, attempt].items() if who in witnessed}
    return complete


def _finding(
    audit: str,
    claim: str,
    blamed: tuple[PartyId, ...],
    evidence: finding.Evidence,
    came: Mapping[PartyId, finding.Evidence],
    sent: Mapping[PartyId, finding.Evidence],
) -> finding.Finding:
    if came:
        severity, more = (
            finding.Severity.BREACH,
            f". But its own transcript has the earlier message of {report.list_of(sorted(came))}",
        )
    elif sent:
        severity = finding.Severity.WARNING
        more = (
            f". Transcripts of {report.list_of(sorted(sent))} have it as sent: it was lost, late or dropped"
        )
    else:
        severity, more = finding.Severity.NOTE, ". No transcript states that the message was sent"
    return finding.Finding(
        severity,
        audit,
        f"{claim}{more}.",
        evidence=(evidence, *came.values(), *sent.values()),
        remedy=_LIED if came else _REMEDY if sent else _DROPPED_OUT,
        parties=blamed,
    )
