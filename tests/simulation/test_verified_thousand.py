"""Verified rounds of a thousand parties with real machines, one process, a committee of those drawn."""

from __future__ import annotations

import pytest

from securefl.base.ids import PartyId
from securefl.methods.clustering.committee import (
    attests_needed,
    committee_failure,
    committee_size,
)
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.messages.verification import Attest, OpeningProof, StepProof
from securefl.protocol.round.shared.reports import ClaimConfirmed, LinkFollowed
from securefl.scenario.scenario import Scenario
from tests.simulation.lying import distinct
from tests.simulation.world import World, scenario


def many(parties: int, rounds: int) -> Scenario:
    """Clusters of ten, a tenth of all parties colluding, at most three of them in a cluster."""
    return scenario(
        parties,
        size="10",
        threshold="7",
        min_survivors="7",
        server="active",
        rounds=str(rounds),
        secure_sum__verify='"committee"',
        secure_sum__colluders=str(parties // 10),
        secure_sum__colluders_per_cluster="3",
    )


def confirmed_by_a_committee(parties: int, rounds: int) -> None:
    """Every round is attested by f + 1 of each cluster and a quorum of a committee, and followed by all."""
    made = many(parties, rounds)
    world = World(made, length=16, train=distinct).run()
    names, size = world.parties, committee_size(made)
    assert isinstance(world.server.outcome, Finished)
    assert [one.round for one in world.reports(ClaimConfirmed)] == list(range(rounds))
    assert not [refused for name in names for refused in world.nodes[name].rejects]
    assert committee_failure(made) <= 1e-6
    assert size < 2 * (parties // 10) + 1, "as few as the odds allow"
    asked: dict[int, set[PartyId]] = {}
    for one in world.sent:
        if isinstance(one.message, StepProof):
            asked.setdefault(one.place.round, set()).add(one.to)
    assert [len(members) for members in asked.values()] == [size] * rounds
    attested = [one for one in world.sent if isinstance(one.message, Attest)]
    for round_ in range(rounds):
        steps = {one.sender for one in attested if one.place.round == round_ and one.place.reclustering < 0}
        assert steps <= asked[round_]
        assert len(steps) >= attests_needed(made, size)
    assert len(world.messages(OpeningProof)) == rounds * parties // 10 * 8, "2 f + 2 of each cluster"
    for name in names:
        assert [one.round for one in world.reports(LinkFollowed, name)] == list(range(rounds - 1))


@pytest.mark.slow
def test_two_hundred() -> None:
    confirmed_by_a_committee(200, 2)


@pytest.mark.paper
def test_a_thousand() -> None:
    confirmed_by_a_committee(1_000, 2)
