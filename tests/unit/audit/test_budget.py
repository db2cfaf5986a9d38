from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from securefl.lab.audit.budget import audit_budget, releases_of
from securefl.lab.audit.exhibits import AuditPlot, Table
from securefl.lab.audit.finding import Severity
from securefl.lab.audit.load import load
from securefl.lab.audit.recorded import Recorded
from securefl.methods.privacy.mechanism import mechanism_of
from securefl.methods.privacy.spending import ledger_of
from securefl.scenario.scenario import Scenario
from tests.simulation.world import scenario


def private(**more: str) -> Scenario:
    sets = {
        "privacy__unit": '"party"',
        "privacy__multiplier": "4.0",
        "privacy__delta": "0.01",
        "encoding__clip": "1.0",
        "encoding__scale_bits": "8",
        "weighting__mode": '"ignore"',
    }
    return scenario(6, rounds="2", **(sets | more))


def claiming(plain: Path, *, seeded: bool = False, made: Scenario | None = None, **claim: Any) -> Recorded:
    """The plain run as if its updates had noise, with these claims in its summary."""
    recorded = load(plain)
    transcripts = recorded.transcripts
    if not seeded:
        transcripts = {
            name: tuple(replace(t, header={**t.header, "entropy": "operating system"}) for t in some)
            for name, some in transcripts.items()
        }
    stated = {
        "guarantee": "",
        "releases": dict.fromkeys(recorded.parties, 2),
        "without_guarantee": [],
    } | claim
    return replace(
        recorded,
        scenario=made or private(),
        transcripts=transcripts,
        summary={"privacy": stated, "server_view": {"insecure_seeded_entropy": seeded}},
    )


def epsilon(releases: int) -> float:
    mechanism = mechanism_of(private(), 64)
    assert mechanism is not None
    return ledger_of(mechanism, releases).epsilon()


def found(recorded: Recorded) -> dict[Severity, str]:
    chapter = audit_budget(recorded)
    return {one.severity: one.claim for one in chapter.findings}


def test_a_run_without_privacy_claims_none(plain: Path) -> None:
    assert found(load(plain)) == {
        Severity.NOTE: "Nothing to check: the scenario has no differential privacy, and the run claims none."
    }
    lying = replace(load(plain), summary={"privacy": {"epsilon": 1.0}})
    assert set(found(lying)) == {Severity.BREACH}


def test_a_silent_party_has_released_all_the_same(plain: Path) -> None:
    """p04 was drawn in round 1 and fell silent: its masked input may have left."""
    assert set(releases_of(load(plain)).values()) == {2}


def test_an_honest_claim_holds(plain: Path) -> None:
    recorded = claiming(plain, epsilon=epsilon(2))
    chapter = audit_budget(recorded)
    assert [one.severity for one in chapter.findings] == [Severity.HOLDS, Severity.HOLDS]
    assert [type(one) for one in chapter.exhibits] == [AuditPlot, Table]


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ({"epsilon": 0.1}, "The claimed epsilon 0.1 is too small"),
        ({"epsilon": 99.0, "releases": {"p00": 1}}, "states too few releases"),
    ],
)
def test_claims_that_are_too_small_are_breaches(plain: Path, claim: dict[str, Any], reason: str) -> None:
    assert reason in found(claiming(plain, **claim))[Severity.BREACH]


def test_a_seeded_run_has_no_epsilon(plain: Path) -> None:
    assert (
        "anyone can compute the noise from its seed"
        in found(claiming(plain, seeded=True, epsilon=1.0))[Severity.BREACH]
    )
    assert "claims no epsilon" in found(claiming(plain, seeded=True, guarantee="none"))[Severity.NOTE]


def test_a_party_beyond_its_budget_is_named(plain: Path) -> None:
    spent = private(privacy__budget="1.0", privacy__releases="1")
    recorded = claiming(plain, made=spent, epsilon=epsilon(2))
    assert "6 party budgets exceeded" in found(recorded)[Severity.BREACH]


def test_parties_that_forgo_their_guarantee_have_to_be_named(plain: Path) -> None:
    skipper = private(behaviours='[{kind="no-noise", parties=["p02"]}]')
    assert "a guarantee for p02" in found(claiming(plain, made=skipper, epsilon=9.0))[Severity.BREACH]
    said = claiming(plain, made=skipper, epsilon=epsilon(2), without_guarantee=["p02"])
    assert Severity.BREACH not in found(said)
