"""Attacks that enforcement stops: without it the audit recovers the victim's update to the last step."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.lab.audit.finding import Chapter, Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.openings import exposed_in
from securefl.lab.audit.reconstruction import audit_reconstruction
from tests.simulation.ledger_attacks import ATTACKS, Attack
from tests.unit.audit.runs import record

EACH = [
    pytest.param(attack, kind, id=f"{name}, {kind}")
    for name, attack in ATTACKS.items()
    for kind in attack.kinds
]


def audited(out: Path, attack: Attack, kind: str, *, guarded: bool) -> Chapter:
    with attack.under_way(guarded=guarded):
        made = attack.scenario(kind, guarded=guarded)
        record(out, made, ops=attack.ops, length=16, lab=True, prepare=attack.prepare)
    recorded = load(out, attack.colluders)
    return audit_reconstruction(recorded, load_truth(out, recorded), exposed_in(recorded))


@pytest.mark.parametrize(("attack", "kind"), EACH)
def test_enforced_nothing_is_recovered(tmp_path: Path, attack: Attack, kind: str) -> None:
    found = audited(tmp_path, attack, kind, guarded=True)
    assert max(one.severity for one in found.findings) < Severity.WARNING


@pytest.mark.parametrize(("attack", "kind"), EACH)
def test_otherwise_the_audit_recovers_the_victim(tmp_path: Path, attack: Attack, kind: str) -> None:
    found = audited(tmp_path, attack, kind, guarded=False)
    (breach,) = [one for one in found.findings if one.severity is Severity.BREACH]
    assert "as the leakage ledger predicts" in breach.claim
    assert set(attack.victims) <= set(breach.parties)


def test_a_sum_that_the_server_keeps_quiet_about_counts(tmp_path: Path) -> None:
    """Honest machines inside both servers open the first sum only; members released for the second, too."""
    found = audited(tmp_path, ATTACKS["retry"], "curious", guarded=False)
    (note,) = [one for one in found.findings if "does not report" in one.claim]
    assert note.severity is Severity.NOTE
    assert note.claim.startswith("Computed from the true updates (rounds: 0): 1 sum ")
