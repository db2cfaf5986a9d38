"""From a settled scenario to rounding, noise and release events: nothing may hide less than it says."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError, UsageError
from securefl.methods.encoding.fixed_point import FixedPoint
from securefl.methods.privacy.checks.published import first_stage, least_std
from securefl.methods.privacy.mechanism import Mechanism, mechanism_of
from securefl.methods.privacy.rounding import BoundedRounding
from securefl.methods.privacy.sensitivity import (
    LOST_SHARE,
    OVERFULL,
    batch_capacity,
    planned_releases,
    sum_error,
)
from securefl.methods.privacy.settling import settle
from securefl.methods.privacy.table import WORST_ERROR, noise_table
from securefl.scenario.scenario import Scenario
from tests.unit.privacy.scenarios import LENGTH, PARTY, RECORDS, private


def settled(*overrides: str, length: int = LENGTH) -> Scenario:
    return settle(private(*overrides), length, RECORDS)


def made(*overrides: str, length: int = LENGTH) -> Mechanism:
    mechanism = mechanism_of(settled(*overrides, length=length), length)
    assert mechanism is not None
    return mechanism


def grid(scenario: Scenario) -> FixedPoint:
    return FixedPoint(scenario.encoding.scale_bits, scenario.encoding.range)


def ball(radius: float, seed: int, length: int = LENGTH) -> F64:
    """A random vector of exactly this length."""
    vector = np.random.default_rng(seed).standard_normal(length)
    scaled: F64 = vector * (radius / np.linalg.norm(vector))
    return scaled


def test_a_record_moves_an_update_by_its_norm_over_the_batch_and_what_rounding_adds() -> None:
    mechanism = made()
    norm, beta = mechanism.rounding.norm, LOST_SHARE * mechanism.delta / 20 / 2
    assert 1 < norm / 512 <= 1 + sum_error(64, LENGTH, carried=False)
    assert mechanism.rounding.sensitivity == BoundedRounding(norm, LENGTH, beta).sensitivity
    assert made("training.dp_sgd={bound={type='clip', norm=0.25}}").rounding.norm == norm / 4
    larger = made("training.batch_size=32", "encoding.scale_bits=14").rounding.norm
    assert norm < larger < 512 * (1 + sum_error(128, LENGTH, carried=False))


def test_a_carry_that_may_cancel_gradients_adds_more() -> None:
    carried = made("training.dp_sgd={momentum=0.1, carry='global'}").rounding.norm
    assert made().rounding.norm < carried < 512 * (1 + 1e-4)


def test_sums_are_counted_up_to_a_size_that_is_paid_for() -> None:
    """Poisson batches of 16 of 100 records, against the binomial law itself."""
    mechanism = made()

    def beyond(most: int) -> float:
        return sum(math.comb(100, k) * 0.16**k * 0.84 ** (100 - k) for k in range(most + 1, 101))

    errors = [sum_error(most, LENGTH, carried=False) for most in range(1, 100)]
    counted = next(
        most for most, error in enumerate(errors, 1) if 512 * (1 + error) >= mechanism.rounding.norm
    )
    assert beyond(counted) <= mechanism.event.delta_lost / 2
    assert 0 < beyond(batch_capacity("poisson", 16)) <= OVERFULL
    fixed = made("training.dp_sgd={sampler='fixed-size'}").rounding.norm
    assert fixed == 512 * (1 + sum_error(16, LENGTH, carried=False))
    assert batch_capacity("fixed-size", 16) == 16


def test_batches_with_more_records_than_slots_come_off_delta() -> None:
    tiny = ("privacy.delta=1e-12",)
    assert made(*tiny).event.delta_lost == LOST_SHARE * 1e-12 / 20 + OVERFULL
    fixed = made(*tiny, "training.dp_sgd={sampler='fixed-size'}").event.delta_lost
    assert fixed == LOST_SHARE * 1e-12 / 20


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_rounded_with_the_same_offsets_neighbours_stay_within_the_sensitivity(relation: str) -> None:
    scenario = settled(f"privacy.relation={relation}")
    mechanism = mechanism_of(scenario, LENGTH)
    assert mechanism is not None
    record = 1 / scenario.training.batch_size
    for seed in range(25):
        update, change = ball(0.8, seed), ball(record, 1000 + seed)
        entropy = InsecureSeededEntropy(seed)
        one = mechanism.encode(grid(scenario), update, entropy.child("rounding")).values
        other = mechanism.encode(grid(scenario), update + change, entropy.child("rounding")).values
        assert np.linalg.norm(one - other) <= mechanism.rounding.sensitivity
        assert np.linalg.norm(one - other) > 0.9 * mechanism.rounding.norm


@pytest.mark.parametrize(
    ("relation", "sampler", "differences"),
    [
        ("add-remove", "poisson", 1),
        ("replace-one", "poisson", 2),
        ("add-remove", "fixed-size", 2),
        ("replace-one", "fixed-size", 2),
    ],
)
def test_what_is_lost_in_rounding_comes_off_delta(relation: str, sampler: str, differences: int) -> None:
    """Once for each difference that may exceed its bound: two where a record takes another's place."""
    mechanism = made(f"privacy.relation={relation}", f"training.dp_sgd={{sampler='{sampler}'}}")
    assert mechanism.event.delta_lost == pytest.approx(LOST_SHARE * mechanism.delta / 20)
    # The other half pays for batches that are larger than reckoned with.
    assert 2 * differences * mechanism.rounding.beta == pytest.approx(mechanism.event.delta_lost)


