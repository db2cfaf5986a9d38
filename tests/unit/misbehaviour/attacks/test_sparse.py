"""Energy on a few coordinates: where it goes, how much it is, and who sees it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefl.base.arrays import F64, I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.ids import PartyId
from securefl.methods.attacks.sparse import sparse_energy
from securefl.methods.encoding.ring import from_ring, to_ring
from securefl.protocol.round.party.upload import HONEST, Seams, UpdateId, make_upload
from securefl.protocol.round.server.features.checking import check_sums
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.plan import RunPlan
from securefl.runtime.misbehaviour.assignment import party_behaviour
from securefl.scenario.behaviours import NoClip, SparseEnergy
from tests.simulation.world import scenario
from tests.tiers import examples
from tests.unit.round.samples import plan_of

ME = PartyId("p00")
ALONE = {
    "size": "1",
    "threshold": "1",
    "min_survivors": "1",
    "secure_sum__k_anonymity": "1",
    "leakage__mode": "report",
    "privacy__unit": "party",
    "privacy__multiplier": "1",
    "privacy__delta": "0.05",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "8",
}
"""Every upload in the open, with noise of 256 steps and a bit."""


@settings(max_examples=examples(50), deadline=None)
@given(length=st.integers(1, 60), count=st.integers(1, 80), seed=st.integers(0, 99))
def test_equal_sizes_on_the_coordinates_that_training_moves_most_against_it(
    length: int, count: int, seed: int
) -> None:
    signal = np.random.default_rng(seed).normal(size=length)
    encoded = np.rint(100 * signal).astype(np.int64)
    before = encoded.copy()
    added = sparse_energy(encoded, signal, 1000.0, count) - encoded
    assert np.array_equal(encoded, before)
    (where,) = np.nonzero(added)
    most = np.sort(np.argsort(-np.abs(signal))[:count])
    assert np.array_equal(where, most)
    assert np.all(added[most] * signal[most] < 0)
    assert np.linalg.norm(added) == pytest.approx(1000.0, abs=0.5 * np.sqrt(len(most)))


def sent(plan: RunPlan, seams: Seams, round_: int = 0, update: F64 | None = None) -> I64:
    where = UpdateId(round_, 0, np.zeros(plan.length, np.float32), ())
    if update is None:
        update = np.full(plan.length, 0.5 / np.sqrt(plan.length))
    entropy = InsecureSeededEntropy(5).child("update", round_)
    return from_ring(make_upload(plan, where, update, 1.0, entropy, seams).ring)


def test_the_agreed_noise_goes_on_top_in_the_rounds_in_which_it_acts() -> None:
    plan = plan_of(scenario(6, **ALONE), 64)
    assert plan.mechanism is not None
    lying = SparseEnergy(parties=("p00",), coordinates=4, spreads=10.0, rounds=(1,))
    seams = party_behaviour((lying,), ME).seams
    assert np.array_equal(sent(plan, seams), sent(plan, HONEST))
    added = sent(plan, seams, 1) - sent(plan, HONEST, 1)
    assert np.count_nonzero(added) == 4
    assert set(added[added != 0]) == {-round(10 * plan.mechanism.shares.share_std / 2)}


def test_it_goes_with_no_clip_and_stays_in_range() -> None:
    plan = plan_of(scenario(6, **ALONE, encoding__range="64"), 64)
    assert plan.mechanism is not None
    huge = SparseEnergy(parties=("p00",), coordinates=1, spreads=1e9)
    lies = (huge, NoClip(parties=("p00",)))
    noise = sent(plan, HONEST, update=np.zeros(64))
    bare = sent(plan, party_behaviour(lies, ME).seams, update=np.full(64, 10.0)) - noise
    assert bare.min() == -plan.fixed_point.steps
    assert np.count_nonzero(bare == 10 * 2**8) == 63


@pytest.mark.parametrize(("kind", "seen"), [("published", False), ("corrected", True)])
def test_published_tests_miss_what_tail_counts_see(kind: str, seen: bool) -> None:
    """79 of 100,000 coordinates, as in the power table (docs/results/checks.md); one trial, fixed seed."""
    plan = plan_of(scenario(6, **{**ALONE, "encoding__scale_bits": "10"}, checks__kind=kind), 100_000)
    seams = party_behaviour((SparseEnergy(parties=("p00",)),), ME).seams
    uploads = (sent(plan, HONEST), sent(plan, replace(HONEST, encode=seams.encode)))
    sums = [
        ClusterSum(0, index, (PartyId(f"p0{index}"),), (PartyId(f"p0{index}"),), to_ring(values, 32))
        for index, values in enumerate(uploads)
    ]
    honest, lying = check_sums(plan, 0, sums)
    assert honest.ok
    assert lying.ok is not seen
