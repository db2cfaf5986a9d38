"""Runs with privacy: parties keep to their budgets, and the summary says what was spent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.federated import run
from tests.live.scenarios import behaviour, write_scenario

pytestmark = pytest.mark.live

PRIVACY = (
    "encoding.clip=1.0",
    "encoding.scale_bits=9",
    "privacy.unit=party",
    "privacy.multiplier=1.5",
    "privacy.budget=1.2",
)


def test_parties_leave_when_their_budget_is_spent_and_then_the_run_is_over(tmp_path: Path) -> None:
    """With entropy of the system. The budget lasts for some of five rounds; p02 never adds its noise."""
    scenario = write_scenario(tmp_path, behaviour("no-noise", "p02"), rounds=5)
    ended = run(scenario, tmp_path / "run", *(part for one in PRIVACY for part in ("--set", one)))
    assert ended.exit_code == 0, ended.stderr
    privacy = ended.directory.read_scenario().privacy
    assert privacy.settled
    assert privacy.releases is not None
    assert 1 <= privacy.releases < 5
    assert len(ended.rows) == privacy.releases
    assert "parties have privacy budget left" in ended.summary["reason"]
    for party in (f"p{index:02d}" for index in range(6)):
        submitted = {
            entry.fields["place"][0]  # type: ignore[index]
            for entry in ended.transcript(party).of_kind("sent")
            if entry.fields["message"] == "MaskedInput"
        }
        assert len(submitted) == privacy.releases
    spent = [row["epsilon"] for row in ended.rows]
    assert all(row["p02"] is None for row in spent)
    course = [row["p00"] for row in spent]
    assert course == sorted(course)
    assert 0 < course[0] <= course[-1] <= 1.2
    account = ended.summary["privacy"]
    assert account["without_guarantee"] == ["p02"]
    assert account["epsilon"] == ended.summary["outcome"]["epsilon"] <= 1.2