def test_whole_updates_lose_nothing_in_rounding() -> None:
    assert made(*PARTY).event.delta_lost == 0


def test_shares_of_the_honest_make_up_the_multiplier() -> None:
    mechanism = made()
    assert mechanism.shares.honest == 3
    target = Fraction(1.5 * mechanism.rounding.sensitivity) ** 2
    assert 3 * Fraction(mechanism.table.std) ** 2 >= target
    assert mechanism.event.survivors == (3,)
    assert mechanism.event.multiplier * (1 + mechanism.event.mu_slack) == pytest.approx(1.5, rel=1e-12)
    assert mechanism.event.multiplier * (1 + mechanism.event.mu_slack) <= 1.5 * (1 + 1e-15)
    local = made("privacy.placement=local")
    assert local.table.std == pytest.approx(math.sqrt(3) * mechanism.table.std)
    assert local.event.survivors == (1,)


def test_the_noise_has_the_announced_variance() -> None:
    """The mean square of n normal draws has a relative deviation of sqrt(2 / n); 5 of them: one in 10^6."""
    mechanism = made()
    draws = np.concatenate([mechanism.noise(InsecureSeededEntropy(i)) for i in range(80)])
    assert draws.size == 80 * LENGTH
    spread = math.sqrt(2 / draws.size)
    assert abs(float(np.mean(draws**2)) / mechanism.table.std**2 - 1) < 5 * spread


def test_one_update_opened_several_times_has_exposure_one() -> None:
    once, thrice = (made("privacy.placement=local", f"clustering.reclusterings={r}") for r in (1, 3))
    assert thrice.event.survivors == (1, 1, 1)
    assert thrice.event.exposure == 1
    assert once.event.multiplier == thrice.event.multiplier
    fresh = made("clustering.reclusterings=3", "clustering.new_work=true")
    assert fresh.event.survivors == (3,)
    assert planned_releases(settled("clustering.reclusterings=3", "clustering.new_work=true")) == 60


def test_words_of_metrics_are_drawn_from_tables_as_well() -> None:
    """Each word adds the distance of its table from the law, at its worst, to what may fail."""
    declared = "evaluation={metrics=[{name='a',kind='confusion',classes=3}]}"
    sites = (*PARTY, "model={type='weights'}", "encoding.range=1")
    plain, pooled = made(*sites), made(*sites, declared)
    assert pooled.event.delta_slack == plain.event.delta_slack + 10 * 3 * WORST_ERROR


def test_what_an_accountant_is_told() -> None:
    event = made().event
    assert (event.unit, event.relation, event.sampler) == ("record", "add-remove", "poisson")
    assert (event.records, event.batch, event.denominator, event.steps) == (RECORDS, 16, 16, 1)
    assert event.delta_slack == pytest.approx(float(LENGTH * 3 * made().table.table_error), rel=1e-15)
    whole = made(*PARTY).event
    assert (whole.unit, whole.sampler, whole.records) == ("party", "none", 1)
    assert made("training.dp_sgd={sampler='fixed-size'}").event.sampler == "fixed-size"
    assert made("privacy.law=discrete-gaussian").event.mechanism == "discrete-gaussian"


def test_a_server_that_draws_the_participants_amplifies_nothing() -> None:
    """Nobody else's absence is secret: the event is the same whoever is drawn, and how many."""
    drawn = made(*PARTY, "participation.count=6")
    assert drawn.event == made(*PARTY).event
    assert drawn.event.sampler == "none"


