from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from securefl.base.arrays import F32, F64
from securefl.base.ids import PartyId
from securefl.lab.audit.estimates import solve
from securefl.lab.audit.finding import Chapter, Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.openings import exposed_in
from securefl.lab.audit.reconstruction import audit_reconstruction
from tests.simulation.world import scenario
from tests.unit.audit.runs import record


def chapter(run: Path, *colluders: str) -> Chapter:
    recorded = load(run, colluders)
    return audit_reconstruction(recorded, load_truth(run, recorded), exposed_in(recorded))


def worst(found: Chapter) -> Severity:
    return max(one.severity for one in found.findings)


def test_errors_are_those_of_theory_for_gaussian_updates() -> None:
    """Mean of 12 parties' errors in four sums of three: sqrt(2/3), to 3 % for 4,000 coordinates."""
    rows: F64 = np.kron(np.eye(4), np.ones(3)).astype(np.float64)
    updates = np.random.default_rng(5).normal(0, 1000, (12, 4000))
    found = solve(rows, rows @ updates, updates)
    assert found.predicted == pytest.approx(np.sqrt(2 / 3))
    # The prior is estimated from the same sums, which costs both a little.
    assert float(found.error.mean()) == pytest.approx(np.sqrt(2 / 3), rel=0.15)
    assert not any(found.recovered)
    assert float(solve(rows, rows @ updates, updates, 30.0).error.mean()) > float(found.error.mean())
    alone = solve(np.vstack([rows, np.eye(12)[:1]]), np.vstack([rows @ updates, updates[:1]]), updates)
    assert alone.recovered == (True, *[False] * 11)
    assert alone.predicted[0] == pytest.approx(0, abs=1e-6)


def test_hidden_updates_are_not_recovered(plain: Path) -> None:
    found = chapter(plain)
    assert found.findings[0].severity is Severity.HOLDS
    assert "11 updates that the leakage ledger protects could not be recovered" in found.findings[0].claim
    assert worst(found) < Severity.BREACH


def test_exposed_updates_are_recovered_to_the_last_step(leaky: Path) -> None:
    found = chapter(leaky)
    (breach,) = [one for one in found.findings if one.severity is Severity.BREACH]
    assert "exact updates of 9 parties" in breach.claim
    assert "as the leakage ledger predicts" in breach.claim


def test_colluders_take_their_own_updates_off(plain: Path) -> None:
    """Two members of a cluster of three know the third's update; nobody else's."""
    recorded = load(plain)
    first = exposed_in(recorded)[0].opened.openings[0].survivors
    found = chapter(plain, *first[:2])
    recovered = next(one for one in found.findings if "as the leakage ledger predicts" in one.claim)
    assert first[2] in recovered.parties
    assert recovered.severity is Severity.WARNING
    assert "more colluders than the scenario assumes (0)" in recovered.claim


def test_ground_truth_that_does_not_fit_is_a_disagreement(leaky: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(leaky, tmp_path / "copy"))
    path = copy / "lab" / "uploads" / "p02-0-0.npy"
    np.save(path, np.load(path) + 3)
    (first, *_) = chapter(copy).findings
    assert "disagree" in first.claim
    assert first.parties == ("p02",)


def test_updates_that_never_change_leak_over_rounds(tmp_path: Path) -> None:
    """One sum for each party and round, in other company each time: five rounds are like R = 5."""

    def same(party: PartyId, _round: int, params: F32) -> F32:
        return params + np.random.default_rng(int(party[1:])).normal(0, 0.1, len(params)).astype(np.float32)

    record(tmp_path / "run", scenario(6, rounds="5"), train=same, length=16, lab=True)
    warning = next(one for one in chapter(tmp_path / "run").findings if one.severity is Severity.WARNING)
    assert "as if updates never changed" in warning.claim
