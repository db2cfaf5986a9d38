"""Step 12: a sum that does not look like the agreed noise never reaches the rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from securefl.base.arrays import I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.base.ids import PartyId
from securefl.methods.encoding.ring import to_ring
from securefl.methods.privacy.settling import settle
from securefl.protocol.round.party.upload import Seams
from securefl.protocol.round.server.features.checking import check_sums
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ModelStepped, RoundDone, SumChecked
from tests.simulation.world import World, scenario
from tests.unit.privacy.scenarios import LENGTH, PARTY, RECORDS, private
from tests.unit.round.samples import plan_of
from tests.unit.scenario.samples import refusal
from tests.unit.scenario.test_privacy_limits import RECORD

NAMES = tuple(PartyId(f"p{i:02d}") for i in range(12))


def settled(*overrides: str) -> RunPlan:
    return plan_of(settle(private(*overrides), LENGTH, RECORDS), LENGTH)


def opened(plan: RunPlan, cluster: int, members: int, noisy: int, signal: int = 0) -> ClusterSum:
    """A sum of ``members`` of whom ``noisy`` have added their noise, and a signal in each coordinate."""
    assert plan.mechanism is not None
    total: I64 = np.full(LENGTH, signal, dtype=np.int64)
    for member in range(noisy):
        total += plan.mechanism.noise(InsecureSeededEntropy(7).child(cluster, member))
    names = NAMES[:members]
    return ClusterSum(0, cluster, names, names, to_ring(total, plan.limits.ring_bits))


def test_without_checks_nothing_is_said() -> None:
    plan = settled()
    assert check_sums(plan, 0, [opened(plan, 0, 6, 6)]) == ()


@pytest.mark.parametrize("overrides", [(), PARTY])
def test_skippers_and_shouters_are_left_out_and_honest_sums_are_not(overrides: tuple[str, ...]) -> None:
    plan = settled(*overrides, "checks.kind=corrected")
    assert plan.mechanism is not None
    loud = 40 * round(plan.mechanism.shares.share_std)
    sums = [
        opened(plan, 0, 6, 6),
        opened(plan, 1, 6, 4),
        opened(plan, 2, 6, 6, signal=loud),
        opened(plan, 3, 5, 5),
    ]
    checked = check_sums(plan, 3, sums)
    assert [(one.round, one.reclustering, one.cluster, one.ok) for one in checked] == [
        (3, 0, 0, True),
        (3, 0, 1, False),
        (3, 0, 2, False),
        (3, 0, 3, True),
    ]
    assert [(one.reclustering, one.cluster) for one in checked if not one.ok] == [(0, 1), (0, 2)]
    assert "noise floor" in checked[1].reason
    assert all(len(one.e_values) == 7 for one in checked)


def test_the_survivors_count_and_not_the_planned_members() -> None:
    """Dropouts that nobody told of would look like skippers."""
    plan = settled("checks.kind=corrected")
    told = opened(plan, 0, 5, 5)
    untold = replace(told, survivors=NAMES[:8])
    assert [one.ok for one in check_sums(plan, 0, [told])] == [True]
    assert [one.ok for one in check_sums(plan, 0, [untold])] == [False]


def test_an_honest_signal_of_full_length_passes() -> None:
    """Six updates that all point the same way; the worst case that checks allow for."""
    plan = settled(*PARTY, "checks.kind=corrected")
    assert plan.mechanism is not None
    each = int(plan.mechanism.rounding.norm / LENGTH**0.5)
    checked = check_sums(plan, 0, [opened(plan, cluster, 6, 6, signal=6 * each) for cluster in range(20)])
    assert all(one.ok for one in checked)


def test_the_allowance_of_records_covers_batches_larger_than_expected() -> None:
    mechanism, fixed = settled().mechanism, settled("training.dp_sgd={sampler='fixed-size'}").mechanism
    assert mechanism is not None
    assert fixed is not None
    assert fixed.signal >= 16 * fixed.rounding.norm
    assert mechanism.signal >= 2 * fixed.signal
    generator = np.random.default_rng(0)
    assert generator.binomial(RECORDS, 16 / RECORDS, 10**6).max() * mechanism.rounding.norm < mechanism.signal


def test_the_published_pair_looks_at_single_uploads() -> None:
    single = ("clustering.size=1", "secure_sum.threshold=1", "secure_sum.min_survivors=1")
    alone = ("secure_sum.colluders=0", "secure_sum.colluders_per_cluster=0", "secure_sum.k_anonymity=1")
    plan = settled(*single, *alone, "leakage.mode=report", "privacy.placement=local", "checks.kind=published")
    checked = check_sums(plan, 0, [opened(plan, 0, 1, 1), opened(plan, 1, 1, 0)])
    assert [one.ok for one in checked] == [True, False]
    assert checked[1].reason.startswith("published")
    assert checked[0].e_values == ()


def test_checks_without_noise_and_published_tests_of_sums_are_refused() -> None:
    error = refusal("checks.kind=corrected")
    assert error.path == "checks.kind"
    assert "no noise is added" in error.reason
    error = refusal(*RECORD, "checks.kind=published")
    assert "reject honest sums" in error.reason
    plan = settled()
    bare = replace(plan, scenario=scenario(6, checks__kind="corrected", privacy__unit="none"), length=LENGTH)
    with pytest.raises(UsageError, match="no noise"):
        check_sums(bare, 0, [opened(plan, 0, 6, 6)])


def test_a_round_goes_on_without_the_sum_that_failed() -> None:
    config = {
        "privacy__unit": "party",
        "privacy__multiplier": "0.5",
        "privacy__delta": "0.05",
        "encoding__clip": "1.0",
        "encoding__scale_bits": "7",
        "checks__kind": "corrected",
    }
    skipper = PartyId("p02")
    silent = Seams(noise=lambda noise, _occasion: np.zeros_like(noise))
    world = World(scenario(6, rounds="2", **config), length=256, seams={skipper: silent}).run()
    checked, stepped = world.reports(SumChecked), world.reports(ModelStepped)
    assert len(checked) == 4
    bad = {(one.round, one.reclustering, one.cluster) for one in checked if not one.ok}
    homes = {
        (report.round, 0, cluster)
        for report in world.reports(RoundDone)
        for cluster in range(2)
        if (0, cluster) in report.failed
    }
    assert bad == homes
    assert len(bad) == 2
    assert all(len(report.kept) == 1 for report in stepped)
