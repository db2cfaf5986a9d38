"""*unmasking*: released shares, either of a survivor's seed or of a dropped member's key, and once only.

The threshold of both kinds for one member removes its masks (Bonawitz et al. 2017). A second release, or a
masked input after one, lets the server subtract two sums (protocol.md, steps 9 and 10). The threshold of
colluders in a sum removes masks without a release, which the leakage ledger does not see.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.repeats import repeats
from securefl.lab.audit.slots import least_in_slot
from securefl.methods import clustering
from securefl.protocol.round import FIRST_SLOT, open_slots
from securefl.runtime import report

AUDIT: Final = "unmasking"
_CERTIFY: Final = 'use server = "active": parties then release shares only for one certified survivor set'
_Where = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Given:
    """Shares of one instance that a party released."""

    giver: PartyId
    seeds_of: frozenset[PartyId]
    keys_of: frozenset[PartyId]
    evidence: finding.Evidence


def audit_unmasking(recorded: Recorded) -> finding.Chapter:
    """Look for both kinds of shares, second releases, resubmissions and repeated keys."""
    given, old = _released_shares(recorded)
    findings = [
        *_both_kinds(recorded, given),
        *_asked_for_both(recorded),
        *_untold(recorded),
        *repeats(recorded, AUDIT),
    ]
    pooled = list(opened_by_colluders(recorded, AUDIT))
    if not findings and given:
        releases = sum(map(len, given.values()))
        findings.append(
            finding.holds(
                AUDIT,
                f"In {report.count_of(releases, 'release')} of shares,"
                f" for {report.count_of(len(given), 'sum')},"
                " no party released, or was asked for, both kinds of shares of one member. No party released"
                " twice or submitted after a release. No sum was opened twice, no key advertised twice.",
            )
        )
    findings += pooled
    if old:
        findings.append(
            finding.note(
                AUDIT,
                f"Not checked: {report.count_of(old, 'release')} that an earlier version recorded without the"
                " owners of the shares.",
            )
        )
    if recorded.simulated:
        findings = [finding.note(AUDIT, "Nothing to check: a simulation has no masks.")]
    return finding.Chapter(
        audit=AUDIT,
        title="Unmasking: released shares",
        method=(
            "Shares of a seed unmask the sum of survivors, shares of a key remove the masks of a dropped"
            " member; both kinds together reveal one update. Transcripts state whose shares each party"
            " released, and the survivor set that it received. They are combined by sum and attempt."
        ),
        findings=tuple(findings),
    )


def _released_shares(recorded: Recorded) -> tuple[Mapping[_Where, list[_Given]], int]:
    """Return the released shares by instance, and the number of releases without owners."""
    found: dict[_Where, list[_Given]] = defaultdict(list)
    old = 0
    for party in recorded.watched:
        for entry, evidence in recorded.of(party, "shares_released"):
            fields: Mapping[str, Any] = entry.fields
            if not fields.get("attempts"):
                old += 1
                continue
            columns = (fields["instances"], fields["attempts"], fields["seeds_of"], fields["keys_of"])
            for (r, j), attempt, seeds, keys in zip(*columns, strict=True):
                found[fields["round"], r, j, attempt].append(
                    _Given(party, frozenset(seeds), frozenset(keys), evidence)
                )
    return found, old


def _both_kinds(recorded: Recorded, given: Mapping[_Where, list[_Given]]) -> Iterator[finding.Finding]:
    threshold = recorded.scenario.secure_sum.threshold
    for where, some in sorted(given.items()):
        for member in sorted(
            {m for one in some for m in one.seeds_of} & {m for one in some for m in one.keys_of}
        ):
            seeds = [one for one in some if member in one.seeds_of]
            keys = [one for one in some if member in one.keys_of]
            alone = sorted({one.giver for one in seeds} & {one.giver for one in keys})
            open_ = min(len(seeds), len(keys)) >= threshold
            yield finding.Finding(
                finding.Severity.BREACH if open_ or alone else finding.Severity.WARNING,
                AUDIT,
                f"Both kinds of shares of {member} were released in {_place(where)}: {len(seeds)} of the"
                f" seed, {len(keys)} of the key. {threshold} of each reveal its update."
                + (f" {report.list_of(alone)} released both kinds." if alone else "")
                + (" The update is revealed." if open_ else ""),
                evidence=tuple(
                    one.evidence.with_text(f"{kind} of {member}")
                    for kind, them in (("seed share", seeds), ("key share", keys))
                    for one in them
                ),
                remedy=_CERTIFY,
                parties=(member,),
            )


def _asked_for_both(recorded: Recorded) -> Iterator[finding.Finding]:
    """Yield a breach for each member in only some of a round's survivor sets."""
    for round_, survivor_sets in sorted(_survivor_sets(recorded).items()):
        for member in sorted(set().union(*(survivors for _, survivors, _ in survivor_sets))):
            without = [(p, e) for p, survivors, e in survivor_sets if member not in survivors]
            if without:
                with_ = [(p, e) for p, survivors, e in survivor_sets if member in survivors]
                yield finding.breach(
                    AUDIT,
                    f"In round {round_} the server asked for both kinds of shares of {member}. To"
                    f" {report.list_of(sorted(p for p, _ in with_))} it listed the member as a survivor, to"
                    f" {report.list_of(sorted(p for p, _ in without))} as dropped out.",
                    evidence=tuple(
                        e.with_text(f"{member} {what}")
                        for what, them in (("survived", with_[:3]), ("dropped out", without[:3]))
                        for _, e in them
                    ),
                    remedy='do not trust this server; with server = "active" parties refuse such requests',
                    parties=(member,),
                )


