"""A server that sends one model in every round, and solves the sums for each party's mean update.

Its clusters are certified and random, its sums exact, its parties honest: all that it does is to send the
model again. Training is real, in batches of 32 drawn anew. A server that changes one bit of the model does
not repeat it, and is not stopped here: that takes verified rounds (docs/threat-model.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from securefl.base.arrays import F32, F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId, RunId
from securefl.methods.encoding.ring import from_ring
from securefl.methods.leakage.unresolved import NOTHING_GIVEN, Given
from securefl.protocol.kernel.effects import Enter
from securefl.protocol.round import walk
from securefl.protocol.round.party.machine import PartyMachine
from securefl.protocol.round.party.phases import PartyContext
from securefl.protocol.round.server import opening as server_open
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import RoundDone, SatOut, SumOpened
from securefl.runtime.account.file import AccountFile, begin_account
from securefl.runtime.account.head import AccountHead
from securefl.runtime.account.run_account import OpenAccount, OwnData
from securefl.training.data.shards import Shard
from securefl.training.models.catalogue import build_model
from securefl.training.models.device import limit_threads
from securefl.training.models.flatten import dimension
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd.trainer import LocalTrainer
from tests.seen import patch_seen
from tests.simulation import world as tests_world
from tests.simulation.world import World, scenario
from tests.tiers import sampled

PARTIES = 20
CLASSES, FEATURES = 10, 64
MODULE = build_model(Softmax(), (FEATURES,), CLASSES, 0)
D = dimension(MODULE)
CPU = torch.device("cpu")
NEARLY_KNOWN = 0.3
"""Relative error of a party's mean update below which it counts as known."""


def shards() -> dict[PartyId, Shard]:
    """Digits of two classes for each party, no two parties the same two: their updates differ."""
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
    pairs = list(itertools.combinations(range(CLASSES), 2))[:: 45 // PARTIES][:PARTIES]
    turn = np.arange(len(y)) % PARTIES
    found = {}
    for k, pair in enumerate(pairs):
        own = np.isin(y, pair) & ((turn - k) % PARTIES < PARTIES // 4)
        found[PartyId(f"p{k:02}")] = Shard(x[own], y[own], CLASSES, (FEATURES,))
    return found


class Repeater(World):
    """A federation whose server sends its first model again and again, whatever was learned.

    With ``accounts`` each party keeps its own in that folder, and all start again after the fourth round.
    """

    def __init__(self, batch: str = "32", number: int = 0, accounts: Path | None = None, **sets: str) -> None:
        config = scenario(PARTIES, training__batch_size=batch, **{"size": "4", "rounds": "20"} | sets)
        limit_threads()
        data = shards()
        trainers = {name: LocalTrainer(MODULE, own, config.training, CPU) for name, own in data.items()}
        self.updates: dict[tuple[PartyId, int], F64] = {}
        self.books: dict[PartyId, OpenAccount] = {}
        self._files: list[AccountFile] = []
        self._samples = data
        self._accounts = accounts

        def train(name: PartyId, round_: int, params: F32) -> F32:
            after = trainers[name].train(params, InsecureSeededEntropy(100 * number + round_).child(name))
            self.updates[name, round_] = after.astype(np.float64) - params
            return after

        self.start = np.random.default_rng(17).normal(0, 0.01, D).astype(np.float32)
        given = self._given if accounts else lambda _plan, _name: NOTHING_GIVEN
        super().__init__(config, length=D, train=train, initial=self.start, given=given)
        self.observers.append(self._enter)

    def _given(self, plan: RunPlan, name: PartyId) -> Given:
        """What the party's account knows, opened as a process of its own would."""
        assert self._accounts is not None
        path, owner = self._accounts / f"{name}.account", plan.roster.parties[name]
        if not path.exists():
            begin_account(path, owner)
        file = AccountFile(path, owner, AccountHead(path.with_suffix(".tip")))
        self._files.append(file)
        self.books[name] = OpenAccount(file, plan, OwnData.of(self._samples[name]))
        return self.books[name].given

    def _enter(self, node: Any, _was: object, _event: object, _is: object, effects: Iterable[object]) -> None:
        for effect in effects:
            if isinstance(effect, Enter) and node.name in self.books:
                self.books[node.name].enter(effect.entry)

    def close(self) -> None:
        """End all parties' processes."""
        for file in self._files:
            file.close()
        self._files.clear()

    def _start_again(self) -> None:
        self.close()
        for name in self.parties:
            node, own = self.nodes[name], self.entropy_of(name)
            given = self._given(self.plan, name)
            spent = max(self.books[name].rounds)
            node.machine = PartyMachine(
                PartyContext(self.plan, name, 10, own, last_spent_round=spent, released_sums=given)
            )
            node.phase, effects = node.machine.start(self.now)
            self._perform(node, effects)

    def run(self) -> World:
        honest = walk.decide_end

        def again(plan: Any, standing: Any, done: Any) -> Any:
            after, outcome = honest(plan, replace(standing, rounds_without_update=0, updates=1), done)
            if self._accounts and after.round == 4:
                self._start_again()
            return replace(after, params=self.start), outcome

        with patch_seen(server_open, "decide_end", again):
            return super().run()

    def opened(self) -> list[tuple[int, frozenset[PartyId], F64]]:
        """Round, members and the sum of their updates, of all that the server opened."""
        scale = 2.0**self.plan.scenario.encoding.scale_bits
        return [
            (one.round, frozenset(one.opened.survivors), from_ring(one.opened.ring) / scale)
            for one in self.reports(SumOpened)
        ]


def errors(
    opened: Iterable[tuple[int, frozenset[PartyId], F64]], updates: Mapping[tuple[PartyId, int], F64]
) -> dict[PartyId, float]:
    """Relative error of the least squares estimate of each party's mean update: the server's best guess.

    It knows the mean of all, and looks for what tells each from it.
    """
    rows = list(opened)
    names = sorted({name for name, _ in updates})
    truth = {n: np.mean([u for (who, _), u in updates.items() if who == n], axis=0) for n in names}
    if not rows:
        return dict.fromkeys(names, 1.0)
    matrix = np.array([[float(n in members) for n in names] for _, members, _ in rows])
    sums = np.array([total for *_, total in rows])
    mean = sums.sum(axis=0) / matrix.sum()
    found = mean + np.linalg.pinv(matrix, rcond=1e-9) @ (sums - matrix.sum(axis=1, keepdims=True) * mean)
    return {
        n: float(np.linalg.norm(row - truth[n]) / np.linalg.norm(truth[n]))
        for n, row in zip(names, found, strict=True)
    }


def server_finds(world: Repeater) -> dict[PartyId, float]:
    return errors(world.opened(), world.updates)


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "error"), [("32", 0.03), ("1000000", 0.002)])
def test_without_limits_everybodys_mean_update_is_found(batch: str, error: float) -> None:
    world = Repeater(batch, leakage__mode='"report"')
    world.run()
    assert len(world.opened()) == 100
    assert max(server_finds(world).values()) < error


