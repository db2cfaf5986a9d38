"""Whoever trains, a round comes to the same: vectorised up to rounding, on threads to the bit."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import psutil
import pytest
import torch

from securefl.base.arrays import F32, F64
from securefl.base.entropy import Entropy, InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.base.ids import PartyId, RunId
from securefl.protocol.kernel.effects import Finished
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.reports import ModelFinal, RoundDone, SumOpened
from securefl.runtime.simulation.federation import SimulatedFederation, assemble
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.runtime.simulation.trainers import TrainingTask, available_cores, one_by_one
from securefl.scenario.load import parse_scenario
from securefl.training.sgd.outcomes import TrainingDivergedError

SCENARIO = """
name = "trainers"
parties = 9
[data]
set = "digits"
train_limit = 300
test_limit = 100
partition = { type = "log-normal", sigma = 0.8 }
[model]
type = "mlp"
hidden = [8]
[training]
batch_size = 8
learning_rate = 0.05
momentum = 0.5
weight_decay = 0.01
device = "cpu"
[encoding]
scale_bits = 24
range = 8.0
[clustering]
size = 3
reclusterings = 2
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 2
"""
ATTACKS = """
[[behaviours]]
kind = "label-flip"
parties = ["p01"]
rounds = [0]
[[behaviours]]
kind = "backdoor"
parties = ["p02"]
[[behaviours]]
kind = "alie"
z = 1.0
knowledge = "omniscient"
parties = ["p03", "p04"]
[[behaviours]]
kind = "drop"
phase = "after-masked-input"
parties = ["p05"]
"""


class Heard:
    """The sums and the model of a course."""

    def __init__(self) -> None:
        self.sums: list[ClusterSum] = []
        self.done: list[RoundDone] = []
        self.params: F32 = np.zeros(0, dtype=np.float32)

    def on_report(self, _now: float, report: object) -> None:
        match report:
            case SumOpened(opened=opened):
                self.sums.append(opened)
            case RoundDone():
                self.done.append(report)
            case ModelFinal(params=params):
                self.params = params
            case _:
                pass

    def on_reject(self, *_refusal: str) -> None: ...


def federation(
    *overrides: str, text: str = SCENARIO, exact: bool = False, threads: int = 1
) -> SimulatedFederation:
    return assemble(parse_scenario(text, overrides), RunId("r"), 1, exact=exact, threads=threads)


def course(*overrides: str, text: str = SCENARIO, exact: bool = False, threads: int = 1) -> Heard:
    made, heard = federation(*overrides, text=text, exact=exact, threads=threads), Heard()
    assert isinstance(SimulatedRounds(made, [heard]).run(made.evaluator.evaluate), Finished)
    return heard


@pytest.mark.parametrize("new_work", ["false", "true"])
def test_a_vectorised_round_is_exact_up_to_rounding(new_work: str) -> None:
    """One round: the next one's clusters are drawn from the model's digest, and so are others."""
    settings = (f"clustering.new_work={new_work}", "stop.rounds=1")
    fast = course(*settings, text=SCENARIO + ATTACKS, threads=2)
    slow = course(*settings, text=SCENARIO + ATTACKS, exact=True)
    assert [r.survivors for r in fast.done] == [r.survivors for r in slow.done]
    assert [(s.members, s.survivors) for s in fast.sums] == [(s.members, s.survivors) for s in slow.sums]
    np.testing.assert_allclose(fast.params, slow.params, atol=1e-5)
    assert fast.params.tobytes() != slow.params.tobytes(), "then there would be no need for --exact"
    again = course(*settings, text=SCENARIO + ATTACKS)
    assert fast.params.tobytes() == again.params.tobytes(), "threads change nothing"


MODELS = {
    "cnn": "model={ type = 'cnn', channels = [2, 3], dense = 5 }",
    "custom": "model={ type = 'custom', factory = 'tests.unit.training.factories:with_dropout' }",
}


@pytest.mark.parametrize("model", MODELS)
def test_other_models_train_party_by_party_to_the_same_bits(model: str) -> None:
    assert not federation(MODELS[model]).vectorised
    one, three = course(MODELS[model], "stop.rounds=1"), course(MODELS[model], "stop.rounds=1", threads=3)
    assert one.params.tobytes() == three.params.tobytes()


def test_the_header_says_who_trains() -> None:
    assert federation().note.startswith("training vectorised over parties: equal to run but for rounding")
    for by_party in (federation(exact=True), federation(MODELS["cnn"])):
        assert by_party.note == "training party by party, to the bits of run"
    assert federation().vectorised
    assert not federation(exact=True).vectorised


@pytest.mark.parametrize("exact", [True, False])
def test_whoever_diverges_is_summed_with_zeros(exact: bool) -> None:
    """The same sums, bit for bit, as if its update were zeros; in clusters of three that need three."""
    lost, zeros = (without_p07(None, exact), without_p07(0.0, exact))
    (done,) = lost.done
    assert done.survivors == tuple(f"p{number:02}" for number in range(9))
    assert [one.survivors for one in lost.sums] == [one.members for one in lost.sums]
    assert [one.ring.tobytes() for one in lost.sums] == [one.ring.tobytes() for one in zeros.sums]


def without_p07(instead: float | None, exact: bool) -> Heard:
    """A round in which one party's training fails, or gives an update of this number everywhere."""
    made = federation("secure_sum.min_survivors=3", "secure_sum.threshold=3", "stop.rounds=1", exact=exact)
    real = made.trainings._train

    def train(task: TrainingTask) -> Iterator[tuple[PartyId, F64 | None]]:
        for name, update in real(task):
            own = None if instead is None else np.full(task.params.size, instead)
            yield name, own if name == "p07" else update

    made.trainings._train = train
    heard = Heard()
    SimulatedRounds(made, [heard]).run(made.evaluator.evaluate)
    return heard


