"""How often the checks of opened sums fail: honest ones at most at their rates, deviating ones often enough.

Seeds are fixed, so that nothing flakes. Bounds are binomial: over seeds, a test of false alarms that is right
fails with probability 1e-6 for each rate that it measures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from securefl.base.arrays import F64, I64
from securefl.base.entropy import InsecureSeededEntropy
from securefl.methods.privacy.checks.evidence import CheckEvidence
from securefl.methods.privacy.checks.family import CHECKS, CheckPlan, OpenedSum, SumVerdict, check_sums
from securefl.methods.privacy.checks.null import Null, sum_law
from securefl.methods.privacy.checks.outliers import tail_counts
from securefl.methods.privacy.checks.projection import projection
from securefl.methods.privacy.checks.published import first_stage
from securefl.methods.privacy.laws import NoiseLaw
from securefl.methods.privacy.table import noise_table

ALPHA = 0.05
UNLIKELY = 1e-6


def draws(law: NoiseLaw, null: Null, shape: tuple[int, int], seed: int) -> I64:
    """The noise of sums, one per row; a Skellam sum as one draw of its law."""
    root = InsecureSeededEntropy(seed)
    if law == "skellam":
        return noise_table(law, null.sum_std).sample(shape[0] * shape[1], root).reshape(shape)
    table = noise_table(law, null.std)
    members = (table.sample(shape[0] * shape[1], root.child(i)) for i in range(null.survivors))
    return sum(members, np.zeros(shape[0] * shape[1], dtype=np.int64)).reshape(shape)


def at_most(trials: int, rate: float) -> int:
    """So many failures at a true ``rate`` are exceeded with probability 1e-6."""
    return int(stats.binom.isf(UNLIKELY, trials, rate))


def no_signal(_null: Null, dim: int) -> I64:
    return np.zeros(dim, dtype=np.int64)


def spike(null: Null, dim: int) -> I64:
    signal = no_signal(null, dim)
    signal[dim // 2] = math.floor(null.allowance)
    return signal


def constant(null: Null, dim: int) -> I64:
    height = max(1, math.floor(null.allowance / math.sqrt(dim)))
    signal = no_signal(null, dim)
    signal[: math.floor(null.signal_energy / height**2)] = height
    return signal


def clump(null: Null, dim: int) -> I64:
    """As many coordinates of about four spreads as the allowance buys: the worst for counts."""
    height = math.ceil(min(4.5 * null.sum_std, null.allowance))
    signal = no_signal(null, dim)
    signal[: null.signal_energy // height**2] = -height
    return signal


def dense(null: Null, dim: int) -> I64:
    shape = noise_table("skellam", 256.0).sample(dim, InsecureSeededEntropy(3)).astype(np.float64)
    return np.trunc(null.allowance * shape / math.sqrt(float(np.square(shape).sum()))).astype(np.int64)


SMALL = Null("discrete-gaussian", 4.0, 3, 60.0)
LARGER = [(650, Null("skellam", 64.0, 5, 5 * 64.0)), (2_000, Null("skellam", 4.0, 4, 80.0))]


def check_rates(null: Null, dim: int, trials: int, signal: Callable[[Null, int], I64]) -> None:
    """Honest sums fail each check, the projection on their own signal included, at most at its rate."""
    mean, failed = signal(null, dim), Counter[str]()
    assert int(np.square(mean).sum()) <= null.signal_energy
    for noise in draws(null.law, null, (trials, dim), 61):
        failed.update(v.check for v in (check(mean + noise, null, ALPHA) for check in CHECKS) if not v.ok)
        reference = mean if mean.any() else noise[::-1]
        failed["projection"] += not projection(mean + noise, reference.astype(np.float64), null, ALPHA).ok
    assert max(failed.values()) <= at_most(trials, ALPHA), failed


@pytest.mark.parametrize("signal", [no_signal, spike, constant, clump, dense])
def test_honest_sums_fail_each_check_at_most_at_its_rate(signal: Callable[[Null, int], I64]) -> None:
    """At most 8.6 % of 1,000; coarse noise and a signal of 60 steps, the hardest setting."""
    check_rates(SMALL, 128, 1_000, signal)


@pytest.mark.parametrize(("dim", "null"), LARGER)
@pytest.mark.parametrize("signal", [constant, clump])
def test_larger_sums_fail_no_check_much_more_often(
    dim: int, null: Null, signal: Callable[[Null, int], I64]
) -> None:
    """At most 13 % of 200: a rate that grew with the number of coordinates would show."""
    check_rates(null, dim, 200, signal)


@pytest.mark.parametrize("signal", [no_signal, constant])
def test_energy_and_magnitudes_use_up_their_rates(signal: Callable[[Null, int], I64]) -> None:
    """Not by standing still: the exact checks come near their rates where they should."""
    null, dim, trials = Null("skellam", 32.0, 5, 100.0), 400, 600
    mean, failed = signal(null, dim), Counter[str]()
    for noise in draws("skellam", null, (trials, dim), 62):
        failed.update(v.check for v in (check(mean + noise, null, ALPHA) for check in CHECKS) if not v.ok)
    low = int(stats.binom.ppf(UNLIKELY, trials, ALPHA))
    assert failed["excess energy"] > (low if signal is constant else 0)
    if signal is no_signal:
        assert failed["noise floor"] > low
        assert failed["magnitudes"] > 0


@cache
def honest_rounds() -> tuple[tuple[SumVerdict, ...], ...]:
    """1,000 rounds of two honest sums each, with signals and a reference."""
    plan = CheckPlan(law="skellam", std=32.0, member_norm=32.0, alpha=ALPHA)
    null, dim = plan.null(5), 128
    noise = draws("skellam", null, (2_001, dim), 63) + dense(null, dim)
    return tuple(
        check_sums([OpenedSum(x, 5) for x in noise[i : i + 2]], plan, [noise[i - 1].astype(np.float64)])
        for i in range(1, 2_001, 2)
    )


def test_rounds_of_honest_sums_reject_any_at_most_at_the_rate() -> None:
    """The family-wise rate over 2 sums and 7 checks: at most 8.6 % of 1,000 rounds."""
    failed = sum(not all(verdict.ok for verdict in judged) for judged in honest_rounds())
    assert failed <= at_most(len(honest_rounds()), ALPHA)


def test_honest_clusters_are_not_convicted_over_rounds() -> None:
    """200 clusters, 10 rounds each, at 1 / 20: Ville's inequality on the real p-values."""
    sums = [verdict.e_values for judged in honest_rounds() for verdict in judged]
    ever = 0
    for first in range(0, len(sums), 10):
        evidence = CheckEvidence()
        for values in sums[first : first + 10]:
            evidence = evidence.after([values])
        ever += evidence.exceeds(0.05)
    assert ever <= at_most(200, 0.05)


