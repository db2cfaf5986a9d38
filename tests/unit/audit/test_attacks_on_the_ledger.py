"""Attacks that the leakage ledger stops: where it only reports, the audit recovers the victim's update."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from securefl.audit.exposed import exposed_in
from securefl.audit.finding import Finding, Severity
from securefl.audit.load import load, load_truth
from securefl.audit.reconstruction import audit_reconstruction
from tests.simulation.test_ledger import (
    BY_COLLUSION,
    BY_DROPOUT,
    ONE_COLLUDER,
    PAIRS,
    REPORT,
    Clusters,
    P,
    V,
    clusters_are,
)
from tests.simulation.world import Op, scenario
from tests.unit.audit.runs import record

SILENT = (Op("drop", P[5], "MaskedInput", 0), Op("drop", P[5], "MaskedInput", 1))


@pytest.mark.parametrize(
    ("clusters", "fields", "ops", "colluders", "recovered"),
    [
        (PAIRS, {"parties": 5, "size": "2", "reclusterings": "3"}, (), (), P[:3]),
        (BY_DROPOUT, {"parties": 6, "size": "3", "reclusterings": "2"}, SILENT, (), [V]),
        (BY_COLLUSION, {"parties": 8, "reclusterings": "2", **ONE_COLLUDER}, (), (P[4],), [V]),
    ],
    ids=["pairs", "dropout", "collusion"],
)
def test_the_audit_recovers_the_victim(
    tmp_path: Path,
    clusters: Clusters,
    fields: Mapping[str, Any],
    ops: tuple[Op, ...],
    colluders: tuple[str, ...],
    recovered: list[str],
) -> None:
    def breaches(mode: Mapping[str, Any], out: Path) -> list[Finding]:
        with clusters_are(clusters):
            record(out, scenario(**fields, **mode), ops=ops, length=16, lab=True)
        recorded = load(out, colluders)
        found = audit_reconstruction(recorded, load_truth(out, recorded), exposed_in(recorded))
        return [one for one in found.findings if one.severity is Severity.BREACH]

    (breach,) = breaches(REPORT, tmp_path / "reported")
    assert "recovered to the last step of the encoding" in breach.claim
    assert set(recovered) <= set(breach.parties)
    assert not breaches({}, tmp_path / "enforced")
