"""What SHARE (Velicheti, Xia, Koyejo 2021) says about robustness, against exact counts and the rules.

Findings R1 to R9 of docs/results/what-we-found.md. Lemmas 1 and 2 through the real path are in
tests/simulation, the scale of Zeno++'s threshold in tests/unit/robust/test_zeno.py.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from securefl.base.arrays import F64
from securefl.base.errors import UsageError
from securefl.base.stack import ClusterMeans
from securefl.methods.clustering.reclustering import (
    exact_variance_factor,
    p_withstands,
)
from securefl.methods.clustering.sizes import cluster_sizes
from securefl.methods.robust.catalogue import aggregate
from securefl.methods.robust.rules.bulyan import Bulyan
from securefl.methods.robust.rules.fltrust import FlTrust
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.mean import Mean
from securefl.methods.robust.rules.median import Median
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus
from securefl.methods.robust.tolerance import breakdown
from securefl.scenario.aggregation import Rule
from tests.unit.findings.partitions import Clusters, partitions
from tests.unit.findings.reclustering_bounds import p_never_clean, worst_case_tolerance


def result_of(rule: Rule, rows: F64, gradient: F64 | None = None) -> F64:
    equal = np.ones(len(rows))
    return aggregate(rule, ClusterMeans(rows, equal, equal.astype(np.int64), server_gradient=gradient)).vector


# R1: appendix E, the chance that a benign party is in no clean cluster.


def p_cluster_clean(parties: int, byzantine: int, size: int) -> float:
    """C(n - q, m) / C(n, m)."""
    return math.comb(parties - byzantine, size) / math.comb(parties, size)


def as_printed_in_e(parties: int, byzantine: int, mates: int) -> Fraction:
    return 1 - Fraction(math.comb(parties - byzantine, mates), math.comb(parties, mates))


@pytest.mark.parametrize(("parties", "byzantine", "size"), [(6, 2, 2), (6, 2, 3), (6, 1, 3), (4, 1, 2)])
def test_appendix_e_counts_the_party_among_its_own_mates(parties: int, byzantine: int, size: int) -> None:
    """Over all orders of the parties; the Byzantine ones are the first."""
    victim, lost = parties - 1, 0
    orders = list(permutations(range(parties)))
    for order in orders:
        start = order.index(victim) // size * size
        lost += any(party < byzantine for party in order[start : start + size])
    true = Fraction(lost, len(orders))
    assert float(true) == pytest.approx(p_never_clean(parties, byzantine, size, 1))
    assert as_printed_in_e(parties, byzantine, size - 1) < true
    assert as_printed_in_e(parties, byzantine, parties // size - 1) != true


def test_appendix_e_in_numbers() -> None:
    true, mates, clusters = (
        p_never_clean(60, 12, 3, 1),
        as_printed_in_e(60, 12, 2),
        as_printed_in_e(60, 12, 19),
    )
    assert (round(true, 4), round(float(mates), 4), round(float(clusters), 4)) == (0.3682, 0.3627, 0.9944)


# R2: Theorems 3, 4, 7 and 8, variance of the mean over reclusterings.


@pytest.mark.parametrize("reclusterings", [1, 2, 3])
def test_the_variance_factor_of_the_theorems_is_exact_for_one_reclustering_only(reclusterings: int) -> None:
    """Six parties, one Byzantine, in pairs: two clusters are always clean. All tuples of 15 clusterings."""
    parties, byzantine, size, picked = 6, 1, 2, 2
    values = [Fraction(v) for v in (0, 1, -3, 4, -4, 2)]  # the first is the Byzantine one's, never used
    benign = values[byzantine:]
    mean = sum(benign) / len(benign)
    variance = sum((v - mean) ** 2 for v in benign) / len(benign)
    errors = []
    for clusters in partitions(range(parties), size):
        clean = [values[p] for members in clusters if 0 not in members for p in members]
        assert len(clean) == picked * size
        errors.append(sum(clean) / len(clean) - mean)
    tuples = list(product(errors, repeat=reclusterings))
    found = sum((sum(some) / reclusterings) ** 2 for some in tuples) / len(tuples)
    factor = float(found / variance) * picked * size
    assert factor == pytest.approx(exact_variance_factor(parties, byzantine, size, picked, reclusterings))
    # Theorems 3 and 7 treat R draws of b m out of n - q as one draw of R b m out of R (n - q).
    count = parties - byzantine
    printed = (count - size * picked) / (reclusterings * count - 1)
    assert printed == pytest.approx(factor * 4 * reclusterings / (5 * reclusterings - 1))
    assert (printed == pytest.approx(factor)) is (reclusterings == 1)


# R3: Lemma 2, how many Byzantine parties.


def divisors(parties: int) -> list[int]:
    return [m for m in range(1, parties + 1) if parties % m == 0]


def test_lemma_2_is_right_for_the_median_and_for_fixed_fractions() -> None:
    for parties, size in ((n, m) for n in range(3, 61) for m in divisors(n)):
        clusters = parties // size
        assert breakdown(Median(), parties) // size == breakdown(Median(), clusters)
        for percent in (5, 10, 33, 45):
            assert parties * percent // 100 // size == clusters * percent // 100


def most_tolerated(kind: type[Krum | Bulyan], rows: int) -> int:
    """The largest number for which the rule's guarantee holds on so many rows."""
    return max(breakdown(kind(byzantine=f), rows) for f in range(rows))


