"""Leakage of hidden groups' opened slots, by their member counts (ADR 0026).

A slot's sum covers its whole cluster, with zeros from members that chose another model. Counts state the
number of updates in it, not the members: a slot with one member *is* a party's update.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit import finding, openings
from securefl.lab.audit.recorded import Recorded
from securefl.methods import clustering
from securefl.protocol.round import FIRST_SLOT, open_slots
from securefl.runtime import report

_REMEDY: Final = (
    "treat these updates as known to the server, without names. Honest members release a slot only if its"
    " count is f + k_anonymity or more"
)
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Told:
    """Counts of one cluster in one transcript."""

    vantage: PartyId
    counts: tuple[int, ...]
    evidence: finding.Evidence


@dataclass(frozen=True, slots=True)
class Slot:
    """Slot that must be assumed open."""

    round: int
    opening: openings.Opening
    counts: tuple[tuple[int, ...], ...]
    count: int | None
    """Smallest recorded member count."""
    allowed: bool
    """True if all recorded counts allow its opening."""


def least_in_slot(recorded: Recorded) -> int:
    """Return the least count of a slot that may be opened: f + k_anonymity."""
    sums = recorded.scenario.secure_sum
    return sums.colluders_per_cluster + sums.k_anonymity


def told_counts(recorded: Recorded) -> Mapping[tuple[int, int], Sequence[Told]]:
    """Return the recorded counts by round and cluster."""
    found: dict[tuple[int, int], list[Told]] = defaultdict(list)
    for vantage in (SERVER, *recorded.watched):
        for entry, evidence in recorded.of(vantage, "slots_counted"):
            fields: Any = entry.fields
            counts = Told(vantage, tuple(map(int, fields["counts"])), evidence)
            found[int(fields["round"]), int(fields["cluster"])].append(counts)
    return found


def slots_of(recorded: Recorded) -> tuple[Slot, ...]:
    """Return the opened slots of a run with hidden groups, in order."""
    stated, least = told_counts(recorded), least_in_slot(recorded)
    rows = {(r.round, s.reclustering, s.cluster): s.inside for r in recorded.records for s in r.sums}
    found = []
    for version in openings.opened_versions(recorded):
        for opening in version.openings:
            round_, group = version.version.round, opening.reclustering - FIRST_SLOT
            if group < 0:
                continue
            versions = tuple(dict.fromkeys(one.counts for one in stated.get((round_, opening.cluster), ())))
            here = [counts[group] for counts in versions if group < len(counts)]
            members = len(opening.survivors)
            allowed = bool(versions) and all(
                group in open_slots(counts, members, least) for counts in versions
            )
            if recorded.simulated:
                # Rows have counts of opened slots only.
                count = rows.get((round_, opening.reclustering, opening.cluster))
                here = [] if count is None else [count]
                allowed = count is not None and least <= count <= members
            found.append(Slot(round_, opening, versions, min(here, default=None), allowed))
    return tuple(found)


def slot_findings(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield findings on the slots of a run with hidden groups.

    A breach: a slot opened without counts, with impossible ones, or with fewer members than f + k_anonymity.
    A warning: fewer than k_anonymity members may remain besides the assumed colluders.
    """
    if not clustering.hides_groups(recorded.scenario.groups):
        return
    slots, least = slots_of(recorded), least_in_slot(recorded)
    if recorded.simulated and any(slot.count is None for slot in slots):
        claim = (
            "The number of members in slots is not known: an earlier version wrote metrics.jsonl without it."
        )
        yield finding.note(audit, claim)
        return
    bad = [slot for slot in slots if not slot.allowed]
    for slot in bad[:_SHOWN]:
        yield _slot_breach(recorded, audit, slot, least)
    if len(bad) > _SHOWN:
        yield _finding(
            audit,
            finding.Severity.BREACH,
            f"Slots that were opened in the same way: {len(bad) - _SHOWN} more.",
        )
    if slots and not bad:
        smallest = min(slots, key=lambda slot: slot.count or 0)
        closed = _closed_slots(recorded, slots)
        yield finding.holds(
            audit,
            f"All {report.count_of(len(slots), 'opened slot')} of hidden groups have f + k_anonymity ="
            f" {least} members or more by their counts. The smallest has {smallest.count} of"
            f" {len(smallest.opening.survivors)} survivors."
            + (f" {report.count_of(closed, 'slot')} with fewer members stayed closed." if closed else ""),
            evidence=(smallest.opening.evidence,),
        )
    yield from _pooled_slots(recorded, audit, slots)
    yield from _known_counts(recorded, audit)


