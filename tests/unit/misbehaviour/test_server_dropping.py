"""A server that drops a victim's mates: weak limits let it, the ledger and min_survivors stop it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolating import mates_to_drop
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.clustering.assignment import Assignment, draw_assignment
from securefl.methods.clustering.survivors import survivor_set
from securefl.methods.feasibility.limits import check
from securefl.protocol.round.shared.reports import SharesReleased, SumsWithheld, SurvivorsFrozen
from securefl.scenario.scenario import Scenario
from tests.simulation.world import scenario
from tests.tiers import examples
from tests.unit.clustering.leakage import oracle
from tests.unit.misbehaviour.lab import ROUNDING, Lab, shown

P = [PartyId(f"p{i:02d}") for i in range(12)]
VICTIM = P[0]
DROPS_MATES = "isolating:DropsMates"
NOBODY: frozenset[PartyId] = frozenset()


def assigned(*reclusterings: list[list[int]]) -> Assignment:
    rows = tuple(tuple(tuple(P[k] for k in members) for members in row) for row in reclusterings)
    return Assignment(tuple(sorted({p for row in rows for members in row for p in members})), rows)


def attacked(setting: Scenario, **fields: object) -> Lab:
    lab = Lab(setting, {"server": (shown(DROPS_MATES, victim=VICTIM, **fields),)})
    lab.run()
    return lab


def dropped(lab: Lab) -> dict[int, tuple[PartyId, ...]]:
    return {one.round: one.dropped for one in lab.reports(SurvivorsFrozen)}


def pairs(rounds: str = "8", **more: str) -> Scenario:
    """Two clusters of 4 in two reclusterings: in 22 of 35 draws two mates meet again without the victim."""
    return scenario(8, size="4", reclusterings="2", rounds=rounds, **more)


def test_it_drops_whoever_is_no_accomplice_or_in_one_of_two_clusters() -> None:
    once = assigned([[0, 1, 2, 3], [4, 5, 6, 7]])
    assert mates_to_drop(once, VICTIM, frozenset(P[1:3]), 2) == {P[3]}
    assert mates_to_drop(once, VICTIM, frozenset(P[1:3]), 4) == NOBODY
    assert mates_to_drop(once, VICTIM, NOBODY, 2) == NOBODY
    twice = assigned([[0, 1, 2, 3], [4, 5, 6, 7]], [[1, 2, 4, 5], [0, 3, 6, 7]])
    assert mates_to_drop(twice, VICTIM, NOBODY, 2) == {P[3], P[4], P[5]}
    assert mates_to_drop(twice, VICTIM, NOBODY, 2, quorum=6) == NOBODY
    assert mates_to_drop(twice, VICTIM, frozenset({P[4], P[5]}), 2) == {P[3]}
    assert mates_to_drop(twice, VICTIM, NOBODY, 3) == NOBODY
    assert mates_to_drop(once, P[9], NOBODY, 2) == NOBODY


@given(
    st.integers(0, 2**32), st.sampled_from([(8, 4), (9, 3), (12, 4)]), st.integers(1, 3), st.integers(0, 3)
)
@settings(max_examples=examples(25))
def test_what_it_finds_exposes_the_victim(seed: int, shape: tuple[int, int], rows: int, told: int) -> None:
    """Against an elimination over the rationals of what survives, with the accomplices' updates known."""
    parties, size = shape
    drawn = draw_assignment(seed.to_bytes(32, "big"), P[:parties], parties, size, rows)
    accomplices = frozenset(P[1 : 1 + told])
    gone = mates_to_drop(drawn, VICTIM, accomplices, 2)
    if not gone:
        return
    assert not gone & (accomplices | {VICTIM})
    clusters = {(r, j): m for r, row in enumerate(drawn.clusters) for j, m in enumerate(row)}
    alive = survivor_set(clusters, {key: set(m) - gone for key, m in clusters.items()}, 2)
    sums = [[P.index(p) for p in m if p in alive] for m in clusters.values() if alive.intersection(m)]
    sums += [[P.index(p)] for p in accomplices]
    assert 0 in oracle.exposed([oracle.indicator(members, parties) for members in sums])


