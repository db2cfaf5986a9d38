from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.ids import PartyId
from securefl.methods.attacks import needs as module
from securefl.methods.attacks.needs import Clusters, Placement, acting, hit
from tests.tiers import examples

PARTIES = tuple(PartyId(f"p{index:02d}") for index in range(12))
COALITION = PARTIES[:7]


def drawn(seed: int, reclusterings: int, size: int) -> Clusters:
    rng = np.random.default_rng(seed)
    plan = []
    for _ in range(reclusterings):
        order = [PARTIES[index] for index in rng.permutation(len(PARTIES))]
        plan.append(tuple(tuple(order[start : start + size]) for start in range(0, len(order), size)))
    return tuple(plan)


def naive_hit(actors: tuple[PartyId, ...], clusters: Clusters) -> int:
    return sum(bool(set(actors) & set(members)) for row in clusters for members in row)


clustered = st.builds(drawn, st.integers(0, 10_000), st.integers(1, 3), st.integers(2, 5))


@settings(max_examples=examples(60), deadline=None)
@given(clustered, st.integers(1, 6), st.sampled_from(["concentrate", "spread"]))
def test_the_choice_is_the_best_of_all(clusters: Clusters, actors: int, placement: Placement) -> None:
    chosen = acting(COALITION, clusters, actors, placement)
    assert len(chosen) == actors
    assert chosen <= set(COALITION)
    best = min if placement == "concentrate" else max
    wanted = best(naive_hit(choice, clusters) for choice in combinations(COALITION, actors))
    assert hit(chosen, clusters) == naive_hit(tuple(chosen), clusters) == wanted


@settings(max_examples=examples(60), deadline=None)
@given(clustered, st.integers(1, 6))
def test_greedy_spreading_keeps_its_guarantee(clusters: Clusters, actors: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EXACT_UP_TO", 0)
        spread = acting(COALITION, clusters, actors, "spread")
        together = acting(COALITION, clusters, actors, "concentrate")
    most = max(naive_hit(choice, clusters) for choice in combinations(COALITION, actors))
    assert hit(spread, clusters) >= (1 - 1 / np.e) * most
    assert len(spread) == len(together) == actors
    if len(clusters) == 1:
        assert hit(together, clusters) == min(naive_hit(c, clusters) for c in combinations(COALITION, actors))


def test_those_outside_the_round_do_not_act() -> None:
    clusters = ((("p00", "p08"), ("p01", "p09")),)
    plan: Clusters = tuple(tuple(tuple(map(PartyId, m)) for m in row) for row in clusters)
    assert acting(COALITION, plan, 5, "spread") == {PartyId("p00"), PartyId("p01")}


def test_everybody_finds_the_same_whatever_the_order() -> None:
    clusters = drawn(3, 2, 3)
    shuffled = tuple(tuple(tuple(reversed(members)) for members in row) for row in clusters)
    for placement in ("concentrate", "spread"):
        first = acting(COALITION, clusters, 3, placement)
        assert first == acting(tuple(reversed(COALITION)), shuffled, 3, placement)


def test_many_attackers_are_placed_in_good_time() -> None:
    """A choice among C(400, 50) goes by greedy steps."""
    parties = tuple(PartyId(f"p{index:04d}") for index in range(1200))
    clusters = (tuple(parties[start : start + 10] for start in range(0, 1200, 10)),) * 3
    assert hit(acting(parties[:400], clusters, 50, "concentrate"), clusters) == 15
    assert hit(acting(parties[:400], clusters, 40, "spread"), clusters) == 120
