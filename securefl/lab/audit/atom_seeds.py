"""Atoms of a recorded run, formed again from the stated seed (ADR 0019).

Atoms protect over all rounds only if every round uses the same ones and no process chose them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from securefl.base.ids import SERVER, PartyId
from securefl.lab.audit.finding import Evidence, Finding, Severity, breach, holds, warning
from securefl.lab.audit.openings import opened_versions
from securefl.lab.audit.recorded import Recorded
from securefl.methods import clustering
from securefl.runtime import report

_REMEDY: Final = (
    "do not rely on atoms in this run: over rounds, sums may reveal what members of a split atom have in"
    " common. Check the parties' software: honest parties release no sum of a split atom"
)
_FROZEN: Final = "check the server's software: an honest server removes whole atoms from a survivor set"
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Statements of one vantage point on one draw of clusters."""

    vantage: PartyId
    round: int
    seed: str
    atom_seed: str
    clusters: tuple[tuple[tuple[PartyId, ...], ...], ...]
    evidence: Evidence


def atoms_checked(recorded: Recorded, audit: str) -> Iterator[Finding]:
    """Yield findings on the atoms of a run.

    Breaches are several atom seeds, a seed that no draw made by the transcripts of all parties, clusters
    other than unions of two or more atoms, and releases for a part of an atom. A survivor set that splits an
    atom without a release is a warning.
    """
    if recorded.scenario.clustering.atoms == 1 or recorded.simulated:
        return
    drawn = tuple(_drawn(recorded))
    if not drawn:
        return
    stated = sorted({one.atom_seed for one in drawn})
    if len(stated) > 1 or not stated[0]:
        yield _seeds(audit, drawn, stated)
        return
    seed = bytes.fromhex(stated[0])
    atoms = clustering.form_atoms(seed, recorded.parties, recorded.scenario.clustering.atoms)
    found = [
        *_unknown(recorded, audit, drawn),
        *_clusters(recorded, audit, drawn, atoms),
        *_release_findings(recorded, audit, atoms),
    ]
    yield from found
    if all(finding.severity < Severity.WARNING for finding in found):
        rounds = len({one.round for one in drawn})
        yield holds(
            audit,
            f"No sum splits one of the {len(atoms)} atoms that the atom seed forms. The clusters of"
            f" {report.count_of(rounds, 'round')} are unions of"
            f" {clustering.atoms_per_cluster(recorded.scenario.clustering)} or more whole atoms.",
        )


def _drawn(recorded: Recorded) -> Iterator[_Drawn]:
    for vantage in (SERVER, *recorded.watched):
        for entry, evidence in recorded.of(vantage, "clusters_drawn"):
            fields: Any = entry.fields
            clusters = tuple(tuple(tuple(map(PartyId, m)) for m in row) for row in fields["clusters"])
            yield _Drawn(
                vantage,
                int(fields["round"]),
                str(fields.get("seed", "")),
                str(fields.get("atom_seed", "")),
                clusters,
                evidence,
            )


def _seeds(audit: str, drawn: Sequence[_Drawn], stated: Sequence[str]) -> Finding:
    """Return the finding on a missing atom seed or several ones."""
    first = {seed: next(one for one in drawn if one.atom_seed == seed) for seed in stated}
    without = {one.vantage for one in drawn if not one.atom_seed}
    what = f"{len(stated)} different atom seeds" if all(stated) else "clusters without an atom seed"
    return breach(
        audit,
        f"Atoms do not protect the parties of this run: transcripts state {what}. All rounds must use one.",
        evidence=tuple(
            one.evidence.with_text(f"round {one.round}, atom seed {seed[:16] or 'none'}")
            for seed, one in first.items()
        ),
        remedy=_REMEDY,
        parties=tuple(sorted(without - {SERVER})),
    )


def _unknown(recorded: Recorded, audit: str, drawn: Sequence[_Drawn]) -> Iterator[Finding]:
    """Yield a finding unless a certified draw made the atom seed."""
    if any(one.seed and one.atom_seed.startswith(one.seed) for one in drawn):
        return
    whole = set(recorded.watched) == set(recorded.parties) and not recorded.beheaded
    yield Finding(
        Severity.BREACH if whole else Severity.NOTE,
        audit,
        "The atom seed, and with it the members of each atom, may have been chosen: no draw in the"
        " transcripts of all parties made it."
        if whole
        else "It cannot be checked that no process chose the atom seed: no draw in the transcripts here"
        " made it.",
        evidence=(min(drawn, key=lambda one: one.round).evidence,),
        remedy=_REMEDY if whole else "collect the transcripts of all parties",
    )


def _clusters(
    recorded: Recorded, audit: str, drawn: Sequence[_Drawn], atoms: Sequence[clustering.Atom]
) -> Iterator[Finding]:
    fewest = clustering.atoms_per_cluster(recorded.scenario.clustering)
    seen: set[tuple[int, object]] = set()
    for one in drawn:
        bad = [m for row in one.clusters for m in row if not _union(m, atoms, fewest)]
        # One finding for all processes with the same draw.
        if not bad or (one.round, one.clusters) in seen or len(seen) >= _SHOWN:
            continue
        seen.add((one.round, one.clusters))
        yield breach(
            audit,
            f"In round {one.round} sums may reveal parts of atoms: of"
            f" {report.count_of(sum(map(len, one.clusters)), 'cluster')}, {len(bad)} should be unions of"
            f" {fewest} or more whole atoms, and are not. The first has members {report.list_of(bad[0])}.",
            evidence=(one.evidence,),
            remedy=_REMEDY,
            parties=_torn(bad[0], atoms),
        )


def _release_findings(recorded: Recorded, audit: str, atoms: Sequence[clustering.Atom]) -> Iterator[Finding]:
    opened: set[int] = set()
    for version in opened_versions(recorded):
        for opening in version.openings:
            torn = _torn(opening.survivors, atoms)
            if not torn or version.version.round in opened or len(opened) >= _SHOWN:
                continue
            opened.add(version.version.round)
            yield breach(
                audit,
                f"In round {version.version.round} parties released shares for a sum that splits an atom:"
                f" it contains {report.list_of(torn)} without all members of their atoms.",
                evidence=(opening.evidence,),
                remedy=_REMEDY,
                parties=torn,
            )
    asked: set[int] = set()
    for vantage in (SERVER, *recorded.watched):
        for entry, evidence in recorded.of(vantage, "survivors_frozen"):
            fields: Any = entry.fields
            torn, round_ = _torn(tuple(map(PartyId, fields["survivors"])), atoms), int(fields["round"])
            if torn and round_ not in opened | asked and len(asked) < _SHOWN:
                asked.add(round_)
                yield warning(
                    audit,
                    f"In round {round_} the survivor set splits an atom: it contains"
                    f" {report.list_of(torn)} without all members of their atoms. No transcript has a release"
                    " for it.",
                    evidence=(evidence,),
                    remedy=_FROZEN,
                    parties=torn,
                )


def _union(members: Collection[PartyId], atoms: Sequence[clustering.Atom], fewest: int) -> bool:
    """Return True if a cluster is a union of ``fewest`` or more atoms."""
    there = frozenset(members)
    return not _torn(there, atoms) and sum(there.issuperset(atom) for atom in atoms) >= fewest


def _torn(members: Collection[PartyId], atoms: Sequence[clustering.Atom]) -> tuple[PartyId, ...]:
    there = frozenset(members)
    parts = (there.intersection(atom) for atom in atoms if not there.issuperset(atom))
    return tuple(sorted(party for part in parts for party in part))
