"""A server that reads from a party's silence whether it holds a sample with a property.

It announces one finite model on which local training overflows for samples with the property and for no
others. Machines, trainers, samples and noise are the real ones; the server is the honest machine, but for the
models that it chooses. Whoever lets a failed training end its round (:func:`falls_silent`) shows that the
attack is real.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from securefl.base.arrays import F32
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.methods.privacy.settling import settle
from securefl.methods.privacy.spending import ledger_of
from securefl.protocol.kernel.events import Trained
from securefl.protocol.messages.crypten import PeerBox
from securefl.protocol.messages.masking import MaskedInput
from securefl.protocol.messages.rounds import Hello
from securefl.protocol.messages.union import AnyMessage
from securefl.protocol.round import walk
from securefl.protocol.round.party import draw as party_draw
from securefl.protocol.round.party import machine as party
from securefl.protocol.round.party import sums as party_sums
from securefl.protocol.round.party.phases import PartyContext, PartyPhase, Working, sit_out
from securefl.protocol.round.server import opening as server_open
from securefl.protocol.round.shared.reports import Effects, NothingLearned, SatOut
from securefl.scenario.scenario import Scenario
from securefl.training.data.shards import Shard
from securefl.training.models.catalogue import build_model
from securefl.training.models.flatten import dimension
from securefl.training.models.parts.softmax import Softmax
from securefl.training.sgd.outcomes import TrainingDivergedError
from securefl.training.sgd.task_groups import Chooser
from securefl.training.sgd.trainer import LocalTrainer
from tests.seen import patch_seen
from tests.simulation.world import World, scenario

CPU = torch.device("cpu")
FEATURES, CLASSES, SAMPLES = 20, 2, 12
HUGE = np.float32(2e38)
TRAINING = scenario(3, training__batch_size="4").training
MODULE = build_model(Softmax(), (FEATURES,), CLASSES, 0)
D = dimension(MODULE)
Bits = list[list[bool]]
"""By party and round: whether it holds a sample with the property that the round asks for."""


def trap(*properties: int) -> F32:
    """A finite model whose scores overflow on samples that have one of these features, and on no others."""
    weights = np.zeros((CLASSES, FEATURES), dtype=np.float32)
    weights[0, list(properties)] = HUGE
    bias = np.array([HUGE, 0], dtype=np.float32)
    model = np.concatenate([weights.ravel(), bias])
    assert np.isfinite(model).all()
    return model


def balanced(parties: int, rounds: int) -> Bits:
    """As many ones as zeros, in no order that anything could follow from."""
    drawn = np.random.default_rng(15).permutation(np.arange(parties * rounds) % 2 == 0)
    bits: Bits = drawn.reshape(parties, rounds).tolist()
    return bits


def shard(held: Iterable[bool]) -> Shard:
    """Twelve samples of which one has the features that are held; none has a feature that is not."""
    x = np.zeros((SAMPLES, FEATURES), dtype=np.float32)
    own = list(held)
    x[SAMPLES // 2, : len(own)] = own
    return Shard(x, np.zeros(SAMPLES, dtype=np.int64), CLASSES, (FEATURES,))


class Oracle(World):
    """A federation whose server sends in round r a trap for feature r, whatever was learned."""

    def __init__(self, config: Scenario, bits: Bits, **rest: Any) -> None:
        names = [PartyId(f"p{number:02}") for number in range(config.parties)]
        self.shards = dict(zip(names, map(shard, bits), strict=True))
        self.failures = 0
        trainers = {name: LocalTrainer(MODULE, own, TRAINING, CPU) for name, own in self.shards.items()}

        def train(name: PartyId, round_: int, params: F32) -> F32 | None:
            try:
                return trainers[name].train(params, InsecureSeededEntropy(round_))
            except TrainingDivergedError:
                self.failures += 1
                return None

        super().__init__(config, length=D, train=train, **{"initial": trap(0), **rest})

    def run(self) -> World:
        """Until the end, with the trap of each round put in the place of its model."""
        honest = walk.decide_end

        def trapped(plan: Any, standing: Any, done: Any) -> Any:
            after, outcome = honest(plan, replace(standing, rounds_without_update=0, updates=1), done)
            return replace(after, params=np.tile(trap(after.round % FEATURES), plan.models)), outcome

        with patch_seen(server_open, "decide_end", trapped):
            return super().run()

    def answered(self, kinds: tuple[type[AnyMessage], ...] = (MaskedInput,)) -> set[tuple[str, int]]:
        """Parties and rounds of which something came that holds an update."""
        return {(s.sender, s.place.round) for s in self.sent if isinstance(s.message, kinds)}

    def view(self) -> list[tuple[object, ...]]:
        """All that passes the network, but for the bytes of ciphertexts, masked vectors and signatures."""
        return [(s.sender, s.to, s.place, type(s.message).__name__) for s in self.sent]


def read(there: Callable[[str, int], bool], bits: Bits) -> int:
    """How many bits are right if whoever does not answer has the property."""
    return sum(
        (not there(f"p{number:02}", round_)) == bit
        for number, row in enumerate(bits)
        for round_, bit in enumerate(row)
    )


@contextmanager
def falls_silent() -> Iterator[None]:
    """Parties as they were: a failed training, or choice of a group, ends their round."""
    trained, chosen = party_sums.on_trained, party_draw.on_chosen

    def on_trained(ctx: PartyContext, phase: Working, event: Trained) -> tuple[PartyPhase, Effects]:
        return (sit_out(phase), ()) if event.update is None else trained(ctx, phase, event)

    def on_chosen(ctx: PartyContext, phase: Any, event: Any) -> tuple[PartyPhase, Effects]:
        return (sit_out(phase), ()) if event.group is None else chosen(ctx, phase, event)

    with patch_seen(party, "on_trained", on_trained), patch_seen(party, "on_chosen", on_chosen):
        yield


PLAIN = {"rounds": "20"}
NINE = balanced(9, 20)


def test_180_bits_of_silence_are_reduced_to_guessing() -> None:
    with falls_silent():
        before = Oracle(scenario(9, **PLAIN), NINE)
        came = (before.run(), before.answered())[1]
    assert read(lambda *of: of in came, NINE) == 180
    after = Oracle(scenario(9, **PLAIN), NINE)
    came = (after.run(), after.answered())[1]
    assert after.failures == 90
    assert read(lambda *of: of in came, NINE) == 90, "everybody answers: what is right is what one guesses"


NOISY = {
    "rounds": "4",
    "size": "5",
    "threshold": "3",
    "min_survivors": "4",
    "privacy__unit": "party",
    "privacy__placement": "local",
    "privacy__epsilon": "0.198",
    "privacy__delta": "1e-5",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "5",
}
FIFTEEN = balanced(15, 4)


def test_60_bits_under_noise_at_epsilon_0_198_are_reduced_to_guessing() -> None:
    settled = settle(scenario(15, **NOISY), D, None)
    with falls_silent():
        before = Oracle(settled, FIFTEEN)
        came = (before.run(), before.answered())[1]
    assert before.plan.mechanism is not None
    claimed = ledger_of(before.plan.mechanism, 4).guarantee().epsilon
    assert claimed == pytest.approx(0.198, rel=0.01)
    assert read(lambda *of: of in came, FIFTEEN) == 60
    after = Oracle(settled, FIFTEEN)
    came = (after.run(), after.answered())[1]
    assert after.failures == 30
    assert read(lambda *of: of in came, FIFTEEN) == 30
    # What that epsilon allows of one bit, over all four releases.
    assert math.exp(claimed) / (1 + math.exp(claimed)) < 0.55


CRYPTEN = {"secure_sum__kind": "crypten", "size": "4", "threshold": "3", "min_survivors": "3"}
VALIDATED = {
    "secure_sum__kind": "crypten",
    "encoding__clip": "3.6",
    "secure_sum__validate": "{ norm = 4.0 }",
    "weighting__mode": "ignore",
    "size": "3",
    "rounds": "1",
}
ATOMS = {"size": "4", "clustering__atoms": "2", "reclusterings": "2", "threshold": "3", "min_survivors": "3"}
PARTY = {
    "privacy__unit": "party",
    "privacy__multiplier": "0.9",
    "privacy__delta": "0.05",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "9",
}
MODES = {
    "masking": {"reclusterings": "2"},
    "active": {"server": "active", "size": "4", "threshold": "3", "min_survivors": "3"},
    "new work": {"clustering__new_work": "true", "reclusterings": "2"},
    "weights": {"weighting__mode": "passthrough"},
    "atoms": ATOMS,
    "crypten": CRYPTEN,
    "validated": VALIDATED,
    "local noise": PARTY | {"privacy__placement": "local"},
    "shared noise": PARTY | {"privacy__placement": "threshold"},
    "exact noise": PARTY | {"privacy__placement": "dropout-exact"},
}


@pytest.mark.parametrize("mode", MODES)
def test_in_no_mode_does_anything_that_can_be_seen_depend_on_who_fails(mode: str) -> None:
    """Two rounds of the same federation, with the properties turned round: the same messages in each place.

    Journals, which a restarted party takes its budget from, and who is counted are the same as well. The
    reason stays with the party.
    """
    config = scenario(3 if mode == "validated" else 8, **{"rounds": "2", **MODES[mode]})
    bits = balanced(config.parties, config.stop.rounds)
    one, other = Oracle(config, bits), Oracle(config, [[not bit for bit in row] for row in bits])
    one.run()
    other.run()
    assert one.failures > 0
    assert other.failures > 0
    assert sorted(map(repr, one.view())) == sorted(map(repr, other.view()))
    everybody = {(name, round_) for name in one.parties for round_ in range(config.stop.rounds)}
    assert one.answered((MaskedInput, PeerBox)) >= everybody
    for name in one.parties:
        assert one.nodes[name].journal == other.nodes[name].journal
        assert any(step == "submitted" for _, step in one.nodes[name].journal)
        reasons = {r.reason for r in one.reports(NothingLearned, name)}
        own = bits[int(name[1:])]
        assert reasons == ({"training failed"} if any(own) else set())
        assert not one.reports(SatOut, name)


GROUPS = {
    "groups__count": "2",
    "weighting__mode": "ignore",
    "rounds": "1",
}
OPEN = GROUPS | {"groups__mode": "open", "size": "2"}
HIDDEN = GROUPS | {
    "groups__mode": "hidden",
    "threshold": "4",
    "min_survivors": "4",
    "clustering__atoms": "4",
    "size": "4",
}


@pytest.mark.parametrize("mode", [OPEN, HIDDEN])
def test_who_has_no_finite_loss_says_hello_all_the_same(mode: dict[str, str]) -> None:
    """All models overflow on a property: before, whoever had such a sample did not even greet."""
    bits = balanced(8, 1)

    def oracle() -> Oracle:
        made = Oracle(scenario(8, **mode), bits, initial=np.tile(trap(0), 2))
        choosers = {name: Chooser(MODULE, own, CPU) for name, own in made.shards.items()}
        made.choose = lambda name, _round: choosers[name].choose(np.tile(trap(0), 2))
        return made

    with falls_silent():
        before = oracle()
        before.run()
    assert read(lambda *of: of in before.answered((Hello,)), bits) == 8
    after = oracle()
    after.run()
    assert read(lambda *of: of in after.answered((Hello,)), bits) == 4
    unable = {name for name in after.parties if after.reports(NothingLearned, name)}
    resting = {name for name in after.parties if after.reports(SatOut, name)}
    assert unable | resting >= {f"p{number:02}" for number, (bit,) in enumerate(bits) if bit}
    assert {r.reason for name in unable for r in after.reports(NothingLearned, name)} == {"no finite loss"}
