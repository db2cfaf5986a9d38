"""A server that withholds nonces: three draws instead of one, in the open, and no more."""

from __future__ import annotations

import hashlib
from math import comb

import pytest

from isolating import isolates
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment, draw_assignment
from securefl.methods.feasibility.limits import check
from securefl.protocol.round.shared.reports import ClustersDrawn, DrawVoided
from tests.simulation.world import scenario
from tests.unit.misbehaviour.lab import Lab, shown

WITHHOLDS_NONCES = "isolating:WithholdsNonces"
VICTIM = PartyId("p00")
ACCOMPLICES = frozenset(map(PartyId, ("p01", "p02", "p03", "p04")))


def test_isolated_means_alone_among_accomplices_in_some_cluster() -> None:
    a, b, c, d = map(PartyId, ("p00", "p01", "p05", "p06"))
    once = Assignment((a, b, c, d), (((a, c), (b, d)), ((a, b), (c, d))))
    assert isolates(once, a, frozenset({b}))
    assert not isolates(once, a, frozenset({d}))
    assert not isolates(Assignment((a, b, c), (((a, b, c),),)), a, frozenset({b}))


def test_it_has_three_draws_a_round_and_everybody_sees_them() -> None:
    attack = shown(WITHHOLDS_NONCES, victim=VICTIM, accomplices=sorted(ACCOMPLICES))
    lab = Lab(scenario(12, size="3", rounds="5"), {"server": (attack,)})
    lab.run()
    assert len(lab.rounds_done()) == 5
    voided = lab.reports(DrawVoided)
    drawn = lab.reports(ClustersDrawn)
    assert len(drawn) == 5
    for one in drawn:
        of_round = [v for v in voided if v.round == one.round]
        lies = {name for v in of_round for name in v.withheld}
        assert not lies & {VICTIM, *ACCOMPLICES}
        alone = any(VICTIM in m and set(m) <= ACCOMPLICES | {VICTIM} for row in one.clusters for m in row)
        assert alone or len(of_round) == 2, "it gave up although it had a draw left"
        lab.assert_sums_right(one.round)
    assert voided, "the test needs a draw that was not to its liking"


def test_three_draws_are_worth_at_most_three_times_the_odds() -> None:
    """What the planner's odds of a party alone among colluders have to be taken times."""
    names = [PartyId(f"p{i:02d}") for i in range(12)]
    draws = 6_000
    alone = [
        isolates(
            draw_assignment(hashlib.sha256(b"%d" % k).digest(), names, len(names), 3, 1), VICTIM, ACCOMPLICES
        )
        for k in range(draws)
    ]
    one = comb(4, 2) / comb(11, 2)
    tries = draws // 3
    steered = sum(any(alone[3 * k : 3 * k + 3]) for k in range(tries)) / tries
    expected = 1 - (1 - one) ** 3
    # 5 standard deviations: a false alarm in 2 million runs.
    assert abs(sum(alone) / draws - one) < 5 * (one * (1 - one) / draws) ** 0.5
    assert abs(steered - expected) < 5 * (expected * (1 - expected) / tries) ** 0.5
    assert expected < 3 * one


@pytest.mark.parametrize(
    ("field", "fields", "reason"),
    [
        ("victim", {"victim": "p99", "accomplices": ["p01"]}, "there is no party p99"),
        ("accomplices", {"victim": "p00", "accomplices": ["p01", "x"]}, "there is no party x"),
        ("accomplices", {"victim": "p00", "accomplices": ["p00"]}, "p00 is the victim"),
    ],
)
def test_bad_names(field: str, fields: dict[str, object], reason: str) -> None:
    given = ", ".join(f"{name} = {value!r}" for name, value in fields.items())
    attack = f"[{{ kind = '{WITHHOLDS_NONCES}', {given} }}]"
    with pytest.raises(ConfigError, match=rf"behaviours\.0\.{field}: {reason}"):
        check(scenario(12, size="3", behaviours=attack))
