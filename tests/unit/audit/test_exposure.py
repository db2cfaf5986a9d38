from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from securefl.base.ids import PartyId
from securefl.lab.audit.exhibits import AuditHeatMap, AuditPlot, Table
from securefl.lab.audit.exposure import audit_exposure
from securefl.lab.audit.exposure_theory import expectation
from securefl.lab.audit.finding import Chapter, Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.openings import exposed_in, opened_versions
from securefl.lab.audit.recorded import Recorded
from securefl.scenario.behaviours import NoNoise
from securefl.scenario.scenario import Scenario
from tests.simulation.world import scenario


def chapter(recorded: Recorded) -> Chapter:
    return audit_exposure(recorded, exposed_in(recorded))


def test_openings_are_the_certified_survivors(plain: Path) -> None:
    versions = opened_versions(load(plain))
    assert [one.version for one in versions] == [(0, 0), (1, 0)]
    assert [len(one.openings) for one in versions] == [2, 2]
    survivors = [{p for o in one.openings for p in o.survivors} for one in versions]
    assert [len(names) for names in survivors] == [6, 5]
    assert "p04" not in survivors[1]
    assert len(versions[1].participants) == 6


def test_the_parties_word_counts_where_the_server_is_silent(plain: Path) -> None:
    """A release is an opening whether or not the server says that it opened anything."""
    whole = load(plain)
    rest = {name: kept for name, kept in whole.transcripts.items() if name != "server"}
    without = replace(whole, transcripts=rest)

    def rows(recorded: Recorded) -> list[set[tuple[PartyId, ...]]]:
        return [{o.survivors for o in one.openings} for one in opened_versions(recorded)]

    assert rows(without) == rows(whole)


def test_one_sum_for_each_party_exposes_nobody(plain: Path) -> None:
    found = chapter(load(plain))
    assert [f.severity for f in found.findings] == [
        Severity.HOLDS,
        Severity.HOLDS,
        Severity.NOTE,
        Severity.NOTE,
    ]
    assert "cannot compute any party's update" in found.findings[0].claim
    assert "leakage.colluders + k = 0 + 2 = 2" in found.findings[1].claim


def test_the_smallest_support_is_judged_by_the_limit_that_parties_enforce(plain: Path) -> None:
    """The smallest sum is of two, f is 0, and leakage.colluders = 1 asks for three."""
    recorded = load(plain)
    leakage = msgspec.structs.replace(recorded.scenario.leakage, colluders=1)
    judged = chapter(
        replace(recorded, scenario=msgspec.structs.replace(recorded.scenario, leakage=leakage))
    ).findings[1]
    assert judged.severity is Severity.BREACH
    assert "leakage.colluders + k = 1 + 2 = 3" in judged.claim


def test_colluders_who_are_all_the_rest_of_a_sum_learn_it(plain: Path) -> None:
    recorded = load(plain)
    first = opened_versions(recorded)[0].openings[0].survivors
    found = chapter(replace(recorded, colluders=frozenset(first[:2])))
    pooled = found.findings[1]
    # The scenario reckons with no colluders at all.
    assert pooled.severity is Severity.WARNING
    assert first[2] in pooled.parties
    assert "+1 x sum of" in str(pooled.evidence[0])
    assert chapter(replace(recorded, colluders=frozenset(first[:1]))).findings[1].severity in {
        Severity.HOLDS,
        Severity.WARNING,
    }


