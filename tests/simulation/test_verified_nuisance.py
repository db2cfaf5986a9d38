"""How much of a verified run Byzantine parties can take from the others: a round each at most (ADR 0044)."""

from __future__ import annotations

from securefl.base.ids import PartyId
from securefl.protocol.kernel.effects import Finished, Send
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.messages.verification import Attest
from securefl.protocol.round.shared.reports import ClustersDrawn, RoundDone, RunEffect
from securefl.scenario.scenario import Scenario
from tests.simulation.lying import Followed, distinct, followed, kept_evidence, verified
from tests.simulation.test_blame import another_secret
from tests.simulation.test_verified_rounds import P
from tests.simulation.world import World, scenario

OPEN_ALL = {"leakage__mode": '"report"'}
"""Else the ledger keeps rounds closed that begin with the model of a void one: twelve parties are few."""


def test_who_shares_a_wrong_secret_costs_one_round_and_is_asked_no_more() -> None:
    with another_secret(P[3], 0):
        run = followed(verified(rounds="4", **OPEN_ALL))
    assert isinstance(run.world.server.outcome, Finished)
    assert [one.culprit for one in kept_evidence(run.world)] == ["p03"]
    assert [round_ for round_, _ in run.refused] == [0]
    assert run.confirmed == [1, 2, 3]
    taking_part = [done.participants for done in run.world.reports(RoundDone)]
    assert P[3] in taking_part[0]
    assert all(P[3] not in parties for parties in taking_part[1:])


def test_several_of_them_do_not_end_the_run() -> None:
    """Four rounds in a row are void, where three would end it; each names another liar."""
    made = verified(rounds="6", secure_sum__colluders="1", **OPEN_ALL)
    with another_secret(P[0], 0), another_secret(P[1], 0), another_secret(P[2], 0), another_secret(P[3], 0):
        run = followed(made)
    assert isinstance(run.world.server.outcome, Finished)
    named = {one.culprit for one in kept_evidence(run.world)}
    assert named <= {"p00", "p01", "p02", "p03"}
    assert run.confirmed == list(range(len(run.refused), 6))
    assert run.confirmed, "each void round costs a liar its place"


def twenty() -> Scenario:
    return scenario(
        20,
        size="10",
        threshold="7",
        min_survivors="7",
        server="active",
        rounds="2",
        secure_sum__verify='"committee"',
        secure_sum__colluders="3",
        secure_sum__colluders_per_cluster="3",
    )


def silent(_event: Event[AnyMessage], effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
    """A colluder's seam: it attests nothing."""
    return tuple(one for one in effects if not (isinstance(one, Send) and isinstance(one.message, Attest)))


def test_f_silent_verifiers_in_a_cluster_cost_no_round() -> None:
    """It takes the word of f + 1 = 4; the server asks 2 f + 2 = 8, of whom three say nothing."""
    (drawn,) = [one for one in followed(twenty()).world.reports(ClustersDrawn) if one.round == 0]
    mute = drawn.clusters[0][0][:3]
    world = World(twenty(), length=16, train=distinct)
    for name in mute:
        world.nodes[PartyId(name)].seam = silent
    world.run()
    assert Followed(world, set()).confirmed == [0, 1]
