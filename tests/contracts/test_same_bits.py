"""A verifier repeats the server's step on another machine: every rule gives it the same bits there."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.stack import ClusterMeans
from securefl.methods.robust.catalogue import aggregate, prepare
from securefl.methods.robust.pre_aggregation.nearest_neighbour_mixing import NearestNeighbourMixing
from securefl.methods.robust.rules.bulyan import Bulyan
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.minimum_diameter import MinimumDiameter
from securefl.methods.robust.rules.multi_krum import MultiKrum
from securefl.scenario.aggregation import PreAggregation, Rule
from securefl.scenario.parts import find, names
from tests.contracts.same_bits import measured

SCRIPT = Path(__file__).with_name("same_bits.py")
_umath = importlib.import_module("numpy._core._multiarray_umath")
FEATURES = [name for name in _umath.__cpu_dispatch__ if _umath.__cpu_features__.get(name)]
"""Of the processor, that numpy was built to use where they are found."""
MACHINES = {
    "two threads": {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "plain numpy": {"NPY_DISABLE_CPU_FEATURES": " ".join(FEATURES)},
    "without the last feature": {"NPY_DISABLE_CPU_FEATURES": " ".join(FEATURES[-1:])},
    "plain": {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": " ".join(FEATURES)},
}


def digests(machine: dict[str, str]) -> dict[str, str]:
    """What the script finds. A kernel that the processor cannot run is replaced by OpenBLAS."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **one_thread, **{name: value for name, value in machine.items() if value}}
    done = subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@functools.cache
def here() -> dict[str, str]:
    return digests({})


def test_the_script_runs_every_rule_and_every_pre_aggregation() -> None:
    """Every file in the folders of parts is compared, also one that the benchmark does not measure."""
    parts = {find(kind, name) for kind in (Rule, PreAggregation) for name in names(kind)}
    assert {type(part) for part in measured(20)} == parts


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_every_machine_gives_the_same_bits(machine: dict[str, str]) -> None:
    there = digests(machine)
    assert len(there) > 250
    assert [name for name in there if there[name] != here()[name]] == []


def stack_of(means: F64, weights: F64) -> ClusterMeans:
    return ClusterMeans(means, weights, np.full(len(means), 2))


@pytest.mark.parametrize(
    "rule",
    [
        Krum(byzantine=4),
        MultiKrum(byzantine=4),
        MultiKrum(byzantine=2, keep=3),
        Bulyan(byzantine=4),
        MinimumDiameter(byzantine=5),
    ],
    ids=str,
)
def test_the_order_of_identical_rows_does_not_decide_which_are_chosen(rule: Rule) -> None:
    """Of clusters that agree in their row, the same weights are kept, wherever the clusters stand."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(4, 301))[rng.integers(0, 4, 21)]
        weights = rng.permutation(np.arange(1.0, 22.0))
        order = rng.permutation(21)
        straight = aggregate(rule, stack_of(means, weights))
        permuted = aggregate(rule, stack_of(means[order], weights[order]))
        np.testing.assert_array_equal(permuted.kept, straight.kept[order])
        np.testing.assert_allclose(permuted.vector, straight.vector, rtol=1e-13, atol=1e-13)


def test_mixing_gives_identical_rows_identical_bits_in_any_order() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(6, 301))[rng.integers(0, 6, 21)] * rng.choice([1.0, 50.0], (21, 1))
        weights, order = rng.uniform(0.5, 1.0, 21), rng.permutation(21)
        step = NearestNeighbourMixing(byzantine=8)
        straight, _ = prepare(step, stack_of(means, weights), bytes(32))
        permuted, _ = prepare(step, stack_of(means[order], weights[order]), bytes(32))
        np.testing.assert_array_equal(permuted.means, straight.means[order])
        assert permuted.noise_std == straight.noise_std
        for a in range(21):
            for b in range(a):
                if np.array_equal(means[a], means[b]):
                    np.testing.assert_array_equal(straight.means[a], straight.means[b])
