"""Privacy budgets: a party releases no more than it may, whoever asks, and everybody counts alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from securefl.base.ids import SERVER, PartyId
from securefl.protocol.kernel.effects import Aborted, Finished
from securefl.protocol.kernel.events import Place
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Invite
from securefl.protocol.round.party.draw import on_invite
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import Idle, ModelReceived, PartyContext, PartyHistory
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.shared.budget import (
    NO_RELEASES,
    add_round,
    is_spent,
    reason_to_end,
    spent_parties,
)
from securefl.protocol.round.shared.reports import RoundDone, SatOut
from securefl.protocol.round.shared.statement import model_digest
from securefl.scenario.scenario import Scenario
from tests.simulation.world import World, scenario
from tests.unit.round.samples import plan_of
from tests.unit.simulation.test_against_machines import assert_same

PRIVATE = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "privacy__budget": "9",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "9",
}


def private(parties: int = 6, releases: int = 2, **sets: str) -> Scenario:
    return scenario(parties, **{**PRIVATE, "privacy__releases": str(releases), **sets})


def submitted(world: World, before: int = 99) -> Counter[PartyId]:
    """In how many rounds each party's masked input left."""
    rounds = {(s.sender, s.place.round) for s in world.sent if isinstance(s.message, MaskedInput)}
    return Counter(sender for sender, round_ in rounds if round_ < before)


def context(world: World, name: PartyId) -> PartyContext:
    machine = world.nodes[name].machine
    assert isinstance(machine, PartyMachine)
    return machine._ctx


def ended(world: World) -> Finished | Aborted | None:
    return world.server.outcome


def test_when_all_budgets_are_spent_the_run_is_over() -> None:
    world = World(private(rounds="5")).run()
    assert submitted(world) == dict.fromkeys(world.parties, 2)
    assert len(world.reports(RoundDone)) == 2
    outcome = ended(world)
    assert isinstance(outcome, Finished)
    assert "0 parties have privacy budget left" in outcome.reason


def test_parties_leave_one_by_one_where_few_are_drawn() -> None:
    # By chance all may run out together: 2 of 12 seeds, of which four in a row will not be.
    config = private(9, releases=4, rounds="24", participation__count="6")
    worlds = (World(config, seed=seed).run() for seed in range(4))
    world = next(world for world in worlds if min(submitted(world).values()) < 4)
    assert max(submitted(world).values()) == 4
    outcome = ended(world)
    assert isinstance(outcome, Finished)
    assert "parties have privacy budget left" in outcome.reason
    sat_out = [r.reason for p in world.parties for r in world.reports(SatOut, p)]
    assert any("privacy budget is spent: 4 of 4 releases" in reason for reason in sat_out)


def test_new_work_spends_a_release_for_each_reclustering() -> None:
    world = World(private(releases=5, rounds="4", reclusterings="2", clustering__new_work="true")).run()
    assert submitted(world) == dict.fromkeys(world.parties, 2), "4 of 5 releases, and 6 would be too many"


def test_a_party_refuses_whatever_the_server_asks() -> None:
    """From its own count: the server may have forgotten, or lie."""
    plan = plan_of(private(rounds="9"))
    world = World(private(rounds="9"))
    ctx = context(world, PartyId("p00"))
    server = world.server.machine
    assert isinstance(server, ServerMachine)
    params = server._ctx.initial
    config = ctx.plan.config_digest()
    invite = Invite(model_digest=model_digest(params), config_digest=config, excluded=())
    for made, takes_part in ((0, True), (1, True), (2, False), (7, False)):
        phase = ModelReceived(PartyHistory(4, made), 5, params, model_digest(params))
        after, effects = on_invite(ctx, phase, Place(5), invite)
        assert isinstance(after, Idle) == (not takes_part)
        if not takes_part:
            assert after == Idle(PartyHistory(5, made))
            assert len(effects) == 1
    assert plan.scenario.privacy.releases == 2


def test_a_restarted_party_goes_on_with_what_its_journal_says() -> None:
    world = World(private(rounds="4"))
    node = world.nodes[PartyId("p02")]
    node.machine = PartyMachine(replace(context(world, node.name), releases=1))
    world.run()
    assert submitted(world)[PartyId("p02")] == 1
    assert submitted(world)[PartyId("p03")] == 2


@pytest.mark.parametrize(("own", "made"), [(1, 1), (2, 2), (9, 2), (None, 2)])
def test_a_partys_own_budget_counts_where_it_is_less(own: int | None, made: int) -> None:
    world = World(private(rounds="3"))
    mine = PartyId("p02")
    node = world.nodes[mine]
    node.machine = PartyMachine(replace(context(world, mine), own_budget=own))
    world.run()
    assert submitted(world)[mine] == made
    assert submitted(world)[PartyId("p03")] == 2, "the run goes on without it"
    if made < 2:
        reasons = {report.reason for report in world.reports(SatOut, mine)}
        assert reasons == {"its privacy budget is spent: 1 of 1 releases are made"}


def test_counting() -> None:
    plan = plan_of(private())
    a, b = PartyId("p00"), PartyId("p01")
    once = add_round(plan, NO_RELEASES, (a, b))
    twice = add_round(plan, once, (a,))
    assert dict(twice) == {a: 2, b: 1}
    assert dict(once) == {a: 1, b: 1}
    assert spent_parties(plan, twice) == {a}
    assert [is_spent(plan, made) for made in (0, 1, 2, 3)] == [False, False, True, True]
    assert reason_to_end(plan, twice) is None
    unlimited = plan_of(scenario(6, **{**PRIVATE, "privacy__budget": ""}))
    assert not is_spent(unlimited, 10**6)
    public = plan_of(scenario(6))
    assert add_round(public, NO_RELEASES, (a,)) is NO_RELEASES


@pytest.mark.parametrize("server", ["curious", "active"])
def test_a_simulation_leaves_out_the_same_parties(server: str) -> None:
    """With the noise, to the bits of the machines."""
    config = private(
        9,
        rounds="6",
        participation__count="6",
        server=server,
        threshold="2",
        secure_sum__k_anonymity="2",
    )
    lab = assert_same(config, {})
    assert lab.server.name == SERVER
    assert 2 <= len(lab.rounds_done()) <= 4
