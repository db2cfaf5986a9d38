"""Both sides of each bound that makes an audit look at less: verdicts stay, omissions are stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefl.lab.audit import exposure, exposure_theory, openings
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load, load_truth
from securefl.lab.audit.report import AuditReport
from securefl.lab.audit.run import audit
from tests.recorded import masks, restepping, uniformity
from tests.simulation.world import scenario
from tests.unit.audit.runs import record

PARTIES = 6
INPUTS = 11
"""Masked inputs of the run: of six parties in two rounds, one of which is silent in one."""


def report(run: Path) -> AuditReport:
    recorded = load(run)
    return audit(recorded, load_truth(run, recorded))


def claims(run: Path, chapter: str, severity: Severity | None = None) -> str:
    return " ".join(
        one.claim
        for each in report(run).chapters
        for one in each.findings
        if each.audit == chapter and severity in {None, one.severity}
    )


def breaches_of(run: Path) -> set[str]:
    found = {
        one.claim for each in report(run).chapters for one in each.findings if one.severity is Severity.BREACH
    }
    return {claim.partition(":")[0] for claim in found}


def masks_hold(run: Path) -> str:
    """Return the claim of the test of masks, which has to hold."""
    recorded = load(run)
    (found,) = masks.judge_masks(recorded, load_truth(run, recorded))
    assert found.severity is Severity.HOLDS
    return found.claim


@pytest.mark.parametrize(("most", "part"), [(INPUTS, ""), (INPUTS - 1, " (6 of them evenly chosen)")])
def test_masked_inputs_that_are_compared(
    most: int, part: str, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masks, "_VECTORS", most)
    assert f"{INPUTS} masked inputs{part} look uniform" in masks_hold(plain)


@pytest.mark.parametrize("most", [INPUTS - 1, INPUTS, INPUTS + 1])
def test_masked_inputs_that_are_tested_bit_by_bit(
    most: int, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uniformity, "_LAG_VECTORS", most)
    assert f"{INPUTS} masked inputs look uniform" in masks_hold(plain)


def test_entries_that_are_stepped_again(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = load(plain)
    truth = load_truth(plain, recorded)
    entries = sum(len(one.entries) for name, (one,) in recorded.transcripts.items() if name != "broker")
    monkeypatch.setattr(restepping, "_MESSAGES", entries)
    (whole,) = restepping.restepped(recorded, truth)
    assert "7 machines (server, p00" in whole.claim
    monkeypatch.setattr(restepping, "_MESSAGES", entries - 1)
    most, left_out = restepping.restepped(recorded, truth)
    assert "6 machines (server, p00" in most.claim
    assert "Not stepped again: p05" in left_out.claim


@pytest.mark.parametrize("most", [PARTIES, PARTIES - 1])
def test_parties_up_to_which_supports_are_searched(
    most: int, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was said beyond the bound, as if the limit that the scenario asks for had been checked."""
    before = breaches_of(plain)
    monkeypatch.setattr(openings, "SEARCHED", most)
    monkeypatch.setattr(exposure, "SEARCHED", most)
    told = claims(plain, "exposure")
    searched = most == PARTIES
    assert ("The smallest combination of opened sums contains" in told) is searched
    assert ("too long with more than 5 parties" in claims(plain, "exposure", Severity.NOTE)) is not searched
    assert breaches_of(plain) == before


def test_draws_that_are_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for a single draw there is no figure, and no other finding changes."""
    record(tmp_path / "run", scenario(9, reclusterings="2", leakage__mode='"report"'), length=8)
    recorded = load(tmp_path / "run")
    whole = exposure_theory.expectation(recorded)
    assert whole is not None
    rows = 2 * whole.most * whole.clusters
    monkeypatch.setattr(exposure_theory, "_ROWS", rows)
    one = exposure_theory.expectation(recorded)
    assert one is not None
    assert one.draws == 1
    before = {
        finding.claim
        for each in audit(recorded).chapters
        for finding in each.findings
        if finding.severity is Severity.BREACH
    }
    monkeypatch.setattr(exposure_theory, "_ROWS", rows - 1)
    assert exposure_theory.expectation(recorded) is None
    after = {
        finding.claim
        for each in audit(recorded).chapters
        for finding in each.findings
        if finding.severity is Severity.BREACH
    }
    assert after == before
