"""Atoms formed again from the atom seed, and held against what was drawn, frozen and opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from securefl.base.errors import ConfigError
from securefl.base.ids import SERVER
from securefl.lab.audit.atom_seeds import atoms_checked
from securefl.lab.audit.exposure import audit_exposure
from securefl.lab.audit.finding import Finding, Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.openings import exposed_in
from securefl.lab.audit.recorded import Recorded
from securefl.lab.audit.replay import audit_replay
from securefl.lab.audit.wellformed import check_entries
from securefl.methods.clustering.atoms import form_atoms
from tests.simulation.world import Op, scenario
from tests.unit.audit.runs import record

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Nine parties in four atoms, two rounds of two reclusterings; p04 is silent in one of the first."""
    out = tmp_path_factory.mktemp("atoms") / "run"
    made = scenario(
        9, size="4", reclusterings="2", rounds="2", clustering__atoms="2", deadlines__training="9"
    )
    record(out, made, ops=(Op("drop", "p04", "MaskedInput", 1),), length=8)
    return load(out)


def altered(
    recorded: Recorded, kind: str, change: Callable[[Fields], Fields], *, only: str = "", round_: int = 1
) -> Recorded:
    """As if everybody, or one vantage point only, had written down something else for a round."""
    changed = dict(recorded.transcripts)
    for vantage, (own,) in recorded.transcripts.items():
        if only in {"", vantage}:
            entries = tuple(
                replace(e, fields=change(dict(e.fields)))
                if e.kind == kind and e.fields["round"] == round_
                else e
                for e in own.entries
            )
            changed[vantage] = (replace(own, entries=entries),)
    return replace(recorded, transcripts=changed)


def atoms_of(recorded: Recorded) -> list[list[str]]:
    entry, _ = next(recorded.of(SERVER, "clusters_drawn"))
    return [list(a) for a in form_atoms(bytes.fromhex(str(entry.fields["atom_seed"])), recorded.parties, 2)]


def found(recorded: Recorded) -> list[Finding]:
    return list(atoms_checked(recorded, "exposure"))


def swapped(fields: Fields, one: str, other: str) -> Fields:
    """Two parties in each other's place, in all clusters."""
    names = {one: other, other: one}
    rows = [[sorted(names.get(p, p) for p in members) for members in row] for row in fields["clusters"]]
    return {**fields, "clusters": rows}


def test_a_run_that_keeps_its_atoms(kept: Recorded) -> None:
    (holds,) = found(kept)
    assert holds.severity is Severity.HOLDS
    assert (
        "No sum splits one of the 4 atoms that the atom seed forms. The clusters of 2 rounds" in holds.claim
    )
    chapter = audit_exposure(kept, exposed_in(kept))
    assert holds in chapter.findings
    assert "Atoms are formed again from the atom seed." in chapter.method
    # The clusters of both rounds follow from their seeds and atoms, too.
    claims = {f.claim: f.severity for f in audit_replay(kept, None).findings}
    assert claims["The clusters of 2 rounds follow from their certified seeds."] is Severity.HOLDS


def test_runs_without_atoms_have_none_to_keep(plain: Path) -> None:
    recorded = load(plain)
    assert found(recorded) == []
    assert "atom_seed" not in audit_exposure(recorded, exposed_in(recorded)).method


def test_clusters_that_break_an_atom(kept: Recorded) -> None:
    entry, _ = next(kept.of(SERVER, "clusters_drawn"))
    rows: Any = entry.fields["clusters"]
    one, other = rows[0][0][0], rows[0][1][0]
    bad = altered(kept, "clusters_drawn", lambda fields: swapped(fields, one, other), round_=0)
    (breach,) = found(bad)
    assert breach.severity is Severity.BREACH
    assert breach.claim.startswith("In round 0 ")
    assert "should be unions of 2 or more whole atoms" in breach.claim
    assert other in breach.parties, "it is there without its mates"
    # Told to one party only, it is a breach all the same.
    alone = altered(kept, "clusters_drawn", lambda fields: swapped(fields, one, other), only="p05", round_=0)
    assert [f.severity for f in found(alone)] == [Severity.BREACH]
    assert found(alone)[0].evidence[0].source == "p05"