def test_without_limits_two_sums_differ_by_the_victim() -> None:
    """The attack has teeth: what the server opened, subtracted, is the victim's update."""
    lab = attacked(pairs(leakage__mode='"report"'))
    hit = 0
    for round_, gone in dropped(lab).items():
        lab.assert_sums_right(round_)
        sums = lab.sums(round_)
        for with_it, value in sums.items():
            for without, other in sums.items():
                if set(with_it) - set(without) == {VICTIM} and set(without) <= set(with_it):
                    assert abs(value - other - lab.worth[VICTIM]) <= 2 * ROUNDING
                    assert gone
                    hit += 1
    assert hit >= 2, "8 draws give it fewer chances in 1 of 200 runs of other seeds"


def test_the_ledger_keeps_the_second_reclustering_closed() -> None:
    """Each survivor finds out by itself, and gives shares for the first reclustering only."""
    lab = attacked(pairs())
    lied = [round_ for round_, gone in dropped(lab).items() if gone]
    assert len(lied) >= 2
    for round_ in lied:
        released = [
            (name, one) for name in P[:8] for one in lab.reports(SharesReleased, name) if one.round == round_
        ]
        assert released
        assert {r for _, one in released for r, _ in one.instances} == {0}
        for name, _ in released:
            (kept,) = [one for one in lab.reports(SumsWithheld, name) if one.round == round_]
            assert VICTIM in kept.crossed[0]
        lab.assert_sums_right(round_)
        assert all(len(survivors) >= 2 for survivors in lab.sums(round_))


def test_all_of_a_cluster_must_survive_leaves_nothing_to_drop() -> None:
    lab = attacked(pairs("3", min_survivors="4", leakage__mode='"report"'))
    assert set(dropped(lab).values()) == {()}


def test_limits_that_reckon_with_no_accomplice_are_no_help_against_one() -> None:
    """k = 2 and f = 0 hold, and the sum of two is open to whoever has told the server the other part."""
    accomplices = P[1:5]
    lab = attacked(scenario(12, size="4", rounds="3"), accomplices=accomplices)
    hit = 0
    for round_, gone in dropped(lab).items():
        own = [(m, value) for m, value in lab.sums(round_).items() if VICTIM in m]
        for members, value in own if gone else ():
            assert set(members) <= {VICTIM, *accomplices}
            known = sum(lab.worth[p] for p in members if p != VICTIM)
            assert abs(value - known - lab.worth[VICTIM]) <= ROUNDING
            hit += 1
    assert hit


def test_limits_that_reckon_with_the_accomplice_leave_nothing_to_drop() -> None:
    secure = {"colluders": "1", "colluders_per_cluster": "1", "k_anonymity": "2"}
    setting = scenario(
        12,
        size="4",
        rounds="3",
        threshold="3",
        min_survivors="3",
        **{f"secure_sum__{k}": v for k, v in secure.items()},
    )
    lab = attacked(setting, accomplices=[P[1]])
    assert set(dropped(lab).values()) == {()}
    assert [len(done.survivors) for done in lab.rounds_done()] == [12] * 3


def test_in_other_rounds_the_server_is_honest() -> None:
    lab = attacked(pairs("3"), rounds=(7,))
    assert set(dropped(lab).values()) == {()}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("victim = 'p99'", "victim: there is no party p99"),
        ("victim = 'p00', accomplices = ['x']", "accomplices: there is no party x"),
        ("victim = 'p00', accomplices = ['p00']", "accomplices: p00 is the victim"),
        (
            "victim = 'p00', count = 1",
            "count: isolating:DropsMates is a fault of the server",
        ),
    ],
)
def test_bad_fields(given: str, reason: str) -> None:
    attack = f"[{{ kind = '{DROPS_MATES}', {given} }}]"
    with pytest.raises(ConfigError, match=rf"behaviours\.0\.{reason}"):
        check(scenario(12, size="3", behaviours=attack))