def _slot_breach(recorded: Recorded, audit: str, slot: Slot, least: int) -> finding.Finding:
    place = f"round {slot.round}, cluster {slot.opening.cluster}"
    name = f"The slot of model {slot.opening.reclustering - FIRST_SLOT} in {place}"
    members = slot.opening.survivors
    if slot.count is None:
        claim = f"{name} was opened, but no transcript states its number of {report.list_of(members)}."
    elif slot.count == 1:
        claim = (
            f"{name} was opened with one member: it is the update of one of {report.list_of(members)}. At"
            f" least f + k_anonymity = {least} are required."
        )
    elif slot.count < least:
        claim = (
            f"{name} was opened with a count of {slot.count}; at least f + k_anonymity = {least} is required."
        )
    else:
        text = " or ".join(str(list(counts)) for counts in slot.counts)
        claim = f"{name} was opened with impossible counts: {text} for {len(members)} survivors."
    stated = told_counts(recorded).get((slot.round, slot.opening.cluster), ())
    evidence = (
        slot.opening.evidence,
        *(t.evidence.with_text("counts") for t in stated),
    )
    return _finding(audit, finding.Severity.BREACH, claim, evidence[:4], members)


def _pooled_slots(recorded: Recorded, audit: str, slots: Sequence[Slot]) -> Iterator[finding.Finding]:
    """Yield a warning for the worst case: all colluders are in one slot."""
    k = recorded.scenario.secure_sum.k_anonymity
    left = [
        (max(slot.count - len(among), 0), slot)
        for slot in slots
        if slot.count is not None and (among := recorded.colluders.intersection(slot.opening.survivors))
    ]
    short = [(rest, slot) for rest, slot in left if 0 < rest < k]
    if short:
        rest, slot = min(short, key=lambda item: item[0])
        others = tuple(sorted(set(slot.opening.survivors) - recorded.colluders))
        yield _finding(
            audit,
            finding.Severity.WARNING,
            f"If {report.list_of(sorted(recorded.colluders))} collude and chose the same model,"
            f" {report.count_of(len(short), 'slot')} may hide fewer than k_anonymity = {k} updates: in round"
            f" {slot.round}, {rest} of {report.list_of(others)}.",
            (slot.opening.evidence,),
            others,
        )


def _known_counts(recorded: Recorded, audit: str) -> Iterator[finding.Finding]:
    """Yield a note on clusters whose members all chose one model, except in warm-up."""
    warmup = recorded.scenario.groups.warmup
    counts = {key: stated[0] for key, stated in told_counts(recorded).items() if key[0] >= warmup}
    whole = [(key, stated) for key, stated in counts.items() if sum(c > 0 for c in stated.counts) == 1]
    if counts:
        yield finding.note(
            audit,
            "Counts reveal the sizes of groups, not their members. In"
            f" {len(whole)} of {report.count_of(len(counts), 'case')} all members of a cluster chose the same"
            " model, so that the server knows their choice.",
            evidence=tuple(stated.evidence for _, stated in whole[:1]),
            remedy="nothing to do: hidden groups do not hide this",
        )


def _closed_slots(recorded: Recorded, slots: Sequence[Slot]) -> int:
    opened = {(slot.round, slot.opening.cluster, slot.opening.reclustering) for slot in slots}
    return sum(
        count > 0 and (round_, cluster, FIRST_SLOT + group) not in opened
        for (round_, cluster), stated in told_counts(recorded).items()
        for group, count in enumerate(stated[0].counts)
    )


def _finding(
    audit: str,
    severity: finding.Severity,
    claim: str,
    evidence: tuple[finding.Evidence, ...] = (),
    parties: tuple[PartyId, ...] = (),
) -> finding.Finding:
    return finding.Finding(severity, audit, claim, evidence=evidence, remedy=_REMEDY, parties=parties)