def test_little_noise_is_found_over_rounds_that_each_let_it_pass() -> None:
    """1 of 12 adds no noise at d = 650: a round at 1 % finds it now and then, 40 rounds always."""
    plan = CheckPlan(law="skellam", std=32.0, member_norm=32.0)
    noise = draws("skellam", plan.null(11), (5 * 40, 650), 65).reshape(5, 40, 650)
    found = passed = 0
    for cluster in noise:
        evidence = CheckEvidence()
        for values in cluster:
            verdict = check_sums([OpenedSum(values, 12)], plan)[0]
            evidence = evidence.after([verdict.e_values])
            passed += verdict.ok
        found += evidence.exceeds(0.01)
    assert found == 5
    assert passed > 0.8 * 200


def test_skipped_noise_at_25450_coordinates() -> None:
    """The noise floor finds each of the f skippers of 5, and the one among 20 in most rounds at 1e-4."""
    null = Null("skellam", 64.0, 5, 5 * 64.0)
    for skippers in (1, 2, 4):
        fewer = Null("skellam", 64.0, 5 - skippers, 0.0)
        for noise in draws("skellam", fewer, (5, 25_450), 66):
            assert not CHECKS[0](noise + dense(null, 25_450), null, 1e-9).ok
    null, fewer = Null("skellam", 64.0, 20, 20 * 64.0), Null("skellam", 64.0, 19, 0.0)
    found = sum(not CHECKS[0](noise, null, 1e-4).ok for noise in draws("skellam", fewer, (40, 25_450), 67))
    assert found > 30


def test_the_published_pair_misses_79_coordinates_that_the_family_finds() -> None:
    """30 spreads of energy on 79 of 10^5 coordinates: the pair passes 85 % of them, and ours none."""
    dim, trials = 100_000, 30
    plan = CheckPlan(law="skellam", std=1024.0, member_norm=1024.0)
    size = round(30 * 1024 / math.sqrt(79))
    missed = found = 0
    for noise in draws("skellam", plan.null(1), (trials, dim), 68):
        noise[:79] += size * np.where(np.arange(79) % 2, 1, -1)
        missed += first_stage(noise.astype(np.float64), 1024.0).ok
        found += not check_sums([OpenedSum(noise, 1)], plan)[0].ok
    assert 0.6 * trials < missed < trials
    assert found == trials


def higher_criticism(values: I64, null: Null) -> float:
    """Donoho and Jin 2004, over the smaller half of the p-values that are at least 1 / d."""
    law = sum_law(null)
    p_values: F64 = np.sort(2 * law.from_on[np.minimum(np.abs(values), law.largest)])
    share = np.arange(1, values.size + 1) / values.size
    used = (share <= 0.5) & (p_values >= 1 / values.size)
    share, p_values = share[used], p_values[used]
    return float(((share - p_values) / np.sqrt(p_values * (1 - p_values) / values.size)).max())


def test_counts_have_about_the_power_of_higher_criticism() -> None:
    """Without a signal, against critical values of higher criticism from 200 sums."""
    null, dim, trials = Null("skellam", 64.0, 4, 0.0), 5_000, 100
    critical = np.quantile([higher_criticism(v, null) for v in draws("skellam", null, (200, dim), 69)], 0.95)
    powers = []
    for count, spreads in ((3, 4.5), (12, 3.3), (60, 2.3)):
        counts = criticism = 0
        for values in draws("skellam", null, (trials, dim), 70):
            values[:count] += round(spreads * null.sum_std)
            counts += not tail_counts(values, null, ALPHA).ok
            criticism += higher_criticism(values, null) > critical
        powers.append((counts / trials, criticism / trials))
    assert all(counts > criticism - 0.15 for counts, criticism in powers), powers
    assert [counts > 0.6 for counts, _ in powers] == [False, True, True], powers


def test_more_deviation_is_found_more_often() -> None:
    """Power grows with the noise that one of 5 scales, from next to nothing to always."""
    plan = CheckPlan(law="skellam", std=64.0, member_norm=64.0)
    honest = draws("skellam", plan.null(4), (30, 5_000), 71)
    own = draws("skellam", plan.null(1), (30, 5_000), 72)
    found = [
        sum(
            not check_sums([OpenedSum(rest + np.rint(factor * one).astype(np.int64), 5)], plan)[0].ok
            for rest, one in zip(honest, own, strict=True)
        )
        for factor in (1.0, 1.2, 1.4, 2.0)
    ]
    assert found[0] <= at_most(30, 0.01)
    assert all(low <= high for low, high in pairwise(found))
    assert found[-1] == 30