def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"training\.device: .*CUDA"):
        assemble(parse_scenario(SCENARIO, ()), RunId("r"), 1, device="cuda")


def test_bugs_are_not_taken_for_failures_of_training() -> None:
    def broken(_round: int, _params: F32, _carry: F64 | None, _entropy: Entropy, _samples: int | None) -> F64:
        raise UsageError("a bug")

    def diverging(
        _round: int, _params: F32, _carry: F64 | None, _entropy: Entropy, _samples: int | None
    ) -> F64:
        raise TrainingDivergedError("no")

    def raising(
        _round: int, _params: F32, _carry: F64 | None, _entropy: Entropy, _samples: int | None
    ) -> F64:
        raise IndexError("a model that does not like these samples")

    root, params = InsecureSeededEntropy(1), np.zeros(2, dtype=np.float32)
    names = (PartyId("p00"), PartyId("p01"))
    task = TrainingTask(0, 0, params, names)
    for threads in (1, 2):
        for failing in (diverging, raising):
            train = one_by_one([dict.fromkeys(names, failing)] * threads, root)
            assert list(train(task)) == [("p00", None), ("p01", None)]
        with pytest.raises(UsageError, match="a bug"):
            list(one_by_one([dict.fromkeys(names, broken)] * threads, root)(task))


@pytest.mark.slow
def test_a_vectorised_simulation_keeps_nothing_of_a_round() -> None:
    """What is resident goes up and down from round to round, so that the least of ten rounds counts."""
    made = federation("stop.rounds=30", "model.hidden=[512]", "data.train_limit=100", threads=2)
    process, resident = psutil.Process(), list[int]()

    class Meter(Heard):
        def on_report(self, _now: float, report: object) -> None:
            if isinstance(report, RoundDone):
                gc.collect()
                resident.append(process.memory_info().rss)

    SimulatedRounds(made, [Meter()]).run(made.evaluator.evaluate)
    parameters = 4 * made.plan.length * len(made.parties)
    grown = min(resident[20:]) - min(resident[5:15])
    assert grown < 8 * parameters, "15 rounds later, of which each trains so many"


def test_there_is_a_core() -> None:
    assert available_cores() >= 1
