"""Parties of a verified run that are all started again: the chain goes on from where it was (ADR 0044)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import numpy as np

from securefl.base.arrays import F32
from securefl.base.ids import PartyId
from securefl.protocol.kernel import ROOT
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.server import opening
from securefl.protocol.round.server.gather import begin_round
from securefl.protocol.round.shared.chain import Attested
from securefl.protocol.round.shared.reports import ClaimConfirmed
from tests.seen import patch_seen
from tests.simulation.lying import Trained, distinct, verified
from tests.simulation.test_verified_rounds import START, P
from tests.simulation.world import Node, World

BACK = 2
"""The round before which they are started again."""
HONEST = P[:9]
LATE = P[9]
"""Honest, and there from that round on only."""
COLLUDING = P[10:]


def again(world: World, node: Node, *, forgets: bool = False) -> None:
    """The party with what its journal holds, as a process that was started again."""
    ctx = cast("Any", node.machine)._ctx
    roots = [(at, step.removeprefix(ROOT)) for at, step in node.journal if step.startswith(ROOT)]
    spent = max((at for at, step in node.journal if not step.startswith(ROOT)), default=-1)
    (rooted, root) = (-1, "") if forgets or not roots else roots[-1]
    node.machine = PartyMachine(
        replace(ctx, root=bytes.fromhex(root), root_round=rooted, last_spent_round=spent)
    )
    node.phase, _ = node.machine.start(world.now)


def restarted(*, goes_back: bool) -> tuple[World, set[Trained]]:
    """A run of four rounds. ``goes_back``: to the first model, for which the late party vouches, too."""
    trained: set[Trained] = set()

    def train(party: PartyId, round_: int, params: F32) -> F32:
        trained.add((party, round_, params.tobytes()))
        return distinct(party, round_, params)

    world = World(verified(rounds="4", leakage__mode='"report"'), length=16, train=train)
    world.nodes[LATE].alive = False
    start = np.zeros(16, dtype=np.float32)
    first = world.first_link(start)
    assert first is not None

    def begin(ctx: Any, standing: Any, now: float) -> Any:
        if standing.round == BACK:
            world.nodes[LATE].alive = True
            for name in HONEST:
                again(world, world.nodes[name])
            for name in COLLUDING if goes_back else ():
                again(world, world.nodes[name], forgets=True)
            if goes_back:
                moments = np.zeros((1, 16))
                standing = replace(
                    standing,
                    params=start,
                    moments=moments,
                    claims=replace(standing.claims, chain=Attested(first), pending=None),
                )
        return begin_round(ctx, standing, now)

    with patch_seen(opening, "begin_round", begin):
        world.run()
    return world, trained


def models(trained: Collection[Trained], round_: int) -> set[bytes]:
    return {params for party, at, params in trained if at == round_ and party in HONEST}


def test_nobody_goes_back_to_an_earlier_link_that_more_than_q_vouch_for() -> None:
    """One who was never there states the first model truly, and q colluders with it."""
    world, trained = restarted(goes_back=True)
    assert models(trained, 0) == {START}
    assert START not in models(trained, 1), "it made a model, to be gone back from"
    assert not models(trained, 2) | models(trained, 3)
    for name in HONEST:
        assert any("an earlier state" in one.reason for one in world.nodes[name].rejects)


def test_they_go_on_from_the_link_in_their_journals() -> None:
    """What was claimed last is void: nobody is left who could attest it."""
    world, trained = restarted(goes_back=False)
    assert models(trained, 3) == models(trained, 1) == {world.models[3].tobytes()}
    assert START not in models(trained, 3)
    assert [one.round for one in world.reports(ClaimConfirmed)] == [0, 3]