def test_a_mate_that_adds_no_noise_raises_the_leverage(plain: Path) -> None:
    """1 / 3 in a sum of three, and 1 / 2 beside a party without noise, which only the others' noise hides."""
    recorded = load(plain)
    skipper, *mates = opened_versions(recorded)[0].openings[0].survivors
    noise = {"privacy__unit": '"party"', "privacy__multiplier": "4.0", "encoding__clip": "1.0"}
    made = scenario(6, rounds="2", **noise)
    skips = msgspec.structs.replace(made, behaviours=(NoNoise(parties=(skipper,)),))

    def found(of: Scenario) -> dict[PartyId, float]:
        one = exposed_in(replace(recorded, scenario=of))[0]
        return dict(zip(one.ledger.parties, one.leverage.tolist(), strict=True))

    assert list(found(made).values()) == [pytest.approx(1 / 3)] * 6
    raised = found(skips)
    assert [raised[member] for member in (skipper, *mates)] == [pytest.approx(1 / 2)] * 3
    assert sorted(raised.values())[:3] == [pytest.approx(1 / 3)] * 3
    nobody = msgspec.structs.replace(made, behaviours=(NoNoise(parties=tuple(recorded.parties)),))
    assert set(found(nobody).values()) == {1.0}


def test_many_reclusterings_of_one_update_expose_everybody(leaky: Path) -> None:
    recorded = load(leaky)
    found = chapter(recorded)
    alone = found.findings[0]
    assert alone.severity is Severity.BREACH
    assert set(alone.parties) == set(recorded.parties)
    assert "new_work" in alone.remedy
    assert alone.evidence[0].source == "server"
    kinds = [type(exhibit) for exhibit in found.exhibits]
    assert kinds == [AuditPlot, AuditHeatMap, Table]
    plot, heat = found.exhibits[0], found.exhibits[1]
    assert isinstance(plot, AuditPlot)
    assert isinstance(heat, AuditHeatMap)
    measured = next(curve for curve in plot.curves if curve.label == "measured, server alone")
    assert measured.y[0] == 0
    assert measured.y[-1] == 9
    assert heat.values[0][0] == pytest.approx(1.0)


def test_predictions_agree_with_the_figures_of_the_issue(leaky: Path) -> None:
    """(60, 3): none at R = 3, all at R = 4; two colluders expose 54.5 of 58 at R = 3, on average."""
    recorded = replace(load(leaky), scenario=scenario(60))
    theory = expectation(recorded)
    assert theory is not None
    assert (theory.share_bound, theory.estimate, theory.measured) == (3, 4, 4)
    assert theory.alone[2] == 0
    assert 40 < theory.pooled[2] <= 58


def test_predictions_of_atoms_are_about_their_sums(leaky: Path) -> None:
    """Eight atoms of three, two to a cluster: R* = 7 / 3; nobody is exposed unless two atom mates collude."""
    made = scenario(24, size="6", reclusterings="2", clustering__atoms="3")
    recorded = replace(load(leaky), scenario=made)
    theory = expectation(recorded, colluders=16)
    assert theory is not None
    assert (theory.atoms, theory.share_bound, theory.estimate) == (8, 2, 3)
    assert theory.measured in {3, 4}
    assert set(theory.alone) == {0.0}
    assert theory.determined[0] == 0
    assert 0 < theory.pooled[-1] < 8
    claims = [one.claim for one in audit_exposure(recorded, ()).findings]
    assert any("reclusterings R of one update reveal the sum of every atom" in c for c in claims)
    assert not any("expose all parties" in c for c in claims)


def test_one_cluster_has_no_prediction(leaky: Path) -> None:
    assert expectation(replace(load(leaky), scenario=scenario(3))) is None


def test_updates_with_all_of_their_noise_are_a_warning(leaky: Path) -> None:
    """They are known, which is what the guarantee of local noise reckons with."""
    noise = {"privacy__unit": '"party"', "privacy__multiplier": "4.0", "encoding__clip": "1.0"}
    transcripts = {
        name: tuple(replace(t, header={**t.header, "entropy": "operating system"}) for t in some)
        for name, some in load(leaky).transcripts.items()
    }
    recorded = replace(
        load(leaky), scenario=scenario(9, reclusterings="7", **noise), transcripts=transcripts, summary={}
    )
    found = chapter(recorded)
    assert max(f.severity for f in found.findings) is Severity.WARNING
    assert "These updates contain their noise" in found.findings[0].claim
