"""Privacy on: simulated rounds against the machines, both with seeded entropy and real DP-SGD, bit for bit.

As in :mod:`tests.unit.simulation.test_against_machines`, with the local training, noise, checks and server's
data of a run.
"""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from securefl.base.ids import PartyId
from securefl.methods.attacks.assignment import behaviours_of, party_names
from securefl.protocol.kernel.effects import Finished, Train
from securefl.protocol.kernel.events import Trained
from securefl.protocol.round.shared.randomness import training_entropy
from securefl.protocol.round.shared.reports import RoundDone, SumChecked, SumOpened
from securefl.runtime.misbehaviour.assignment import party_behaviour
from securefl.runtime.misbehaviour.seam import Action
from securefl.runtime.simulation.federation import SimulatedFederation, assemble
from securefl.scenario.behaviours import Phase
from securefl.scenario.load import parse_scenario
from securefl.training.data.datasets import load_data
from securefl.training.data.shards import shards_of
from securefl.training.data.split import split
from securefl.training.models.catalogue import build_model
from securefl.training.rounds import ShardTrainer
from tests.simulation.world import RUN, Node
from tests.unit.misbehaviour.lab import Lab
from tests.unit.simulation.test_against_machines import assert_ends_alike

SEED = 1
BASE = """
name = "private"
parties = 8
[data]
set = "digits"
train_limit = 240
test_limit = 60
[model]
type = "mlp"
hidden = [8]
[training]
batch_size = 8
device = "cpu"
[training.dp_sgd]
momentum = 0.2
carry = "global"
[clustering]
size = 4
[secure_sum]
threshold = 2
min_survivors = 2
[encoding]
scale_bits = 12
[weighting]
mode = "ignore"
[privacy]
unit = "record"
multiplier = 1.5
[stop]
rounds = 2
"""


