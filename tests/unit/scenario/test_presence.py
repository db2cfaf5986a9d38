"""What keeps the stated odds of shared noise true, whoever stays away."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.clustering import odds
from securefl.methods.clustering.adaptive_server import game_of
from securefl.methods.clustering.assignment import draw_assignment
from securefl.methods.clustering.presence import fewest_present, wanted_of
from tests.tiers import examples
from tests.unit.scenario.samples import checked, headed, small

SHARED = (
    "privacy.unit=party",
    "privacy.multiplier=1",
    "privacy.placement=threshold",
    "encoding.clip=1",
    "clustering.size=6",
    "secure_sum.threshold=3",
    "secure_sum.min_survivors=5",
    "secure_sum.colluders=3",
    "secure_sum.colluders_per_cluster=2",
)
EVERYBODY = ("secure_sum.colluders=2",)


def test_one_absence_makes_no_larger_cluster_where_noise_rests_on_chance() -> None:
    """12 parties, 3 colluders: one cluster of 11 would hold them all, whatever the seed."""
    scenario = small(*SHARED)
    assert [wanted_of(scenario, present) for present in (12, 11, 9, 8)] == [12, 6, 6, 6]
    assert checked(*SHARED).max_cluster_size == 6
    game = game_of(scenario)
    assert game.exceeds(2, fewest=12).chance == pytest.approx(10 / 165)
    # 9 present, of which 6 are drawn; 3 of the other 8 collude, a party has 5 mates.
    hit = [{0, 1, 2} <= set(mates) for mates in combinations(range(8), 5)]
    worst = game.exceeds(2, fewest=9)
    assert worst.chance == pytest.approx(sum(hit) / len(hit) * 6 / 9)
    assert worst.present == 9


def test_too_few_honest_parties_make_no_round() -> None:
    scenario = small(*SHARED)
    assert fewest_present(scenario) == 8
    assert wanted_of(scenario, 7) == 0


def test_where_all_colluders_are_reckoned_with_clusters_may_grow() -> None:
    scenario = small(*SHARED, *EVERYBODY)
    assert [wanted_of(scenario, present) for present in (12, 11, 6, 5)] == [12, 11, 6, 0]
    assert checked(*SHARED, *EVERYBODY).p_shares_fail == 0


@pytest.mark.parametrize("server", ["curious", "active"])
def test_the_stated_odds_are_those_of_the_worst_round(server: str) -> None:
    draws = 3 * (3 if server == "active" else 1)
    more = ("parties=24", f"secure_sum.server={server}", "secure_sum.threshold=5")
    limits = checked(*SHARED, *more)
    worst = odds.tail(17, 3, 5, 3) if server == "active" else odds.tail(13, 3, 5, 3) * 12 / 14
    # Certificates need 14 signatures, so that 14 to 17 present parties make no clusters of 6. Without, 12 of
    # 14 are drawn.
    assert limits.p_shares_fail == pytest.approx(1 - (1 - worst) ** draws)
    (line,) = (note for note in headed(*SHARED, *more) if "dishonest parties per cluster" in note)
    assert "h = min_survivors - f = 5 - 2 = 3" in line
    assert "rounds have 14 parties or more" in line
    assert "if all are present" in line


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_no_number_of_present_parties_exceeds_the_stated_odds(data: st.DataObject) -> None:
    """Clusters as they are drawn, each with all of its mates, among any number that makes a round."""
    parties = data.draw(st.integers(6, 40))
    size = data.draw(st.integers(3, 6))
    q = data.draw(st.integers(2, parties - 2))
    numbers = (f"parties={parties}", f"clustering.size={size}", f"secure_sum.min_survivors={size}")
    colluders = (f"secure_sum.colluders={q}", "secure_sum.colluders_per_cluster=1")
    server = f"secure_sum.server={data.draw(st.sampled_from(['curious', 'active']))}"
    overrides = (*SHARED, *numbers, *colluders, server, "secure_sum.k_anonymity=2", "stop.rounds=1")
    try:
        limits = checked(*overrides)
    except ConfigError:
        reject()
    scenario = small(*overrides)
    for present in range(1, parties + 1):
        wanted = wanted_of(scenario, present)
        if not wanted:
            continue
        names = [PartyId(f"p{i:02d}") for i in range(present)]
        (row,) = draw_assignment(bytes(32), names, wanted, size, 1).clusters
        # Over the party's place: in no cluster, or in one as large as these.
        met = sum(len(members) * odds.tail(present - 1, q, len(members) - 1, 2) for members in row) / present
        assert met <= limits.p_shares_fail + 1e-12


def test_fixed_clusters_are_one_draw_of_everybody() -> None:
    fixed = ("clustering.fixed=true", "leakage.mode=report")
    assert checked(*SHARED, *fixed).p_shares_fail == pytest.approx(10 / 165)
