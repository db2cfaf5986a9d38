"""Dropout-exact noise in whole rounds: what is opened carries its target, whoever drops out."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from securefl.methods.encoding.ring import from_ring
from securefl.methods.privacy.components import ComponentPlan
from securefl.protocol.messages.masking import KeyAdvert
from securefl.protocol.round.shared.reports import InstanceRetried, SumChecked, SumOpened
from securefl.scenario.behaviours import NoNoise
from tests.simulation.world import Op, World, scenario
from tests.tiers import examples
from tests.unit.round.samples import plan_of
from tests.unit.scenario.samples import headed, refusal
from tests.unit.scenario.test_privacy_limits import PARTY
from tests.unit.simulation.test_against_machines import Cast, assert_same, casts, silent

PRIVATE = {
    "privacy__unit": "party",
    "privacy__placement": "dropout-exact",
    "privacy__multiplier": "0.5",
    "privacy__delta": "0.05",
    "encoding__clip": "1.0",
    "encoding__scale_bits": "10",
}


def test_the_variance_of_opened_sums_is_the_target_for_every_number_of_dropouts() -> None:
    """Within 1 %, four standard errors of 320,000 coordinates; threshold noise has up to 67 % more."""
    length = 320_000
    ops = [Op("drop", who, "MaskedInput", 0) for who in ("p01", "p02", "p03")]
    config = scenario(
        12,
        size="6",
        threshold="3",
        min_survivors="4",
        rounds="2",
        secure_sum__colluders="1",
        secure_sum__colluders_per_cluster="1",
        checks__kind="corrected",
        **PRIVATE,
    )
    world = World(config, length, seed=4, train=lambda _party, _round, params: params, ops=ops).run()
    assert world.plan.mechanism is not None
    shares = world.plan.mechanism.shares
    assert isinstance(shares, ComponentPlan)
    squares: dict[int, list[float]] = defaultdict(list)
    for report in world.reports(SumOpened):
        values = from_ring(report.opened.ring)
        squares[len(report.opened.survivors)].append(float(np.square(values).mean()))
    assert squares.keys() == {4, 5, 6}, "all numbers of survivors that are allowed"
    for survivors, found in squares.items():
        wanted = shares.target**2 * survivors / (survivors - 1)
        assert np.mean(found) == pytest.approx(wanted, rel=0.01)
    assert all(report.ok for report in world.reports(SumChecked)), "the checks know how much noise there is"


def test_members_share_secrets_for_every_tolerated_dropout() -> None:
    config = scenario(8, size="4", min_survivors="2", **PRIVATE)
    world = World(config, train=lambda _party, _round, params: params).run()
    adverts = [sent.message for sent in world.sent if isinstance(sent.message, KeyAdvert)]
    assert {len(advert.noise_digests) for advert in adverts} == {2}
    assert len({digest for advert in adverts for digest in advert.noise_digests}) == 16


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cast=casts(9, 2))
@example(
    cast={"p00": (silent("drop", "after-shares", 0),), "p04": (silent("kill", "after-masked-input", 1),)}
)
def test_a_simulation_is_the_same(cast: Cast) -> None:
    assert_same(scenario(9, rounds="2", size="4", min_survivors="2", **PRIVATE), cast)


def test_a_simulation_of_crypten_sums_is_the_same() -> None:
    """One starts over, and its noise is that of the attempt that opens."""
    cast: Cast = {"p04": (silent("kill", "after-keys", 1),), "p01": (silent("drop", "after-freeze", 0),)}
    config = scenario(9, rounds="2", size="4", min_survivors="2", secure_sum__kind="crypten", **PRIVATE)
    lab = assert_same(config, cast)
    assert len(lab.reports(InstanceRetried)) == 1


def test_with_new_work_every_reclustering_has_noise_of_its_own() -> None:
    new = {"clustering__new_work": "true", "reclusterings": "2"}
    cast: Cast = {"p02": (silent("drop", "after-shares", 0),)}
    assert_same(scenario(8, rounds="2", size="4", **PRIVATE, **new), cast)


def test_an_accountant_counts_one_target_and_the_ring_has_room_for_all_components() -> None:
    exact = plan_of(scenario(12, size="6", min_survivors="4", **PRIVATE), 64).mechanism
    local = plan_of(
        scenario(12, size="6", min_survivors="4", **{**PRIVATE, "privacy__placement": "local"}), 64
    )
    assert exact is not None
    assert local.mechanism is not None
    assert exact.event.multiplier == pytest.approx(local.mechanism.event.multiplier, rel=1e-3)
    assert len(exact.components) == 2
    ring = next(note for note in headed(*PARTY, "privacy.placement=dropout-exact") if "ring" in note)
    assert "114816 of noise" in ring


def test_refusals() -> None:
    exact = "privacy.placement=dropout-exact"
    error = refusal(*PARTY, exact, "clustering.reclusterings=2")
    assert error.path == "privacy.placement"
    many = ("parties=140", "clustering.size=70", "secure_sum.threshold=2", "secure_sum.min_survivors=2")
    error = refusal(*PARTY, exact, *many)
    assert error.path == "secure_sum.min_survivors"
    assert "68 tolerated dropouts are more than the 64" in error.reason


def test_without_noise_nothing_of_it_is_left_in_a_cluster_smaller_than_planned() -> None:
    """Nine parties make a cluster of five and one of four, which needs a component of everybody's."""
    names = [f"p0{index}" for index in range(9)]
    bare = {name: (NoNoise(parties=tuple(names)),) for name in names}
    unclipped = {**PRIVATE, "encoding__clip": "100.0", "encoding__scale_bits": "5"}
    lab = assert_same(scenario(9, size="4", min_survivors="2", **unclipped), bare)
    assert {len(survivors) for survivors in lab.sums(0)} == {4, 5}
    least = 2.0**-5
    for survivors, value in lab.sums(0).items():
        assert abs(value - sum(lab.worth[party] for party in survivors)) <= least * len(survivors)