def test_whole_atoms_in_other_clusters_are_for_the_replay_to_find(kept: Recorded) -> None:
    by_size: dict[int, list[list[str]]] = {}
    for atom in atoms_of(kept):
        by_size.setdefault(len(atom), []).append(atom)
    first, second, *_ = by_size[2]

    def exchanged(fields: Fields) -> Fields:
        for mine, its in zip(first, second, strict=True):
            fields = swapped(fields, mine, its)
        return fields

    moved = altered(kept, "clusters_drawn", exchanged)
    assert moved != kept
    assert [f.severity for f in found(moved)] == [Severity.HOLDS]
    claims = {f.claim: f.severity for f in audit_replay(moved, None).findings}
    assert claims["The clusters of 1 round do not follow from the certified seed."] is Severity.BREACH


def test_clusters_of_a_single_atom(kept: Recorded) -> None:
    def alone(fields: Fields) -> Fields:
        cluster = fields["clusters"][0][0]
        atom = next(a for a in atoms_of(kept) if set(a) <= set(cluster))
        rest = sorted(set(cluster) - set(atom))
        return {**fields, "clusters": [[atom, rest, *fields["clusters"][0][1:]], *fields["clusters"][1:]]}

    (breach,) = found(altered(kept, "clusters_drawn", alone, round_=0))
    assert breach.severity is Severity.BREACH
    assert breach.claim.startswith(
        "In round 0 sums may reveal parts of atoms: of 5 clusters, 2 should be unions"
    )


def test_another_atom_seed(kept: Recorded) -> None:
    other = "ab" * 32
    for vantage in (SERVER, "p02"):
        one_says = altered(
            kept, "clusters_drawn", lambda fields: {**fields, "atom_seed": other}, only=vantage
        )
        (breach,) = found(one_says)
        assert breach.severity is Severity.BREACH
        assert "transcripts state 2 different atom seeds" in breach.claim
        assert {str(e).split(": ")[1] for e in breach.evidence} >= {"round 1, atom seed " + other[:16]}
    none = altered(kept, "clusters_drawn", lambda fields: {**fields, "atom_seed": ""}, only="p02")
    (breach,) = found(none)
    assert "clusters without an atom seed" in breach.claim
    assert breach.parties == ("p02",)


def test_an_atom_seed_of_no_draw(kept: Recorded) -> None:
    """Everybody states it, but it is the seed of no draw: somebody chose it."""
    other = "cd" * 32
    bad = kept
    for round_ in (0, 1):
        bad = altered(bad, "clusters_drawn", lambda fields: {**fields, "atom_seed": other}, round_=round_)
    claims = {f.claim[:50]: f.severity for f in found(bad)}
    assert (
        claims["The atom seed, and with it the members of each atom, may have been chosen"[:50]]
        is Severity.BREACH
    )
    assert {claim[:11] for claim in claims} >= {"In round 0 ", "In round 1 "}
    fewer = replace(bad, transcripts={k: v for k, v in bad.transcripts.items() if k != "p00"})
    first = found(fewer)[0]
    assert (first.severity, "cannot be checked" in first.claim) == (Severity.NOTE, True)


def test_an_atom_seed_that_is_none_is_no_entry(kept: Recorded) -> None:
    odd = altered(kept, "clusters_drawn", lambda fields: {**fields, "atom_seed": "zz"}, only="p01")
    with pytest.raises(ConfigError, match="atom_seed"):
        check_entries(odd.transcripts["p01"][0])


def test_releases_for_a_part_of_an_atom(kept: Recorded) -> None:
    entry, _ = next((e, at) for e, at in kept.of(SERVER, "survivors_frozen") if e.fields["round"] == 0)
    survivors: Any = entry.fields["survivors"]
    atom = next(a for a in atoms_of(kept) if set(a) <= set(survivors))

    def without(fields: Fields) -> Fields:
        return {**fields, "survivors": [p for p in fields["survivors"] if p != atom[0]]}

    asked = altered(kept, "survivors_frozen", without, only=SERVER, round_=0)
    (warning,) = found(asked)
    assert warning.severity is Severity.WARNING
    assert warning.parties == tuple(atom[1:])
    went = kept
    for kind in ("survivors_frozen", "shares_released", "sum_opened"):
        went = altered(went, kind, lambda fields: _torn(fields, atom[0]), round_=0)
    breach = found(went)[0]
    assert breach.severity is Severity.BREACH
    assert breach.claim.startswith("In round 0 parties released shares for a sum that splits an atom")
    assert breach.parties == tuple(atom[1:])


def _torn(value: Any, name: str) -> Any:
    """The same without one party, wherever survivors are listed."""
    if isinstance(value, dict):
        return {k: _torn(v, name) if k != "members" else v for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_torn(v, name) for v in value if v != name]
    return value
