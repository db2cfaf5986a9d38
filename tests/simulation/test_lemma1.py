"""Plain mean, no clip, the same survivors in all R sums: the aggregate is FedAvg (SHARE, Lemma 1).

The bound: stochastic rounding moves each encoded coordinate by less than one step (2^-scale_bits), so the sum
of n survivors is off by less than n steps, and a decoded mean by less than n steps / total weight. Every
reclustering rounds the same encoded update, so averaging over them adds nothing. The new parameters are
float32: another half unit in the last place.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from securefl.arrays import F32
from securefl.errors import ConfigError
from securefl.ids import PartyId
from securefl.rounds.reports import ModelFinal, RoundDone
from securefl.weighting.weights import public_weights
from tests.simulation.world import Op, World, scenario


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_aggregate_is_fedavg_over_the_survivors(data: st.DataObject) -> None:
    parties = data.draw(st.integers(3, 9), "parties")
    size = data.draw(st.integers(2, min(4, parties)), "size")
    scale_bits = data.draw(st.sampled_from([4, 8, 16, 24]), "scale bits")
    mode = data.draw(st.sampled_from(["equal", "samples", "truncate"]), "mode")
    sets = {"weighting__mode": f'"{mode}"', "encoding__scale_bits": str(scale_bits)}
    if mode == "truncate":
        sets["weighting__cap"] = str(data.draw(st.integers(1, 60), "cap"))
    reclusterings = data.draw(st.integers(1, 3), "reclusterings")
    counts = data.draw(st.lists(st.integers(1, 100), min_size=parties, max_size=parties), "counts")
    dropped = data.draw(st.sets(st.integers(0, parties - 1), max_size=2), "dropped")
    try:
        made = scenario(
            parties,
            size=str(size),
            reclusterings=str(reclusterings),
            threshold="2",
            min_survivors="2",
            **sets,
        )
    except ConfigError:
        reject()
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "updates"))
    updates = {PartyId(f"p{i:02d}"): generator.normal(0, 3, 5).astype(np.float32) for i in range(parties)}
    initial = generator.normal(0, 1, 5).astype(np.float32)

    def train(party: PartyId, _round: int, params: F32) -> F32:
        return params + updates[party]

    ops = [Op("crash", f"p{i:02d}", "MaskedInput") for i in dropped]
    world = World(
        made, length=5, train=train, samples=lambda p: counts[int(p[1:])], ops=ops, initial=initial
    ).run()
    (done,) = world.reports(RoundDone)
    assert set(done.survivors).isdisjoint(f"p{i:02d}" for i in dropped)
    if dropped == set():
        assert len(done.survivors) == parties
    (final,) = world.reports(ModelFinal)
    if not done.survivors:
        np.testing.assert_array_equal(final.params, initial)
        return
    weighting = made.weighting
    weights = public_weights(
        {p: counts[int(p[1:])] for p in done.participants}, weighting.mode, weighting.cap
    )
    total = sum(weights[p] for p in done.survivors)
    trained = {
        p: (initial + updates[p]).astype(np.float64) - initial.astype(np.float64) for p in done.survivors
    }
    fedavg = sum((weights[p] * trained[p] for p in done.survivors), start=np.zeros(5)) / total
    bound = len(done.survivors) * 2.0**-scale_bits / total
    error = np.abs(final.params.astype(np.float64) - initial.astype(np.float64) - fedavg)
    assert (error <= bound + np.spacing(np.abs(final.params)) + 1e-12).all()