def _survivor_sets(
    recorded: Recorded,
) -> Mapping[int, list[tuple[PartyId, frozenset[PartyId], finding.Evidence]]]:
    found: dict[int, list[tuple[PartyId, frozenset[PartyId], finding.Evidence]]] = defaultdict(list)
    for party in recorded.watched:
        for entry, evidence in recorded.of(party, "survivors_frozen"):
            survivors: Any = entry.fields["survivors"]
            survivor_set = frozenset(map(PartyId, survivors))
            found[int(str(entry.fields["round"]))].append((party, survivor_set, evidence))
    return found


def _untold(recorded: Recorded) -> Iterator[finding.Finding]:
    """Yield a breach for each slot that a member released without a sufficient count."""
    if not clustering.hides_groups(recorded.scenario.groups):
        return
    least = least_in_slot(recorded)
    for party in recorded.watched:
        may: set[tuple[int, int, int]] = set()
        for number, transcript in enumerate(recorded.transcripts[party]):
            source = party if not number else f"{party}.{number + 1}"
            for entry in transcript.entries:
                fields: Any = entry.fields
                if entry.kind == "slots_counted":
                    slots = open_slots(fields["counts"], sum(fields["counts"]), least)
                    may |= {(fields["round"], FIRST_SLOT + slot, fields["cluster"]) for slot in slots}
                elif entry.kind == "shares_released":
                    given = {
                        (fields["round"], r, j) for r, j in fields["instances"] if r != clustering.COUNTS
                    }
                    for _, r, j in sorted(given - may):
                        yield finding.breach(
                            AUDIT,
                            f"{party} released shares for the slot of model {r - FIRST_SLOT} of cluster"
                            f" {j} in round {fields['round']}, but had received no count of {least} or more.",
                            evidence=(finding.Evidence(source, entry.n, "released"),),
                            remedy=(
                                "check this party's software; the chapter exposure lists the opened slots"
                            ),
                            parties=(party,),
                        )


def _place(where: _Where) -> str:
    round_, r, j, attempt = where
    again = f", attempt {attempt}" if attempt else ""
    return f"round {round_}, reclustering {r}, cluster {j}{again}"


def opened_by_colluders(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield a finding if the threshold of colluders was in one sum with other parties."""
    plan = recorded.scenario.secure_sum
    if plan.kind != "masking" or len(recorded.colluders) < plan.threshold:
        return
    dealt, masked = _at(recorded, "ShareBoxes"), _at(recorded, "MaskedInput")
    hit = {
        where: together
        for where, parties in sorted(dealt.items())
        if len(together := recorded.colluders.intersection(parties)) >= plan.threshold
    }
    open_ = {where: masked[where].keys() - recorded.colluders for where in hit}
    known = sorted({party for others in open_.values() for party in others})
    if not known:
        return
    most = max(len(hit[where]) for where, others in open_.items() if others)
    promised = most <= plan.colluders_per_cluster
    yield finding.Finding(
        finding.Severity.BREACH if promised else finding.Severity.WARNING,
        audit,
        f"Collusion of {report.list_of(sorted(recorded.colluders))} with the server unmasks"
        f" {report.count_of(len(known), 'single update')} ({report.list_of(known)}). Up to {most} of them are"
        f" in one sum, and {plan.threshold} shares of a seed and of a key remove masks. The scenario assumes"
        f" at most {plan.colluders_per_cluster} in a sum.",
        evidence=tuple(masked[where][party] for where, some in open_.items() for party in sorted(some))[:4],
        remedy="raise secure_sum.threshold above the number of colluders in one sum, or use larger clusters",
        parties=tuple(known),
    )


def _at(recorded: Recorded, message: str) -> dict[_Where, dict[PartyId, finding.Evidence]]:
    """Return the senders of a kind of message by sum, from the server's transcript or else the parties'."""
    found: dict[_Where, dict[PartyId, finding.Evidence]] = defaultdict(dict)
    if recorded.has_server:
        requests = [
            (str(e.fields["from"]), e, at)
            for e, at in recorded.distinct_messages(SERVER, "received", message)
        ]
    else:
        requests = [
            (p, e, at) for p in recorded.watched for e, at in recorded.distinct_messages(p, "sent", message)
        ]
    for party, entry, evidence in requests:
        place: Any = entry.fields["place"]
        found[tuple(place)][PartyId(party)] = evidence
    return found