def test_lemma_2_credits_bulyan_with_one_where_one_breaks_it() -> None:
    """60 parties in clusters of 10: floor(14 / 10) = 1, but 6 rows allow only f = 0, which is the mean."""
    assert most_tolerated(Bulyan, 60) // 10 == 1
    assert most_tolerated(Bulyan, 6) == worst_case_tolerance(60, 10, 0) == 0
    rows = np.random.default_rng(1).normal(size=(6, 4))
    rows[0] = 1e9
    with pytest.raises(UsageError, match="at least 7"):
        result_of(Bulyan(byzantine=1), rows)
    assert result_of(Bulyan(byzantine=0), rows).min() > 1e8


def test_lemma_2_credits_krum_with_more_than_its_proof_covers() -> None:
    """2 f + 2 < c: 28 of 60 parties, 9 by Lemma 2 in clusters of 3, and 8 of 20 rows."""
    assert most_tolerated(Krum, 60) // 3 == 9
    assert most_tolerated(Krum, 20) == 8
    too_many = [
        (n, m)
        for n in range(3, 61)
        for m in divisors(n)
        if most_tolerated(Krum, n) // m > most_tolerated(Krum, n // m)
    ]
    assert (60, 3) in too_many
    assert all(m > 1 for _, m in too_many)


def test_lemma_2_read_as_the_tolerance_on_what_the_rule_gets_is_m_times_too_small() -> None:
    """Six of 20 rows trimmed at each end: six parties, wherever they are, and not 6 / 3."""
    rows = np.random.default_rng(2).normal(size=(20, 4))
    low, high = rows[6:].min(axis=0), rows[6:].max(axis=0)
    rows[:6] = 1e9
    result = result_of(TrimmedMean(trim=6), rows)
    assert (low <= result).all()
    assert (result <= high).all()
    assert worst_case_tolerance(60, 3, breakdown(TrimmedMean(trim=6), 20)) == 6


@pytest.mark.parametrize("rule", [FlTrust(), ZenoPlusPlus(scale="mean")])
def test_lemma_2_counts_clusters_where_the_server_has_its_own_data(rule: Rule) -> None:
    """All 60 parties may be Byzantine; q0 / m stops at the 20 clusters."""
    assert worst_case_tolerance(60, 3, breakdown(rule, 20)) == 60
    gradient = np.random.default_rng(3).normal(size=4)
    result = result_of(rule, np.full((20, 4), 1e9), gradient)
    assert np.linalg.norm(result) <= np.linalg.norm(gradient) * (1 + 1e-12)


# R4: section 6.1.1, what a trimmed mean that removes 2/3 tolerates.

REMOVED = {3: 6, 5: 4, 10: 2, 15: 1}
"""By cluster size, the values trimmed at each end of 60 / m cluster means: a third of them, rounded down."""


