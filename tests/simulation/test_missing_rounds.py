"""Rounds that took updates and are missing from the chain: parties count them, and leave by themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from securefl.base.ids import SERVER
from securefl.protocol.kernel.effects import Aborted, Enter, Finished, RoundMissing, Send
from securefl.protocol.messages.verification import OpeningProof, StepProof
from securefl.protocol.round import walk
from securefl.protocol.round.server import opening
from securefl.protocol.round.shared.missing import WINDOW, WITHIN
from securefl.protocol.round.shared.reports import RunEffect, SharesReleased
from tests.seen import patch_seen
from tests.simulation.lying import distinct, verified
from tests.simulation.world import Node, Op, World
from tests.tiers import sampled


class Endless(World):
    """A run whose server neither proves the rounds in ``void`` nor ends the run for want of updates.

    The round after each of them is skipped, before it is announced: no verifier confirms its model.
    """

    def __init__(self, void: Iterable[int], rounds: int = 12, ops: Iterable[Op] = ()) -> None:
        super().__init__(verified(rounds=str(rounds), leakage__mode='"report"'), train=distinct, ops=ops)
        self.void = frozenset(void)
        self.entered: dict[str, list[int]] = {name: [] for name in self.parties}
        self.observers.append(self._enter)
        self.server.seam = self._keep_back

    def _enter(
        self, node: Node, _was: object, _event: object, _is: object, effects: Iterable[RunEffect]
    ) -> None:
        for effect in effects:
            if isinstance(effect, Enter) and isinstance(effect.entry, RoundMissing):
                self.entered[node.name].append(effect.entry.round)

    def _keep_back(self, _event: object, effects: tuple[RunEffect, ...]) -> tuple[RunEffect, ...]:
        return tuple(
            effect
            for effect in effects
            if not (
                isinstance(effect, Send)
                and isinstance(effect.message, OpeningProof | StepProof)
                and effect.place.round in self.void
            )
        )

    def run(self) -> World:
        honest = walk.decide_end

        def again(plan: Any, standing: Any, done: Any) -> Any:
            return honest(plan, replace(standing, rounds_without_update=0, updates=1), done)

        with patch_seen(opening, "decide_end", again):
            return super().run()

    @property
    def released(self) -> set[int]:
        """Rounds in which any party released shares."""
        return {out.round for name in self.parties for out in self.reports(SharesReleased, name)}


def test_parties_leave_after_three_missing_rounds_in_a_row() -> None:
    world = Endless(void=range(2, 12))
    world.run()
    for name in world.parties:
        outcome = world.nodes[name].outcome
        assert isinstance(outcome, Aborted), outcome
        assert outcome.reason == "3 rounds in a row took its updates and are missing from the server's chain"
        assert world.entered[name] == [2, 4, 6]
    assert world.released == {0, 1, 2, 4, 6}


def test_parties_leave_after_ten_missing_rounds_of_thirty() -> None:
    """Two of three rounds are missing, so that never three in a row are."""
    world = Endless(void=[r for r in range(40) if r % 5 in {1, 3}], rounds=40)
    world.run()
    for name in world.parties:
        outcome = world.nodes[name].outcome
        assert isinstance(outcome, Aborted), outcome
        counted = f"{WITHIN} of {WINDOW} rounds"
        assert outcome.reason == f"{counted} took its updates and are missing from the server's chain"
        assert world.entered[name] == [1, 3, 6, 8, 11, 13, 16, 18, 21, 23]


def test_rounds_that_statements_refund_do_not_count() -> None:
    crashes = [Op("restart", SERVER, "BindingFreeze", nth) for nth in range(5)]
    world = Endless(void=(), rounds=8, ops=crashes)
    world.run()
    assert world.starts == 6
    assert isinstance(world.server.outcome, Finished), world.server.outcome
    for name in world.parties:
        assert isinstance(world.nodes[name].outcome, Finished), world.nodes[name].outcome
        assert world.entered[name] == []


@pytest.mark.parametrize("void", sampled([(), (1,), (1, 3), (1, 3, 6, 8)], [(), (1, 3, 6, 8)]))
def test_fewer_missing_rounds_end_nothing(void: tuple[int, ...]) -> None:
    world = Endless(void, rounds=12)
    world.run()
    for name in world.parties:
        assert isinstance(world.nodes[name].outcome, Finished), world.nodes[name].outcome
        assert world.entered[name] == [*void]
