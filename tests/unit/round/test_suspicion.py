"""Evidence over rounds: of whom it is, that it is kept, and that nobody can be blamed by others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.feasibility.dp_checks import evidence_of
from securefl.methods.privacy.checks.evidence import PRESENCE_STAKES
from securefl.protocol.round.party.upload import Seams
from securefl.protocol.round.server.features.checking import DpChecks
from securefl.protocol.round.server.features.suspicion import (
    NO_SUSPICION,
    Suspicion,
    count_void_draw,
    groups_of,
    list_suspects,
    naming_threshold,
    update_evidence,
)
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey, Group, RoundDone, SumChecked
from tests.simulation.world import Op, World, scenario
from tests.unit.privacy.scenarios import private
from tests.unit.round.samples import plan_of

NAMES = tuple(PartyId(f"p{i:02d}") for i in range(12))
REPORTED = ("leakage.mode=report", "checks.kind=corrected")
COMPANY = ("aggregation.claim=none", "aggregation.byzantine=1", *REPORTED)
ALONE = (
    "clustering.size=1",
    "secure_sum.threshold=1",
    "secure_sum.min_survivors=1",
    "secure_sum.colluders=0",
    "secure_sum.colluders_per_cluster=0",
    "secure_sum.k_anonymity=1",
    "privacy.placement=local",
    *REPORTED,
)
E_VALUES = (8.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def drawn(*rows: Sequence[Group], number: int = 0) -> Draw:
    participants = tuple(sorted(party for group in rows[0] for party in group))
    return Draw(b"", Assignment(participants, tuple(map(tuple, rows))), {}, (), number=number)


def halves(order: Sequence[PartyId] = NAMES) -> tuple[Group, Group]:
    return tuple(sorted(order[:6])), tuple(sorted(order[6:]))


def after(
    plan: RunPlan,
    before: Suspicion,
    draw: Draw,
    failing: Sequence[ClusterKey],
    lost: Sequence[ClusterKey] = (),
) -> Suspicion:
    sums = [
        ClusterSum(r, j, group, group[1:] if plan.scenario.clustering.size > 1 else group, np.zeros(1, "u4"))
        for r, row in enumerate(draw.assignment.clusters)
        for j, group in enumerate(row)
        if (r, j) not in lost
    ]
    checked = [SumChecked(0, *one.key, one.key not in failing, 0.5, "", E_VALUES) for one in sums]
    return update_evidence(plan, before, draw, sums, checked)


@pytest.mark.parametrize(
    ("overrides", "kind", "groups", "line"),
    [
        (COMPANY[:-1], "none", 0, None),
        (REPORTED, "none", 0, "of no single party"),
        (
            COMPANY,
            "presence",
            12,
            "of each party, given at most 1 Byzantine; an honest one is ever named",
        ),
        (ALONE, "uploads", 12, "of each party; an honest one is ever named with probability 1 % at most"),
        ((*REPORTED, "clustering.fixed=true"), "clusters", 2, "of each fixed cluster as a whole; an honest"),
    ],
)
def test_of_whom_evidence_is(overrides: tuple[str, ...], kind: str, groups: int, line: str | None) -> None:
    plan = plan_of(private(*overrides))
    assert evidence_of(plan.scenario) == kind
    assert len(groups_of(plan)) == groups
    assert sorted(party for group in groups_of(plan) for party in group) == (list(NAMES) if groups else [])
    stated = [one.whole for one in DpChecks().header_sentences(plan.scenario)]
    lines = [one for one in stated if one.startswith("evidence over rounds: ")]
    assert lines == [] if line is None else line in lines[0]
    if kind == "none":
        assert after(plan, NO_SUSPICION, drawn(halves()), [(0, 0)]) == {}
    else:
        assert naming_threshold(plan) == pytest.approx(math.log10(groups / 0.01))


def test_presence_is_a_bet_on_everybody_who_was_drawn() -> None:
    """By hand: 1 Byzantine among 11 others is in company of 5 mates with probability 5 / 11."""
    plan = plan_of(private(*COMPANY))
    evidence = after(plan, NO_SUSPICION, drawn(halves()), [(0, 0)])
    won = tuple(math.log(1 - s + s / (5 / 11 + 0.01)) for s in PRESENCE_STAKES)
    lost = tuple(math.log(1 - s) for s in PRESENCE_STAKES)
    assert evidence[NAMES[1],].logs == pytest.approx(won)
    assert evidence[NAMES[0],].logs == pytest.approx(lost), "it is in the cluster, but not in its sum"
    assert evidence[NAMES[7],].logs == pytest.approx(lost)
    unopened = after(plan, NO_SUSPICION, drawn(halves()), [], lost=[(0, 0), (0, 1)])
    assert all(one.logs == pytest.approx(lost) for one in unopened.values())
    twice = after(plan, NO_SUSPICION, drawn(halves(), halves(NAMES[::-1])), [(0, 0)])
    means = [(math.exp(a) + math.exp(b)) / 2 for a, b in zip(won, lost, strict=True)]
    assert [math.exp(log) for log in twice[NAMES[1],].logs] == pytest.approx(means)


@pytest.mark.parametrize("trick", ["void", "lose"])
def test_nobody_is_blamed_by_rounds_that_end_where_the_blame_would_not_fall(trick: str) -> None:
    """p00 deviates only with p01 at its side; else it withholds its nonce, or no sum is opened."""
    plan, evidence = plan_of(private(*COMPANY)), NO_SUSPICION
    bad, victim = NAMES[:2]
    generator = np.random.default_rng(3)

    def shuffled() -> tuple[Group, Group]:
        return halves([NAMES[i] for i in generator.permutation(12)])

    for _ in range(300):
        clusters = shuffled()
        ((home, group),) = ((j, one) for j, one in enumerate(clusters) if victim in one)
        if bad in group:
            sums = [(0, home)] if group[0] != victim else []
            evidence = after(plan, evidence, drawn(clusters), sums)
        elif trick == "void":
            evidence = count_void_draw(plan, evidence, 0, NAMES)
            evidence = count_void_draw(plan, evidence, 1, NAMES[1:])
            evidence = after(plan, evidence, drawn(shuffled(), number=2), [(0, 0), (0, 1)])
        else:
            evidence = after(plan, evidence, drawn(clusters), [], lost=[(0, 0), (0, 1)])
    assert evidence[victim,].rounds == 300, "one bet a round"
    assert all(suspect.highest < 2 for suspect in list_suspects(evidence)), "never 100 to 1"


def test_whoever_always_deviates_is_named_and_nobody_else() -> None:
    plan, evidence = plan_of(private(*COMPANY)), NO_SUSPICION
    generator = np.random.default_rng(4)
    bad = NAMES[11]  # last in its group, so always in its sum
    for _ in range(60):
        clusters = halves([NAMES[i] for i in generator.permutation(12)])
        evidence = after(plan, evidence, drawn(clusters), [(0, j) for j in (0, 1) if bad in clusters[j]])
    named = [one.parties for one in list_suspects(evidence) if one.highest >= naming_threshold(plan)]
    assert named == [(bad,)]


def test_fixed_clusters_stay_themselves_when_members_are_away_and_others_are_gone() -> None:
    plan = plan_of(private(*REPORTED, "clustering.fixed=true"))
    first, second = groups_of(plan)
    evidence = after(plan, NO_SUSPICION, drawn((first, second)), [])
    evidence = after(plan, evidence, drawn((second[:5],)), [])
    assert {group: one.rounds for group, one in evidence.items()} == {first: 1, second: 2}
    assert evidence[second].logs[0] == pytest.approx(2 * math.log(8))


def test_the_server_keeps_the_evidence_over_rounds_and_reports_it() -> None:
    """Also through a round whose draw is void and for whose second one too few are left."""
    config = {
        "privacy__unit": "party",
        "privacy__multiplier": "0.5",
        "privacy__delta": "0.05",
        "encoding__clip": "1.0",
        "encoding__scale_bits": "7",
        "checks__kind": "corrected",
        "aggregation__claim": "none",
        "aggregation__byzantine": "1",
        "leakage__mode": "report",
    }
    silent = Seams(noise=lambda noise, _occasion: np.zeros_like(noise))
    ops = (Op("drop", NAMES[5], "Reveal", 1),)
    world = World(scenario(6, rounds="3", **config), length=256, seams={NAMES[2]: silent}, ops=ops).run()
    done = world.reports(RoundDone)
    skipper = [{one.parties: one for one in report.suspects}[NAMES[2],] for report in done]
    expected = np.zeros(len(PRESENCE_STAKES))
    stakes = np.array(PRESENCE_STAKES)
    for report, found in zip(done, skipper, strict=True):
        assert len(report.suspects) == 6
        first_draw = report.round != 1
        expected += np.log(1 - stakes + first_draw * stakes / (2 / 5 + 0.01))
        assert found.now * math.log(10) == pytest.approx(np.log(np.exp(expected).mean()))
    assert [len(report.failed) for report in done] == [1, 0, 1]
    assert skipper[2].highest == max(one.highest for one in skipper)
    bare = replace(world.plan, scenario=scenario(6, rounds="3"))
    assert groups_of(bare) == ()