@pytest.mark.parametrize(("size", "trim"), REMOVED.items())
def test_6_1_1_one_side_is_what_counts(size: int, trim: int) -> None:
    clusters = 60 // size
    assert trim == clusters // 3
    rule = TrimmedMean(trim=trim)
    rows = np.random.default_rng(4).normal(size=(clusters, 3))
    for liars, bounded in ((trim, True), (trim + 1, False)):
        attacked = rows.copy()
        attacked[:liars] = 1e9
        assert bool(np.abs(result_of(rule, attacked)).max() < 10) is bounded
    # All of these are below the 12 of the experiment, and 40 / m is not what any of them withstands.
    assert trim < 12
    assert trim < 40 / size


def test_6_1_1_twelve_of_sixty_spoil_half_of_the_clusters_of_three() -> None:
    """Worst case and average: no trimmed mean is covered, whatever it trims."""
    dirty = 20 * (1 - p_cluster_clean(60, 12, 3))
    assert dirty == pytest.approx(9.89, abs=0.005)
    assert p_withstands(60, 12, 3, 6, 1) < 0.0005
    assert p_withstands(60, 12, 3, 9, 1) < 0.35
    assert max(trim for trim in range(20) if TrimmedMean(trim=trim).clusters_needed <= 20) == 9


def test_6_1_1_krum_is_not_covered_by_the_lemma_either() -> None:
    assert most_tolerated(Krum, 60) / 3 < 12


# R5: what reclustering does for robustness (sections 4.1, 6.1.2 and 7).


def test_more_reclusterings_break_more_rounds() -> None:
    """Median, 60 parties in clusters of 3, ten Byzantine: of R results one that is off is enough."""
    withstood = breakdown(Median(), 20)
    chances = [p_withstands(60, 10, 3, withstood, r) for r in (1, 2, 5, 10)]
    assert [round(chance, 3) for chance in chances] == [0.855, 0.732, 0.458, 0.209]


def test_reclustering_does_not_raise_the_share_of_the_signal() -> None:
    """Zeno++ accepts the clean clusters: in expectation the same share of a full step for every R."""
    gradient = np.array([1.0, -1.0])
    rule = ZenoPlusPlus(scale="mean", rho=1e-4)
    steps: dict[Clusters, F64] = {}
    for clusters in partitions(range(6), 2):
        means = np.stack([10.0 * gradient if {0, 1} & set(members) else -gradient for members in clusters])
        steps[clusters] = result_of(rule, means, gradient)
    share = p_cluster_clean(6, 2, 2)
    for reclusterings in (1, 2):
        taken = [np.mean(some, axis=0) for some in product(steps.values(), repeat=reclusterings)]
        np.testing.assert_allclose(np.mean(taken, axis=0), -share * gradient, rtol=1e-12)
    # What does fall is the chance of no step at all.
    nothing = [sum(not np.any(some) for some in product(steps.values(), repeat=r)) / 15**r for r in (1, 2)]
    assert nothing[1] == pytest.approx(nothing[0] ** 2)


