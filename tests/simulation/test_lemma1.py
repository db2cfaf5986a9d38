"""Plain mean, no clip, the same survivors in all R sums: the aggregate is FedAvg (SHARE, Lemma 1).

The bound: stochastic rounding moves each encoded coordinate by less than one step (2^-scale_bits), so the sum
of n survivors is off by less than n steps, and a decoded mean by less than n steps / total weight. Averaging
over reclusterings adds nothing, whether they round one encoded update or several. The new parameters are
float32: another half unit in the last place.

With a clip it is FedAvg of the clipped updates. A lost sum takes its members out of all the others of the
round, so that these hold the same survivors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from securefl.base.arrays import F32, F64
from securefl.base.errors import ConfigError
from securefl.base.ids import PartyId
from securefl.methods.clustering.sizes import cluster_sizes
from securefl.methods.weighting.weights import public_weights
from securefl.protocol.round.shared.reports import ModelFinal, RoundDone
from securefl.scenario.scenario import Scenario
from tests.simulation.world import Op, World, of_work, scenario
from tests.tiers import examples

LENGTH = 5


def run_and_compare(made: Scenario, counts: Sequence[int], ops: Sequence[Op], seed: int) -> RoundDone:
    """Run one round; the new model minus the old must be FedAvg over the survivors."""
    generator = np.random.default_rng(seed)
    updates = {
        PartyId(f"p{i:02d}"): generator.normal(0, 3, LENGTH).astype(np.float32) for i in range(made.parties)
    }
    initial = generator.normal(0, 1, LENGTH).astype(np.float32)

    def train(party: PartyId, _round: int, params: F32) -> F32:
        return params + updates[party]

    world = World(
        made, length=LENGTH, train=train, samples=lambda p: counts[int(p[1:])], ops=ops, initial=initial
    ).run()
    (done,) = world.reports(RoundDone)
    (final,) = world.reports(ModelFinal)
    if not done.survivors:
        np.testing.assert_array_equal(final.params, initial)
        return done
    declared = {p: counts[int(p[1:])] for p in done.participants}
    weights = public_weights(made.weighting, declared)
    total = sum(weights[p] for p in done.survivors)
    works = range(made.clustering.reclusterings if made.clustering.new_work else 1)

    def trained(party: PartyId) -> F64:
        ends = [of_work(work, initial, initial + updates[party]).astype(np.float64) for work in works]
        mean: F64 = np.mean(ends, axis=0) - initial.astype(np.float64)
        return mean

    fedavg = sum((weights[p] * trained(p) for p in done.survivors), start=np.zeros(LENGTH)) / total
    bound = len(done.survivors) * 2.0**-made.encoding.scale_bits / total
    error = np.abs(final.params.astype(np.float64) - initial.astype(np.float64) - fedavg)
    assert (error <= bound + np.spacing(np.abs(final.params)) + 1e-12).all()
    return done


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_aggregate_is_fedavg_over_the_survivors(data: st.DataObject) -> None:
    parties = data.draw(st.integers(3, 9), "parties")
    size = data.draw(st.integers(2, min(4, parties)), "size")
    mode = data.draw(st.sampled_from(["ignore", "passthrough", "truncate"]), "mode")
    sets = {
        "weighting__mode": f'"{mode}"',
        # The lemma holds for sums that expose everybody too.
        "leakage__mode": "report",
        "encoding__scale_bits": str(data.draw(st.sampled_from([4, 8, 16, 24]), "scale bits")),
        "reclusterings": str(data.draw(st.integers(1, 3), "reclusterings")),
    }
    if mode == "truncate":
        sets["weighting__cap"] = str(data.draw(st.integers(1, 60), "cap"))
    counts = data.draw(st.lists(st.integers(1, 100), min_size=parties, max_size=parties), "counts")
    dropped = data.draw(st.sets(st.integers(0, parties - 1), max_size=2), "dropped")
    try:
        made = scenario(parties, size=str(size), **sets)
    except ConfigError:
        reject()
    ops = [Op("crash", f"p{i:02d}", "MaskedInput") for i in dropped]
    done = run_and_compare(made, counts, ops, data.draw(st.integers(0, 2**32 - 1), "updates"))
    assert set(done.survivors).isdisjoint(op.who for op in ops)
    if not dropped:
        assert len(done.survivors) == parties


COUNTS = [1 + 7 * i for i in range(11)]


@pytest.mark.parametrize(
    ("mode", "new_work", "stage"),
    [
        ("passthrough", "false", None),
        ("truncate", "true", None),
        ("ignore", "false", "KeyAdvert"),
        ("passthrough", "false", "ShareBoxes"),
        ("passthrough", "true", "MaskedInput"),
        ("truncate", "false", "Receipt"),
        ("ignore", "true", "Release"),
    ],
)
def test_with_three_reclusterings_of_unequal_clusters(mode: str, new_work: str, stage: str | None) -> None:
    """11 parties in clusters of 3 and 4, of whom one falls silent on the way."""
    assert len(set(cluster_sizes(11, 3))) > 1
    sets = {"weighting__mode": f'"{mode}"', "clustering__new_work": new_work}
    sets["leakage__mode"] = "report"
    if mode == "truncate":
        sets["weighting__cap"] = "30"
    ops = [Op("crash", "p04", stage)] if stage else []
    done = run_and_compare(scenario(11, reclusterings="3", **sets), COUNTS, ops, 1)
    assert len(done.survivors) >= 10
    assert not done.lost


def test_with_a_lost_cluster() -> None:
    """Two of three members are too few: the model steps by the mean of the other six parties."""
    made = scenario(9, min_survivors="3", threshold="3")
    done = run_and_compare(made, COUNTS, [Op("crash", "p00", "MaskedInput")], 2)
    assert len(done.lost) == 1
    assert len(done.survivors) == 6


def test_without_clusters() -> None:
    """Clusters of one, the baseline "no SHARE", summed twice."""
    sets = {"secure_sum__k_anonymity": "1", "leakage__mode": '"report"', "reclusterings": "2"}
    made = scenario(7, size="1", threshold="1", min_survivors="1", **sets)
    assert len(run_and_compare(made, COUNTS, [Op("crash", "p03", "MaskedInput")], 3).survivors) == 6
