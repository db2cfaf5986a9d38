"""Simulations with privacy: settled by the data, noisy, reproducible only where they say so."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from securefl.base.entropy import OsEntropy
from securefl.base.errors import ConfigError
from securefl.base.ids import RunId
from securefl.methods.encoding.ring import from_ring
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.runtime.simulation.federation import SimulatedFederation, assemble
from securefl.runtime.simulation.rounds import SimulatedRounds
from securefl.scenario.load import parse_scenario
from tests.unit.simulation.test_trainers import Heard

SCENARIO = """
name = "private"
parties = 6
[data]
set = "digits"
train_limit = 300
test_limit = 60
partition = { type = "log-normal", sigma = 0.4 }
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
size = 3
[secure_sum]
threshold = 2
min_survivors = 2
[encoding]
scale_bits = 12
[weighting]
mode = "ignore"
[privacy]
unit = "record"
placement = "threshold"
multiplier = 1.5
[stop]
rounds = 3
[[behaviours]]
kind = "label-flip"
parties = ["p01"]
rounds = [1]
[[behaviours]]
kind = "scale"
factor = -3
parties = ["p02"]
[[behaviours]]
kind = "drop"
phase = "after-shares"
parties = ["p05"]
rounds = [0]
"""


def federation(
    *overrides: str, exact: bool = False, secret: bool = False, threads: int = 1
) -> SimulatedFederation:
    hidden = OsEntropy() if secret else None
    config = parse_scenario(SCENARIO, overrides)
    return assemble(config, RunId("r"), 1, exact=exact, threads=threads, secret=hidden)


def course(*overrides: str, exact: bool = False, secret: bool = False, threads: int = 1) -> Heard:
    made, heard = federation(*overrides, exact=exact, secret=secret, threads=threads), Heard()
    SimulatedRounds(made, [heard]).run(made.evaluator.evaluate)
    return heard


@cache
def seeded() -> Heard:
    return course()


def test_the_scenario_is_settled_by_the_smallest_party() -> None:
    made = federation()
    privacy = made.plan.scenario.privacy
    fewest = min(party.samples for party in made.parties.values())
    assert privacy.settled
    assert privacy.records == fewest < max(party.samples for party in made.parties.values())
    assert privacy.delta == pytest.approx(fewest**-1.1)


def test_a_batch_that_somebody_has_no_records_for_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^training\.batch_size: is 60, more than"):
        federation("training.batch_size=60")


def test_seeded_it_is_the_same_again_and_otherwise_the_noise_is_another() -> None:
    again = course(threads=2)
    assert again.params.tobytes() == seeded().params.tobytes()
    one, two = course(secret=True, threads=1), course(secret=True)
    # The first round's clusters follow from the seed in all of them.
    assert [s.members for s in one.sums[:2]] == [s.members for s in seeded().sums[:2]]
    for other in (two, seeded()):
        assert not np.array_equal(one.sums[0].ring, other.sums[0].ring)


def differences(one: list[ClusterSum], two: list[ClusterSum]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    assert [(s.members, s.survivors) for s in one] == [(s.members, s.survivors) for s in two]
    parts = [from_ring(a.ring) - from_ring(b.ring) for a, b in zip(one, two, strict=True)]
    return np.concatenate(parts)


def test_vectorised_steps_are_those_of_a_run_but_for_rounding() -> None:
    """The same batches and noise: integers differ where a float on the edge is rounded the other way."""
    fast, slow = course("stop.rounds=1"), course("stop.rounds=1", exact=True)
    assert "training vectorised over parties" in federation().note
    assert "party by party" in federation(exact=True).note
    off = differences(fast.sums, slow.sums)
    assert np.abs(off).max(initial=0) <= 3
    assert np.count_nonzero(off) < 0.02 * off.size
    np.testing.assert_allclose(fast.params, slow.params, atol=1e-3)


def test_the_noise_is_that_of_the_survivors() -> None:
    """Variance of the opened sums without signal: every coordinate's is n s^2, checked to 5 deviations."""
    made = federation("model.hidden=[64]", "stop.rounds=1", "training.dp_sgd.bound={type='clip', norm=1e-6}")
    heard = Heard()
    SimulatedRounds(made, [heard]).run(made.evaluator.evaluate)
    mechanism = made.plan.mechanism
    assert mechanism is not None
    for opened in heard.sums:
        values = from_ring(opened.ring).astype(np.float64)
        if "p02" in opened.survivors:
            continue
        expected = len(opened.survivors) * mechanism.table.std**2
        # Rounding of next to nothing adds less than a step of variance 1 for each party.
        spread = expected * np.sqrt(2 / values.size)
        assert abs(float(np.mean(values**2)) - expected) < 5 * spread + len(opened.survivors)


def test_models_without_a_fleet_train_party_by_party() -> None:
    custom = "model={ type = 'custom', factory = 'tests.unit.training.factories:with_dropout' }"
    made = federation(custom, "training.dp_sgd={}", "stop.rounds=1")
    assert not made.vectorised
    assert made.note.startswith("training party by party")
