"""Clusters that statements close, and those that may be open."""

from __future__ import annotations

from itertools import combinations

import pytest

from securefl.base.ids import PartyId
from securefl.methods.leakage.limits import LeakageLimits
from securefl.methods.leakage.unresolved import (
    NOTHING_GIVEN,
    UnresolvedRound,
    crossed_together,
    doubtful_members,
    silent_members,
    unresolved_models,
)

MODEL = b"\x01" * 32
OTHER = b"\x02" * 32
P = [PartyId(f"p{k:02}") for k in range(12)]
ME = P[0]


def unresolved(members: int, threshold: int, colluders: int) -> UnresolvedRound:
    silent = silent_members(threshold, colluders)
    return UnresolvedRound("run", 0, {MODEL: (tuple(P[:members]),)}, silent, frozenset({ME}))


SIZES = [(2, 2, 0), (3, 2, 0), (3, 3, 1), (4, 3, 1), (5, 3, 0), (5, 4, 1), (10, 6, 1), (10, 7, 2)]
"""Members, threshold and colluders of a cluster."""


@pytest.mark.parametrize(("m", "t", "f"), SIZES)
def test_the_members_that_could_still_release_are_fewer_than_the_threshold(m: int, t: int, f: int) -> None:
    """Against the definition: whichever f mates lie, fewer than t members release, and one statement less is
    not enough. With fewer statements than f the rule is stricter than need be.
    """
    mates = P[1:m]
    for stating in range(m):
        _, closed = unresolved(m, t, f).hear(mates[:stating])
        assert bool(closed) == (stating >= m - t + f)
        liars = combinations(mates[:stating], min(f, stating))
        most = max(len(set(mates) - set(mates[:stating]) | set(lying)) for lying in liars)
        assert most < t if closed else most >= t or stating < f


def test_statements_add_up_over_several_hellos() -> None:
    one = unresolved(5, 3, 0)
    one, closed = one.hear([P[1]])
    assert not closed
    one, closed = one.hear([P[1], P[7]])
    assert not closed, "a statement that is repeated, or of a party outside the cluster, adds nothing"
    one, closed = one.hear([P[2]])
    assert closed == {MODEL: (tuple(P[:5]),)}
    assert not one.drawn


def test_no_cluster_closes_at_a_threshold_that_colluders_reach() -> None:
    assert silent_members(2, 2) == -1
    one = UnresolvedRound("run", 0, {MODEL: (tuple(P[:3]),)}, silent_members(2, 2), frozenset(P))
    assert one.hear(P)[1] == {}


def test_own_clusters_block_a_model_and_those_of_others_do_not() -> None:
    one = UnresolvedRound("run", 0, {MODEL: (tuple(P[1:4]),), OTHER: (tuple(P[:3]),)}, 1, frozenset({ME}))
    assert unresolved_models([one], ME) == {OTHER}
    assert doubtful_members([one], ME) == {MODEL: set(P[1:4])}


def test_sums_are_judged_without_the_updates_that_may_be_known() -> None:
    limits = LeakageLimits(group=2)
    now = {MODEL: (tuple(P[0:4]), tuple(P[4:8]))}
    assert not crossed_together(NOTHING_GIVEN, now, limits, b"seed")
    two_known = {MODEL: frozenset(P[1:3])}
    assert not crossed_together(NOTHING_GIVEN, now, limits, b"seed", two_known)
    three_known = {MODEL: frozenset(P[1:4])}
    assert {one.party for one in crossed_together(NOTHING_GIVEN, now, limits, b"seed", three_known)} == {ME}
    assert not crossed_together(NOTHING_GIVEN, now, limits, b"seed", {OTHER: frozenset(P[1:4])})