@pytest.mark.parametrize("server", sampled(["curious", "active"], ["active"]))
def test_parties_stop_before_anybodys_is(server: str) -> None:
    world = Repeater(server=server, min_survivors="3", threshold="3", clustering__atoms="1", rounds="10")
    world.run()
    rounds = {round_ for round_, *_ in world.opened()}
    assert 1 <= len(rounds) <= 3
    assert min(server_finds(world).values()) > NEARLY_KNOWN
    for name in world.parties:
        reasons = [out.reason for out in world.reports(SatOut, name)]
        assert len(reasons) == 10 - len(rounds)
        assert all("with sums of earlier rounds or runs on the same model" in reason for reason in reasons)
        assert not world.nodes[name].rejects, "an honest server repeats a model, too"


@pytest.mark.slow
def test_three_run_ids_and_two_restarts_in_each_are_one_account(tmp_path: Path) -> None:
    opened: list[tuple[int, frozenset[PartyId], F64]] = []
    updates: dict[tuple[PartyId, int], F64] = {}
    for number in range(3):
        with patch.object(tests_world, "RUN", RunId(f"run-{number}")):
            world = Repeater(number=number, rounds="7", accounts=tmp_path)
            world.run()
            world.close()
        opened += world.opened()
        updates |= {(name, 7 * number + round_): u for (name, round_), u in world.updates.items()}
        assert bool(world.opened()) == (number == 0)
    assert min(errors(opened, updates).values()) > NEARLY_KNOWN


@pytest.mark.slow
def test_without_accounts_three_runs_find_everybodys() -> None:
    """Parties whose memory ends with a run: each run stops in time, and together they say it all."""
    opened: list[tuple[int, frozenset[PartyId], F64]] = []
    updates: dict[tuple[PartyId, int], F64] = {}
    for number in range(3):
        with patch.object(tests_world, "RUN", RunId(f"run-{number}")):
            world = Repeater(number=number, rounds="7")
            world.run()
        opened += world.opened()
        updates |= {(name, 7 * number + round_): u for (name, round_), u in world.updates.items()}
    assert max(errors(opened, updates).values()) < 0.2


def test_noise_that_is_accounted_for_in_each_round_needs_no_limit() -> None:
    """It is fresh, and rounds that checks leave without an update must not end a run."""
    world = Repeater(
        rounds="4",
        encoding__clip="1.0",
        encoding__scale_bits="12",
        privacy__unit="party",
        privacy__multiplier="0.5",
        privacy__delta="0.04",
    )
    world.run()
    assert {round_ for round_, *_ in world.opened()} == {0, 1, 2, 3}
    assert min(server_finds(world).values()) > NEARLY_KNOWN


def test_models_that_move_on_cost_nothing() -> None:
    """What an honest federation does: each round has a model of its own, and nobody sits out."""
    world = Repeater(rounds="6")
    World.run(world)
    assert [len(done.opened) for done in world.reports(RoundDone)] == [5] * 6
    assert not any(world.reports(SatOut, name) for name in world.parties)