def test_figure_3_steps_are_short_for_every_number_of_reclusterings() -> None:
    panels = ((60, 6, 10), (60, 30, 4), (100, 6, 25))
    assert [round(p_cluster_clean(n, q, m), 3) for n, q, m in panels] == [0.317, 0.056, 0.169]
    # That no cluster at all is clean:
    nothing = [1 - p_withstands(n, q, m, n // m - 1, 1) for n, q, m in panels]
    assert [round(chance, 2) for chance in nothing] == [0.02, 0.37, 0.4]


def test_reclustering_does_not_lower_what_the_rule_gets_wrong_each_time() -> None:
    """One party of six has all that is to be learnt, and the median of three pairs never hears of it."""
    values = np.array([9.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    results = [
        result_of(Median(), np.array([[values[list(members)].mean()] for members in clusters]))[0]
        for clusters in partitions(range(6), 2)
    ]
    assert results == [0.0] * 15
    assert values.mean() == 1.5


# R6: sums that are called averages (Algorithm 1, definition B.1, Lemma 1).


@pytest.mark.parametrize("rule", [Mean(), Median(), TrimmedMean(trim=1), Krum(byzantine=1)])
@pytest.mark.parametrize("size", [2, 3, 4])
def test_algorithm_1_by_the_letter_steps_c_times_too_short(rule: Rule, size: int) -> None:
    """All agree on an update x; the n_i / n of the clients and a rule on sums make x / c of it."""
    parties, x = 24, np.array([2.0, -1.0])
    clusters = parties // size
    shares = np.tile(x / parties, (parties, 1)).reshape(clusters, size, 2)
    np.testing.assert_allclose(result_of(rule, shares.sum(axis=1)), x / clusters)
    # Means of the unweighted updates, as in this program:
    np.testing.assert_allclose(result_of(rule, parties * shares.mean(axis=1)), x)


def test_cluster_sums_of_unequal_sample_counts_look_like_outliers() -> None:
    """A party with 99 % of the samples, in agreement with everybody, loses them in the median of sums."""
    x = np.array([1.0])
    counts = np.array([990.0, 2, 2, 2, 2, 2])
    sums = (counts / counts.sum() * x).reshape(3, 2).sum(axis=1, keepdims=True)
    assert result_of(Median(), sums)[0] == pytest.approx(0.004)
    means = np.tile(x, (3, 1))
    assert result_of(Median(), means)[0] == 1.0


# R7: Theorem 4 (8), Zeno++.


@pytest.mark.parametrize("constant", [1.0, 1e3, 1e6])
def test_theorem_4_does_not_hold_whatever_the_constant(constant: float) -> None:
    """F(x) = 1 - cos x, no attack, exact gradients: with rho the bound goes to 0, and no step is taken."""
    eta, eta_l, eps, rounds, x = 0.5, 0.01, 0.2, 1000, math.pi / 2  # L = B = K = 1, and eta <= 1 / (2 L)
    loss, slope = 1 - math.cos(x), math.sin(x)
    rho = 1e8 * constant
    alpha = (rho - eta) * 6 * eta_l**2 / math.sqrt(eta)
    assert rho >= alpha * math.sqrt(eta) / (6 * eta_l**2) + eta - 1e-6
    means = np.full((20, 1), -eta_l * slope)
    rule = ZenoPlusPlus(scale="sum", rho=rho, eps=eps, eta=eta)
    assert not result_of(rule, means, np.array([slope])).any()
    # So x, and with it the squared gradient, stays. G = sigma = sigma_g = V1 = 0; V3 = 4 bounds F^2:
    bound = loss / (alpha * math.sqrt(eta) * rounds) + math.sqrt(eta) / alpha * constant * (4.0 + eps)
    assert bound < 0.01 < slope**2


def test_theorem_4_asks_for_another_rho_than_the_experiments_have() -> None:
    """rho > eta; published: rho = 1e-4 or 1e-5 with eta = 1."""
    for rho in (1e-4, 1e-5):
        largest_alpha = (rho - 1.0) * 6 * 2**2 * 0.01**2  # two local epochs, B = 1
        assert largest_alpha < 0


# R8: definition 5.2, a variance around a sum.


def test_definition_5_2_finds_a_variance_where_all_agree() -> None:
    updates = np.tile([2.0, -1.0], (60, 1))
    printed = ((updates - updates.sum(axis=0)) ** 2).sum(axis=1).mean()
    assert printed == pytest.approx(59**2 * 5.0)
    assert ((updates - updates.mean(axis=0)) ** 2).sum() == 0.0


# R9: captions and text.


@pytest.mark.parametrize(("parties", "size"), [(50, 3), (50, 4)])
def test_equal_clusters_of_fifty_parties_in_threes_do_not_exist(parties: int, size: int) -> None:
    """Algorithm 1 asks for clusters of one size; Figures 6 and 7 have 50 parties, appendix D.2 m = 3."""
    assert len(set(cluster_sizes(parties, size))) == 2
    assert len(set(cluster_sizes(60, size))) == 1
