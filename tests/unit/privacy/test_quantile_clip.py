"""Words of quantile clipping, the next clip, and what bits cost."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.methods.privacy.accountant import epsilon
from securefl.methods.privacy.mechanism import mechanism_of
from securefl.methods.privacy.quantile_clip import (
    BELIEVED,
    ClipWords,
    clip_words,
    combined_multiplier,
    exactly_exp,
    noise_of_bits,
    of_updates,
)
from securefl.methods.privacy.settling import settle
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import to_toml
from securefl.scenario.scenario import Scenario
from tests.unit.privacy.scenarios import LENGTH, TEXT

PARTY = ("privacy.unit=party", "training.dp_sgd=", "encoding.scale_bits=10")
METRICS = (
    'model={type="weights", file="w"}',
    'evaluation.metrics=[{name="loss", kind="mean"}]',
    "evaluation.samples=10",
    "evaluation.noise=2.0",
)


KNOWN = [
    "0x1.0000000000000p+0",
    "0x1.38add9e58ac8ep+0",
    "0x1.a330ad6166158p-1",
    "0x1.5bf0a8b145774p+1",
    "0x1.9511fc687103fp-6",
]
"""Results for 0, 0.2, -0.2, 1 and -3.7."""


def clipped(*overrides: str, clip: str = "{}") -> Scenario:
    """The scenario of the privacy tests at party level, with quantile clipping."""
    return parse_scenario(TEXT, (*PARTY, f"privacy.clip={clip}", *overrides))


def words(*overrides: str, clip: str = "{}") -> ClipWords:
    """Words of the same scenario."""
    found = clip_words(clipped(*overrides, clip=clip), 32)
    assert found is not None
    return found


def test_updates_are_encoded_in_units_of_the_clip() -> None:
    scenario = clipped()
    check(scenario)
    assert scenario.encoding.clip == 1.0
    assert parse_scenario(to_toml(scenario)) == scenario
    assert clip_words(parse_scenario(TEXT), 32) is None


def test_a_word_says_only_whether_the_update_is_longer() -> None:
    one = words()
    half = 1 << one.scale
    at = 0.3
    above = math.nextafter(at, 1.0)
    assert [one.word(norm, at) for norm in (1e-9, at, above, 1e9, math.inf)] == [half] * 2 + [-half] * 3
    assert one.word(0.0, at) == 0, "without an update"


@pytest.mark.parametrize("members", [1, 5, 60])
def test_an_impossible_sum_has_no_share(members: int) -> None:
    one = words()
    most = math.floor(members * 2**one.scale + BELIEVED * one.table.std * math.sqrt(members))
    for total in (most, -most):
        assert one.share(total, members) is not None
        assert one.share(total + int(math.copysign(1, total)), members) is None


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 40))
def test_without_noise_the_share_is_exact(below: int, above: int, absent: int) -> None:
    one = words()
    total = (below - above) << one.scale
    members = below + above + absent
    assert one.share(total, members) == pytest.approx((below + absent / 2) / members)


def test_a_minority_of_false_sums_moves_a_median_within_the_others() -> None:
    one = words()
    honest = [(k << one.scale, 10) for k in (2, 4, 6)]
    shares = [one.share(*each) for each in honest]
    for lie in (10 << one.scale, -10 << one.scale):
        found = one.pool_shares([*honest, (lie, 10), (lie, 10)], median=True)
        assert found is not None
        assert min(s for s in shares if s is not None) <= found <= max(s for s in shares if s is not None)
    assert one.pool_shares([(1 << 40, 10)], median=True) is None
    assert one.pool_shares([], median=False) is None


def test_a_mean_counts_each_member_once() -> None:
    one = words()
    assert one.pool_shares([(10 << one.scale, 10), (-30 << one.scale, 30)], median=False) == 0.25


def test_the_clip_goes_where_the_quantile_is() -> None:
    """2,000 parties with log-normal norms: C ends at the quantile, from either side."""
    norms = np.random.default_rng(3).lognormal(-1.0, 0.7, 2000)
    for quantile, begin in ((0.5, 1e-3), (0.5, 50.0), (0.9, 0.1)):
        one, clip = words(clip=f"{{quantile={quantile}}}"), begin
        for _ in range(150):
            total = sum(one.word(float(norm), clip) for norm in norms)
            share = one.share(total, len(norms))
            assert share is not None
            clip = one.following(clip, share)
        assert clip == pytest.approx(float(np.quantile(norms, quantile)), rel=0.02)


def test_limits_hold() -> None:
    one = words(clip="{minimum=0.05, maximum=0.2, rate=10.0}")
    assert one.following(0.1, 3.0) == 0.05
    assert one.following(0.1, -3.0) == 0.2
    assert one.following(0.1, 0.5) == 0.1


def test_the_exponential_has_the_same_bits_everywhere() -> None:
    getcontext().prec = 40
    for exponent in np.linspace(-30.0, 30.0, 601).tolist():
        truth = Decimal(exponent).exp()
        assert abs(Decimal(exactly_exp(exponent)) / truth - 1) < Decimal("1e-12")
    # Known answers: sums and products only, so that any other bits are a change of the law.
    assert [exactly_exp(x).hex() for x in (0.0, 0.2, -0.2, 1.0, -3.7)] == KNOWN
    assert exactly_exp(1e9) == exactly_exp(100.0)
    assert exactly_exp(math.nan) > 0


@pytest.mark.parametrize("placement", ["local", "threshold"])
def test_noise_on_bits_is_placed_as_that_of_updates(placement: str) -> None:
    """Variance of the noise that the adversary does not know, within 6 standard errors of 40,000 draws."""
    scenario = clipped(f"privacy.placement={placement}", clip="{noise=4.0}")
    one = clip_words(scenario, 32)
    assert one is not None
    sums = scenario.secure_sum
    honest = 1 if placement == "local" else sums.min_survivors - sums.colluders_per_cluster
    drawn = one.table.sample(40_000, InsecureSeededEntropy(5)).astype(float)
    unknown = drawn.var() * honest
    wanted = (4.0 * 2 * 2**one.scale) ** 2
    assert unknown / wanted == pytest.approx(1.0, abs=6 * math.sqrt(2 / 40_000))


@pytest.mark.parametrize("noise", ["", "noise=5.0"])
@pytest.mark.parametrize("more", [(), METRICS])
def test_all_noise_of_a_release_is_one_gaussian(noise: str, more: tuple[str, ...]) -> None:
    """1/z^2 = 1/z_update^2 + 1/(2 s_b)^2 (+ 1/(r z_update)^2), the squared distance of neighbouring sums."""
    scenario = clipped("privacy.multiplier=1.5", *more, clip=f"{{{noise}}}")
    bits = noise_of_bits(scenario)
    assert bits == (5.0 if noise else 4.5)
    moved = [1 / 1.5, 0.5 / bits, *([1 / 3.0] if more else [])]
    assert 1.5 * combined_multiplier(scenario) == pytest.approx(1 / math.hypot(*moved))
    whole = 1.5 * combined_multiplier(scenario)
    assert of_updates(scenario, whole) == pytest.approx(1.5)


def test_a_change_of_one_party_costs_twice_its_presence() -> None:
    """Replace-one: an update moves by 2 C and a bit by 1, so that both multipliers are halved."""
    one, other = (
        mechanism_of(replace(s, privacy=replace(s.privacy, relation=r, delta=1e-3)), LENGTH)
        for s, r in ((clipped(), "add-remove"), (clipped(), "replace-one"))
    )
    assert one is not None
    assert other is not None
    assert one.event.noise_multiplier == other.event.noise_multiplier
    twice = clipped("privacy.multiplier=3.0")
    doubled = mechanism_of(
        replace(twice, privacy=replace(twice.privacy, relation="replace-one", delta=1e-3)), LENGTH
    )
    assert doubled is not None
    assert epsilon((doubled.event,), 1e-3) == pytest.approx(epsilon((one.event,), 1e-3), rel=1e-3)


@pytest.mark.parametrize("noise", ["", "noise=20.0"])
def test_an_epsilon_pays_for_bits_and_updates(noise: str) -> None:
    told = ("privacy.multiplier=", "privacy.epsilon=2")
    scenario = settle(clipped(*told, clip=f"{{{noise}}}"), LENGTH, None)
    mechanism = mechanism_of(scenario, LENGTH)
    assert mechanism is not None
    assert 1.99 < epsilon((mechanism.event.times(20),), mechanism.delta) <= 2.0
    plain = settle(parse_scenario(TEXT, (*PARTY, *told, "encoding.clip=1.0")), LENGTH, None)
    assert plain.privacy.multiplier is not None
    assert scenario.privacy.multiplier is not None
    assert 1.0 < scenario.privacy.multiplier / plain.privacy.multiplier < 1.02


def test_one_release_is_as_private_as_the_worst_test_says() -> None:
    """The best test against one party has the false negatives of the stated multiplier."""
    scenario = clipped("privacy.multiplier=1.5", clip="{noise=1.0}")
    z = 1.5 * combined_multiplier(scenario)
    distance = math.hypot(1 / 1.5, 0.5 / 1.0)
    assert stats.norm.cdf(stats.norm.isf(0.05) - distance) == pytest.approx(
        stats.norm.cdf(stats.norm.isf(0.05) - 1 / z)
    )


@pytest.mark.parametrize(
    ("overrides", "clip", "reason"),
    [
        (("privacy.unit=record", "training.dp_sgd={}"), "{}", "privacy.clip: clips whole updates"),
        (("encoding.clip=2.0",), "{}", "encoding.clip: is 2.0, but privacy.clip"),
        ((), "{initial=2.0, maximum=1.0}", "privacy.clip.initial: 2 is outside"),
        (("privacy.unit=none", "privacy.multiplier="), "{}", "privacy.clip: clips whole"),
    ],
)
def test_what_does_not_go_with_it_is_refused(overrides: tuple[str, ...], clip: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(clipped(*overrides, clip=clip))
    assert str(caught.value).startswith(reason)


def test_noise_that_spends_more_than_epsilon_is_refused() -> None:
    told = ("privacy.multiplier=", "privacy.epsilon=2")
    with pytest.raises(ConfigError, match=r"^privacy\.clip\.noise: 0.5 bits of noise alone .*above"):
        settle(clipped(*told, clip="{noise=0.5}"), LENGTH, None)


def test_noise_without_a_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="noise of 100000 times one party's bit does not fit into 32 bits"):
        words(clip="{noise=100000.0}")


def test_more_noise_has_coarser_words() -> None:
    assert words(clip="{noise=1.0}").scale > words(clip="{noise=200.0}").scale
