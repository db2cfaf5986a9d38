"""Audits of runs in which a model came more than once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from securefl.base.ids import SERVER
from securefl.lab.audit.exposure import repeated_models
from securefl.lab.audit.finding import Finding, Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.openings import exposed_in, opened_versions
from securefl.protocol.round import walk
from securefl.protocol.round.server import opening as server_open
from tests.seen import patch_seen
from tests.simulation.world import scenario
from tests.unit.audit.runs import record
from tests.vectors.test_transcripts import CRYPTEN


def found(out: Path, *, repeats: bool, mode: str, rounds: int = 6) -> list[Finding]:
    """Nine parties in clusters of three; with ``repeats`` the server sends its first model in every round."""
    honest = walk.decide_end

    def again(plan: Any, standing: Any, done: Any) -> Any:
        after, outcome = honest(plan, replace(standing, rounds_without_update=0, updates=1), done)
        return replace(after, params=np.zeros_like(after.params)), outcome

    config = scenario(9, rounds=str(rounds), leakage__mode=f'"{mode}"')
    with patch_seen(server_open, "decide_end", again if repeats else honest):
        record(out, config, length=8)
    recorded = load(out)
    return list(repeated_models(recorded, exposed_in(recorded), "exposure"))


def test_what_rounds_on_one_model_determine_together_is_a_breach(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, repeats=True, mode="report")
    assert finding.severity is Severity.BREACH
    assert finding.claim.startswith("The sums of rounds 0, 1, 2, 3, 4, 5 together reveal")
    assert len(finding.parties) == 9
    assert "clustering.atoms" in finding.remedy


def test_with_their_accounts_parties_stop_before(tmp_path: Path) -> None:
    findings = found(tmp_path, repeats=True, mode="veto")
    assert all(finding.severity is Severity.HOLDS for finding in findings)


@pytest.mark.parametrize("mode", ["veto", "report"])
def test_models_that_move_on_are_not_spoken_of(tmp_path: Path, mode: str) -> None:
    assert found(tmp_path, repeats=False, mode=mode) == []


@pytest.mark.parametrize(("kind", "needed"), [("masking", 2), ("crypten", 3)])
def test_a_sum_that_too_few_have_released_for_does_not_open(kind: str, needed: int, tmp_path: Path) -> None:
    """A server that is killed as it asks for shares has those of some, which tell nothing."""
    more = CRYPTEN if kind == "crypten" else {}
    record(tmp_path / "run", scenario(6, **more), length=8)
    recorded = load(tmp_path / "run")
    (version,) = opened_versions(recorded)
    for opening in version.openings:
        assert opening.by == {SERVER, *opening.survivors}
        for count in range(4):
            some = replace(opening, by=frozenset(opening.survivors[:count]))
            assert some.opens(recorded) is (count >= needed)
            assert replace(some, by=some.by | {SERVER}).opens(recorded)
        # Whoever left nothing may have released.
        others = {n: t for n, t in recorded.transcripts.items() if n != opening.survivors[-1]}
        less = replace(recorded, transcripts=others)
        assert replace(opening, by=frozenset(opening.survivors[: needed - 1])).opens(less)
