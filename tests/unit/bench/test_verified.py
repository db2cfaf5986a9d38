"""The benchmark of verified rounds: what it counts, for whom, and that it measures confirmed rounds only."""

from __future__ import annotations

import json
import time
from io import StringIO
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.cli.bench import app
from securefl.lab.bench import verified
from securefl.lab.bench.verified import VerifiedCost, print_verified, run_verified
from securefl.protocol.round.party import verifying
from securefl.protocol.round.shared import repeating

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def costs() -> tuple[VerifiedCost, ...]:
    return run_verified([(3, 500), (4, 20_000)], 1, InsecureSeededEntropy(1))


def test_everybody_is_measured(costs: tuple[VerifiedCost, ...]) -> None:
    assert [(cost.members, cost.length) for cost in costs] == [(3, 500), (4, 20_000)]
    for cost in costs:
        seconds = (
            cost.member_before,
            cost.member,
            cost.opening,
            cost.opening_received,
            cost.step,
            cost.step_received,
            cost.server_before,
            cost.server,
        )
        assert min(seconds) > 0
        assert cost.ratio == cost.member / cost.member_before


def test_proofs_hold_all_vectors_and_all_sums(costs: tuple[VerifiedCost, ...]) -> None:
    for cost in costs:
        lists = 800 * cost.members + 2_000
        assert 0 < cost.opening_bytes - 4 * cost.members * cost.length < lists
        assert 0 < cost.step_bytes - (2 * 4 + 8 + 4) * cost.length < 2_000


def test_what_a_verifier_repeats_is_not_the_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that takes half a second is in nobody's round, but in the committee's proofs."""
    honest, clock, slept = repeating.repeat_step, time.process_time, [0.0]

    def slow(*args: Any) -> None:
        slept[0] += 0.5
        honest(*args)

    monkeypatch.setattr(verifying, "repeat_step", slow)
    monkeypatch.setattr(time, "process_time", lambda: clock() + slept[0])
    (cost,) = run_verified([(3, 10)], 1, InsecureSeededEntropy(1))
    assert cost.step > 0.5 > max(cost.member, cost.opening, cost.step_received, cost.server)


def test_rounds_that_nobody_confirms_are_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "_MEASURED", 7)
    with pytest.raises(UsageError, match="before its measured round was confirmed"):
        run_verified([(3, 10)], 1, InsecureSeededEntropy(1))
    with pytest.raises(UsageError, match="repetitions must be at least 1"):
        run_verified([(3, 10)], 0)


def test_it_is_printed_and_given_as_json() -> None:
    result = CliRunner().invoke(app, ["verified", "--rows", "3x10", "--repetitions", "1", "--json"])
    (first,) = json.loads(result.stdout)
    assert (first["members"], first["length"]) == (3, 10)
    out = StringIO()
    one = VerifiedCost(10, 1_000_000, 0.05, 0.055, 0.04, 0.05, 0.15, 0.03, 2.0, 9.0, 40_000_000, 16_000_000)
    print_verified(Console(file=out, width=100), [one])
    row = out.getvalue()
    for cell in ("1e6", "50.0, 55.0", "1.10", "40.0 + 50.0", "150 + 30.0", "2,000, 9,000", "40.0, 16.0"):
        assert cell in row