class Private(Lab):
    """A lab whose parties train on shares of the digits, as their processes do."""

    def __init__(self, twin: SimulatedFederation) -> None:
        scenario, names = twin.plan.scenario, party_names(twin.plan.scenario.parties)
        cast, device = behaviours_of(scenario, SEED), torch.device("cpu")
        dataset = load_data(scenario.data, None)
        shards, _, _ = shards_of(dataset, split(dataset, scenario.data, names, SEED, cast.keys()))
        module = build_model(scenario.model, shards[names[0]].input_shape, shards[names[0]].classes, SEED)
        super().__init__(
            scenario,
            cast,
            length=twin.plan.length,
            initial=twin.initial,
            samples=lambda party: len(shards[party].y),
        )
        assert self.plan.config_digest() == twin.plan.config_digest()
        if twin.consult is not None:
            self.consult = twin.consult
        self.trainers: dict[PartyId, ShardTrainer] = {}
        for name in names:
            shown = party_behaviour(cast.get(name, ()), name)
            self.trainers[name] = ShardTrainer(
                module, shards[name], scenario.training, device, shown.data, shown.poisons
            )

    def _perform(self, node: Node, effects: tuple[Action, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Train):
                entropy = training_entropy(self.entropy_of(node.name), effect.round, effect.work)
                update = self.trainers[node.name].update(effect.round, effect.params, effect.carry, entropy)
                done = Trained(self.now + 1.0, effect.round, effect.work, update, "")
                self._schedule(1.0, node.name, done)
            else:
                super()._perform(node, (effect,))


def assert_same(*overrides: str, text: str = BASE) -> Private:
    """Ring sums and model by their digests, checks by every figure, and everything else that is reported."""
    twin = assemble(parse_scenario(text, overrides), RUN, SEED, exact=True)
    assert twin.plan.mechanism is not None
    lab = Private(twin)
    lab.run()
    assert_ends_alike(lab, twin)
    assert isinstance(lab.server.outcome, Finished)
    return lab


def counted(lab: Lab) -> list[int]:
    """Survivors of each opened sum."""
    return [len(seen.opened.survivors) for seen in lab.reports(SumOpened)]


def drops(*silent: tuple[str, Phase, int]) -> str:
    """Announced, so that no machine waits for a deadline."""
    said = "{{ kind = 'drop', announced = true, parties = ['{}'], phase = '{}', rounds = [{}] }}"
    return ", ".join(said.format(*one) for one in silent)


ALONE = (
    "clustering.size=1",
    "secure_sum.threshold=1",
    "secure_sum.min_survivors=1",
    "secure_sum.k_anonymity=1",
    "leakage.mode=report",
    "training.dp_sgd={ momentum = 0.5, carry = 'own' }",
)
SKIPPER = "{ kind = 'no-noise', parties = ['p02'] }"
AGAIN = ("clustering.reclusterings=2", "clustering.new_work=true")
SHARED = (
    "secure_sum.colluders=1",
    "secure_sum.colluders_per_cluster=1",
    "secure_sum.threshold=3",
    "secure_sum.min_survivors=3",
)


def test_own_uploads_are_carried_alike_whenever_a_party_falls_silent() -> None:
    """One party at each phase of round 1: what it goes on from in round 2 is its upload of 0 or of 1."""
    silent = [(f"p0{index}", phase, 1) for index, phase in enumerate(get_args(Phase))]
    shown = f"behaviours=[{drops(*silent)}, {{ kind = 'label-flip', parties = ['p06'] }}]"
    lab = assert_same(*ALONE, shown, "stop.rounds=3", "checks.kind=published")
    assert counted(lab) == [1] * (8 + 3 + 8)
    assert any(seen.ok for seen in lab.reports(SumChecked))


def test_dropout_exact_noise_after_dropouts() -> None:
    """In two reclusterings with new work, each of which takes out noise of its own.

    Of noise for two dropouts, a cluster of four (of five at most) always keeps some: p02 leaves it out.
    """
    silent = drops(("p05", "after-shares", 0), ("p05", "after-shares", 2), ("p01", "after-masked-input", 1))
    lab = assert_same(
        *SHARED,
        *AGAIN,
        "parties=9",
        "stop.rounds=3",
        "privacy.placement=dropout-exact",
        "checks.kind=corrected",
        f"behaviours=[{silent}, {SKIPPER}]",
    )
    assert lab.plan.removable_noise is not None
    assert set(counted(lab)) > {3, 4}
    sizes = {len(seen.opened.members) for seen in lab.reports(SumOpened) if "p02" in seen.opened.members}
    assert sizes == {4, 5}


@pytest.mark.parametrize(
    ("rule", "law"),
    [("{ type = 'mean' }", "discrete-gaussian"), ("{ type = 'inner-product', gamma = 0.5 }", "skellam")],
)
def test_threshold_noise_with_checks(rule: str, law: str) -> None:
    lab = assert_same(
        *SHARED,
        "privacy.placement=threshold",
        f"privacy.law={law}",
        "checks.kind=corrected",
        f"aggregation.rule={rule}",
        f"behaviours=[{drops(('p05', 'after-shares', 1))}, {SKIPPER}]",
        "data.server_per_class=2",
    )
    assert {seen.ok for seen in lab.reports(SumChecked)} == {True, False}
    assert all(done.failed for done in lab.reports(RoundDone))


def test_atoms_with_the_global_step_carried() -> None:
    lab = assert_same(
        "privacy.placement=threshold",
        "clustering.atoms=2",
        *AGAIN,
        f"behaviours=[{drops(('p05', 'after-shares', 0))}]",
    )
    assert 2 in counted(lab), "an atom went with one of its members"


def test_whole_parties_hidden_in_sums_that_are_opened_twice() -> None:
    """Noise is drawn once for both; plain SGD, clipped as a whole."""
    text = BASE.replace('[training.dp_sgd]\nmomentum = 0.2\ncarry = "global"\n', "")
    assert text != BASE
    lab = assert_same(
        "privacy.unit=party",
        "encoding.clip=0.5",
        "encoding.scale_bits=8",
        "clustering.reclusterings=2",
        text=text,
    )
    assert counted(lab) == [4] * 8
