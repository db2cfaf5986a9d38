"""The case of certificates that are shown in turn: no party's mean update becomes known."""

from __future__ import annotations

import pytest

from securefl.base.ids import PartyId
from tests.cases.unreleased import Setting, played
from tests.simulation.test_repeated_model import NEARLY_KNOWN
from tests.tiers import sampled

LIAR = frozenset({PartyId("p00")})


@pytest.mark.parametrize(
    "setting",
    [
        Setting(5, 3, in_turn=False),
        Setting(5, 3),
        Setting(10, 6, 1, 1, "committee", rounds=40),
        Setting(10, 6, 1, 1, liars=LIAR),
        Setting(5, 4, 1, 1, liars=LIAR),
    ],
    ids=["shown to all", "in turn", "verified, in turn", "a liar of ten", "a liar of five"],
)
def test_no_mean_update_becomes_known(setting: Setting) -> None:
    result = played(setting)
    assert result.rounds, "the attack opens nothing at all: the case shows nothing"
    assert result.error >= NEARLY_KNOWN
    assert len(result.rounds) <= 3
    verified = setting.verify != "off"
    assert len(result.left) == (len(result.world.parties) if verified else 0), (
        "parties leave where a chain is missing"
    )


@pytest.mark.parametrize("clusters", sampled([1, 2, 3], [1]))
def test_sums_of_others_count_where_only_some_clusters_are_opened(clusters: int) -> None:
    """Mates state truthfully that they released nothing; other clusters may be open all the same."""
    result = played(Setting(5, 3, rounds=30, clusters=clusters, whole=True))
    assert result.rounds
    assert result.error >= 0.4, "0.31 where statements of mates alone refund a round"
