"""The odds that headers print, against draws that a server steers and real machines take part in."""

from __future__ import annotations

import numpy as np
import pytest

from securefl.base.arrays import F32
from securefl.base.ids import SERVER, PartyId, RunId
from securefl.methods.attacks.assignment import party_names
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.kernel.events import Received
from securefl.protocol.kernel.machine import Event
from securefl.protocol.messages import AnyMessage
from securefl.protocol.messages.masking import MaskedInput, Receipt
from securefl.protocol.messages.rounds import Hello, Invite, Reveal
from securefl.protocol.round.party.draw import MAX_REDRAWS
from securefl.protocol.round.server.gather import invite
from securefl.protocol.round.server.machine import ServerMachine
from securefl.protocol.round.server.phases import CollectingHellos, CollectingNonces, ServerPhase, Summing
from securefl.protocol.round.shared.draw import draw_round
from securefl.protocol.round.shared.reports import ClustersDrawn, RoundDone, RunEffect, SumOpened
from tests.simulation.odds_game import SETTINGS, Setting, Table, measured, told, wins
from tests.simulation.world import World
from tests.tiers import sampled

FEW = next(one for one in SETTINGS if one.name == "few parties")


@pytest.mark.parametrize("one", sampled(SETTINGS, SETTINGS[::3]), ids=lambda one: one.name)
def test_machines_agree_with_what_is_printed(one: Setting) -> None:
    assert measured(one, one.draws).agrees


@pytest.mark.paper
@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.name)
def test_many_draws_agree_too(one: Setting) -> None:
    assert measured(one, one.paper).agrees


def test_machines_tell_these_odds_from_those_of_chance() -> None:
    """The second row as headers once had it, all mates among a quorum: 2.5 % a draw, 40 % in the run."""
    assert measured(SETTINGS[1], 60).low > 0.025


def test_three_draws_and_no_fourth() -> None:
    """The victim goes along with an invitation that names nobody, until it has revealed three nonces."""
    table = Table(FEW.scenario, RunId("odds"), told(FEW)[2], {}, 1)
    table.begin(0)
    for number in range(MAX_REDRAWS + 1):
        table.draw(0, number)
    with pytest.raises(ValueError, match="not enough values"):
        table.draw(0, MAX_REDRAWS + 1)


class Plays:
    """The server's machine, which announces, voids and loses as suits it, and names nobody for it."""

    def __init__(self, machine: ServerMachine, world: World, victim: PartyId, present: int) -> None:
        self._machine = machine
        self._context = machine._ctx
        self.victim = victim
        names = party_names(world.scenario.parties)
        self.accomplices = frozenset(names[: world.scenario.secure_sum.colluders])
        self._announced = {*names[: present - 1], victim}
        self._lost: set[PartyId] = set()
        self.won: list[int] = []
        """Rounds in which a draw leaves the victim to it."""

    def start(self, now: float) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        return self._machine.start(now)

    def step(self, phase: ServerPhase, event: Event[AnyMessage]) -> tuple[ServerPhase, tuple[RunEffect, ...]]:
        if not isinstance(event, Received):
            return self._machine.step(phase, event)
        said = event.message
        if (
            isinstance(phase, CollectingHellos)
            and isinstance(said, Hello)
            and event.sender not in self._announced
        ):
            return phase, ()
        if (
            isinstance(phase, Summing)
            and isinstance(said, MaskedInput | Receipt)
            and event.sender in self._lost
        ):
            return phase, ()
        if isinstance(phase, CollectingNonces) and isinstance(said, Reveal):
            again = self._judged(phase, event.sender, said)
            if again:
                standing = phase.standing
                return invite(self._context, standing, phase.draw + 1, phase.model, frozenset(), event.now)
        return self._machine.step(phase, event)

    def _judged(self, phase: CollectingNonces, sender: PartyId, said: Reveal) -> bool:
        """Whether the draw is to be voided, once all nonces are known."""
        nonces = {name: reveal.nonce for name, (reveal, _) in phase.reveals.items()} | {sender: said.nonce}
        if nonces.keys() != phase.hellos.keys():
            return False
        plan, samples = self._context.plan, {name: hello.samples for name, hello in phase.hellos.items()}
        drawn = draw_round(plan, phase.standing.round, phase.draw, phase.model, nonces, samples)
        lost = wins(plan, drawn.assignment, self.accomplices, self.victim)
        self._lost = lost or set()
        if lost is not None:
            self.won.append(phase.standing.round)
        return lost is None and phase.draw < MAX_REDRAWS


@pytest.mark.parametrize("name", ["few parties", "pairs", "most collude"])
def test_what_counts_as_won_opens_the_victims_update(name: str) -> None:
    """Whole rounds: the sum of its cluster, less what colluders know, is its update up to rounding."""
    one = next(each for each in SETTINGS if each.name == name)

    def worth(party: PartyId, round_: int) -> float:
        return (1 + int(party[1:]) + 32 * round_) / 64

    def learn(party: PartyId, round_: int, params: F32) -> F32:
        return params + np.float32(worth(party, round_))

    world = World(one.scenario, train=learn)
    victim = party_names(one.scenario.parties)[-1]
    node = world.nodes[SERVER]
    assert isinstance(node.machine, ServerMachine)
    node.machine = server = Plays(node.machine, world, victim, told(one)[2])
    world.run()
    assert isinstance(node.outcome, Finished)
    rounds = one.scenario.stop.rounds
    assert len(world.reports(RoundDone)) == len(world.reports(ClustersDrawn)) == rounds
    opened = {
        done.round: done.opened
        for done in world.reports(SumOpened)
        if victim in done.opened.survivors and {*done.opened.survivors} <= {victim, *server.accomplices}
    }
    # No party was named for a nonce that did not come; each colluder is there in every draw.
    assert {invite.excluded for invite in world.messages(Invite)} == {()}
    assert list(opened) == server.won
    assert server.won
    for round_, held in opened.items():
        known = sum(worth(party, round_) for party in held.survivors if party != victim)
        update = from_ring(held.ring) / 2.0**one.scenario.encoding.scale_bits - known
        np.testing.assert_allclose(update, worth(victim, round_), rtol=0, atol=1e-3)