def test_a_party_is_rounded_within_its_bound_and_must_have_been_clipped() -> None:
    scenario = settled(*PARTY)
    mechanism = mechanism_of(scenario, LENGTH)
    assert mechanism is not None
    for seed in range(10):
        rounded = mechanism.encode(grid(scenario), ball(1.0, seed), InsecureSeededEntropy(seed)).values
        assert np.linalg.norm(rounded) <= mechanism.rounding.sensitivity
    with pytest.raises(UsageError, match="clipped"):
        mechanism.encode(grid(scenario), ball(1.01, 1), InsecureSeededEntropy(1))


def test_a_party_saturates_at_the_range() -> None:
    scenario = settled(*PARTY, "encoding.range=0.5")
    mechanism = mechanism_of(scenario, LENGTH)
    assert mechanism is not None
    peak = np.zeros(LENGTH)
    peak[7] = -1.0
    encoded = mechanism.encode(grid(scenario), peak, InsecureSeededEntropy(1))
    assert encoded.saturated == 1
    assert encoded.values[7] == -512


@pytest.mark.parametrize(("bits", "named"), [(3, 4), (25, 16), (40, 16)])
def test_a_scale_at_which_the_noise_does_not_fit_is_refused_and_one_that_fits_is_named(
    bits: int, named: int
) -> None:
    tiny = "privacy.multiplier=0.3" if bits == 3 else "privacy.multiplier=1"
    overrides = (tiny, "encoding.range=1")
    with pytest.raises(ConfigError, match=r"^encoding\.scale_bits: .*tables hold 4 to 4096") as caught:
        made(*overrides, f"encoding.scale_bits={bits}")
    workable = int(caught.value.remedy.split(" = ")[1])
    mechanism = made(*overrides, f"encoding.scale_bits={workable}")
    assert 4 <= mechanism.table.std <= 4096
    if bits > 3:
        assert workable == named
        with pytest.raises(ConfigError):
            made(*overrides, f"encoding.scale_bits={workable + 1}")


def test_noise_for_which_there_is_no_scale() -> None:
    with pytest.raises(ConfigError, match="another multiplier"):
        made("privacy.multiplier=10000", length=100_000)


SINGLE = (
    "clustering.size=1",
    "secure_sum.threshold=1",
    "secure_sum.min_survivors=1",
    "secure_sum.colluders=0",
    "secure_sum.colluders_per_cluster=0",
    "secure_sum.k_anonymity=1",
    "leakage.mode=report",
    "privacy.placement=local",
    "checks.kind=published",
)


def test_noise_that_published_checks_take_for_a_wrong_law_is_refused() -> None:
    """Steps of 69 at d = 3,000: the distance of a half-step alone is 12 % of what passes."""
    with pytest.raises(
        ConfigError, match=r"^checks\.kind: .*at 68\.87 steps .*3000 parameters need 164"
    ) as caught:
        made(*SINGLE, "encoding.scale_bits=9", length=3_000)
    assert caught.value.remedy == 'encoding.scale_bits = 11, or kind = "corrected"'
    assert made(*SINGLE, "encoding.scale_bits=11", length=3_000).table.std > least_std(3_000)
    assert made(*SINGLE, "encoding.scale_bits=9", "checks.kind=corrected", length=3_000).table.std < 69
    with pytest.raises(ConfigError, match="the published tests assume continuous noise: at 1315 steps they"):
        made(*SINGLE, length=2_000_000)


def test_coarse_noise_fails_for_its_grid_and_the_coarsest_that_is_accepted_does_not() -> None:
    """300 honest uploads: at most 38 fail at a rate of 6.5 %, but for one seed in 10^5."""
    dim = 400
    failed = {}
    for times in (0.13, 1.0):
        table = noise_table("skellam", times * least_std(dim))
        noise = table.sample(300 * dim, InsecureSeededEntropy(5)).reshape(300, dim).astype(np.float64)
        failed[times] = sum(not first_stage(upload, table.std).ok for upload in noise)
    assert failed[1.0] <= 38
    assert failed[0.13] > 60


def test_not_even_many_draws_come_near_a_small_delta() -> None:
    """63 bits a draw were too few for this one."""
    event = made("privacy.delta=1e-11", "stop.rounds=100000", "encoding.scale_bits=16").event
    assert 100_000 * event.delta_slack < 1e-11 / 1e12


def test_a_scenario_that_is_not_settled_gives_no_noise() -> None:
    for overrides in (
        (),
        ("privacy.delta=0.001",),
        ("privacy.delta=0.001", "privacy.epsilon=3", "privacy.multiplier="),
    ):
        with pytest.raises(
            ConfigError, match="is not settled: all parties need the same multiplier, delta, records"
        ):
            mechanism_of(private(*overrides), LENGTH)
    assert mechanism_of(private("privacy.unit=none", "privacy.multiplier="), LENGTH) is None
