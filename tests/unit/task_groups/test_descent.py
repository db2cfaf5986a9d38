"""Algorithm 1 against a naive one, and what each of its parts promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from securefl.base.entropy import InsecureSeededEntropy
from securefl.base.errors import UsageError
from securefl.methods.attacks.parts.alie import alie
from securefl.methods.attacks.parts.fall_of_empires import fall_of_empires
from securefl.methods.attacks.parts.inner_product_manipulation import inner_product_manipulation
from securefl.methods.attacks.parts.local_model_poisoning import against_krum, against_trimmed_mean
from securefl.methods.attacks.parts.mimic import mimic
from securefl.methods.attacks.parts.min_max import min_max
from securefl.methods.attacks.parts.min_sum import min_sum
from securefl.methods.robust.rules.bulyan import Bulyan
from securefl.methods.robust.rules.centred_clipping import CentredClipping
from securefl.methods.robust.rules.fltrust import FlTrust
from securefl.methods.robust.rules.geometric_median import GeometricMedian
from securefl.methods.robust.rules.inner_product import InnerProduct
from securefl.methods.robust.rules.krum import Krum
from securefl.methods.robust.rules.mean import Mean
from securefl.methods.robust.rules.mean_around_median import MeanAroundMedian
from securefl.methods.robust.rules.median import Median
from securefl.methods.robust.rules.minimum_diameter import MinimumDiameter
from securefl.methods.robust.rules.multi_krum import MultiKrum
from securefl.methods.robust.rules.sign_majority import SignMajority
from securefl.methods.robust.rules.trimmed_mean import TrimmedMean
from securefl.methods.robust.rules.zeno_plus_plus import ZenoPlusPlus
from securefl.methods.task_groups.adversary import Craft, Outlier, SmallestGroup, Turn, reversed_mean
from securefl.methods.task_groups.descent import NOBODY, Settings, descend, project, three_stage
from securefl.methods.task_groups.generate import Kind, ProblemSetup, draw, random_models
from securefl.methods.task_groups.means import Means
from securefl.methods.task_groups.problem import Choice, least, matched_distance, recovery_rate, spans
from securefl.methods.task_groups.regression import Moments, Regressions
from securefl.methods.task_groups.rule import GroupRule, TrimmedShare, combine
from securefl.methods.task_groups.starts import halves, near_truth, split
from securefl.scenario.aggregation import Rule
from tests.tiers import examples
from tests.unit.task_groups import naive

SETUP = ProblemSetup(groups=3, machines=14, points=8, dimension=4, byzantine=0.15, fewest=5)


@pytest.mark.parametrize(
    ("rule", "plain"),
    [
        (Median(), naive.coordinate_median),
        (TrimmedShare(0.2), naive.coordinate_trimmed(0.2)),
        (Mean(), naive.coordinate_mean),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_same_as_a_naive_one(
    rule: GroupRule, plain: Callable[[Sequence[naive.F64]], naive.F64], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    drawn = draw(SETUP, rng)
    assert isinstance(drawn.problem, Moments)
    whole = drawn.problem.whole
    machines = [(x[:n], y[:n]) for x, y, n in zip(whole.x, whole.y, whole.counts.tolist(), strict=True)]
    start = random_models(SETUP, rng)
    liars = set(np.flatnonzero(drawn.byzantine).tolist())
    expected = naive.run(machines, liars, start, plain, 0.1, 12, radius=0.9)
    settings = Settings(rule=rule, rate=0.1, iterations=12, radius=0.9)
    for problem in (drawn.problem, whole):
        found = descend(problem, start, settings, drawn.byzantine, Outlier())
        np.testing.assert_allclose(found.models, expected.models, rtol=1e-9, atol=1e-12)
        assert found.choice.tolist() == expected.groups
        assert found.refused == 0


@pytest.mark.parametrize("kind", ["regression", "gaussian-mean", "poisson-mean"])
def test_groups_are_recovered_from_near_the_truth(kind: Kind) -> None:
    setup = ProblemSetup(groups=3, machines=30, points=40, dimension=6, byzantine=0.1, noise=0.2, kind=kind)
    drawn = draw(setup, np.random.default_rng(5))
    start = near_truth(drawn, 0.25, np.random.default_rng(1))
    settings = Settings(rule=TrimmedShare(0.2), rate=0.1, iterations=60)
    found = descend(drawn.problem, start, settings, drawn.byzantine, Outlier())
    assert recovery_rate(found.choice, drawn.labels, ~drawn.byzantine, 3) == 1.0
    plain = descend(
        drawn.problem, start, Settings(rule=Mean(), rate=0.1, iterations=60), drawn.byzantine, Outlier()
    )
    assert matched_distance(found.models, drawn.truth) < matched_distance(plain.models, drawn.truth)


@pytest.mark.parametrize("rule", [Median(), Krum(byzantine=3), MultiKrum(byzantine=3, keep=5)])
def test_any_rule_holds_against_all_byzantine_machines_in_the_smallest_group(
    rule: Median | Krum | MultiKrum,
) -> None:
    setup = ProblemSetup(groups=2, machines=23, points=60, dimension=5, byzantine=0.14, noise=0.2)
    drawn = draw(setup, np.random.default_rng(3))
    start = near_truth(drawn, 0.25, np.random.default_rng(4))
    settings = Settings(rule=rule, rate=0.1, iterations=60)
    attack = SmallestGroup(reversed_mean(10.0))
    found = descend(drawn.problem, start, settings, drawn.byzantine, attack)
    broken = descend(
        drawn.problem, start, Settings(rule=Mean(), rate=0.1, iterations=60), drawn.byzantine, attack
    )
    assert matched_distance(found.models, drawn.truth) < 0.2
    assert matched_distance(broken.models, drawn.truth) > 0.5


@pytest.mark.parametrize(
    "rule",
    [
        TrimmedMean(trim="weight", beta=0.2),
        TrimmedMean(trim="count", beta=0.2),
        MeanAroundMedian(byzantine=2),
        Bulyan(byzantine=2),
        GeometricMedian(),
        CentredClipping(radius=1.0),
        MinimumDiameter(byzantine=2),
        SignMajority(step=0.1),
    ],
    ids=str,
)
def test_every_other_rule_is_better_than_the_mean_against_outliers(rule: Rule) -> None:
    drawn = draw(
        ProblemSetup(groups=2, machines=40, points=60, dimension=5, byzantine=0.1, noise=0.2),
        np.random.default_rng(3),
    )
    start = near_truth(drawn, 0.25, np.random.default_rng(4))

    def distance(chosen: Rule) -> float:
        settings = Settings(rule=chosen, rate=0.1, iterations=60)
        found = descend(drawn.problem, start, settings, drawn.byzantine, Outlier())
        return matched_distance(found.models, drawn.truth)

    assert distance(rule) < 0.7 * distance(Mean())


@pytest.mark.parametrize("rule", [FlTrust(), ZenoPlusPlus(), InnerProduct(gamma=0.5)], ids=str)
def test_rules_that_ask_for_the_servers_data_are_refused_before_anything_is_done(rule: Rule) -> None:
    with pytest.raises(UsageError, match="have no group"):
        Settings(rule=rule)


@pytest.mark.parametrize(
    "craft",
    [
        lambda known: alie(known, 1.5),
        lambda known: fall_of_empires(known, 10.0),
        lambda known: inner_product_manipulation(known, 10.0),
        mimic,
        lambda known: min_max(known, "std"),
        lambda known: min_sum(known, "std"),
        lambda known: against_trimmed_mean(known, InsecureSeededEntropy(1)),
        lambda known: against_krum(known, 3),
    ],
)
def test_the_median_holds_against_the_attacks_of_behaviours(craft: Craft) -> None:
    setup = ProblemSetup(groups=2, machines=23, points=60, dimension=5, byzantine=0.14, noise=0.2)
    drawn = draw(setup, np.random.default_rng(3))
    start = near_truth(drawn, 0.25, np.random.default_rng(4))
    found = descend(
        drawn.problem,
        start,
        Settings(rule=Median(), rate=0.1, iterations=40),
        drawn.byzantine,
        SmallestGroup(craft),
    )
    assert found.refused == 0
    assert matched_distance(found.models, drawn.truth) < 0.2


def test_a_machine_weighs_as_many_as_its_points_where_that_is_asked_for() -> None:
    """The first step of a mean of means is then that of the mean of all points."""
    problem = Means((np.zeros((1, 1)), np.full((3, 1), 4.0)))
    steps = [
        float(
            descend(
                problem,
                np.zeros((1, 1)),
                Settings(rule=Mean(), rate=0.5, iterations=1, weights=weights),
            ).models[0, 0]
        )
        for weights in ("equal", "points")
    ]
    assert steps == [2.0, 3.0]


def test_fresh_parts_of_means() -> None:
    """Iteration 0 chooses by point 0 and steps by point 1, iteration 1 by points 2 and 3."""
    problem = Means((np.array([[0.0], [8.0], [0.0], [4.0]]), np.array([[9.0], [20.0], [9.0], [30.0]])))
    settings = Settings(rule=Mean(), rate=0.5, iterations=2, resample=True)
    found = descend(problem, np.array([[1.0], [10.0]]), settings)
    # After the first step the models are at 8 and 20: point 2 of the second machine, 9, is nearer to 8.
    assert found.choice.tolist() == [0, 0]
    assert found.models.tolist() == [[17.0], [20.0]]


def test_attackers_without_honest_mates_send_their_own_gradient() -> None:
    problem = Means((np.zeros((1, 1)), np.full((1, 1), 9.0)))
    turn = Turn(
        np.array([[0.0], [9.0]]),
        problem.only(np.array([False, True])),
        np.zeros(0, dtype=np.intp),
        np.zeros((0, 1)),
    )
    choice, sent = SmallestGroup(lambda known: known[0] + 100.0).send(turn)
    assert choice.tolist() == [0]
    assert sent.tolist() == [[-18.0]]


class _Garbage:
    """Names a group that is not there and sends what is not finite."""

    def send(self, turn: Turn) -> tuple[Choice, naive.F64]:
        vectors = np.zeros((turn.byzantine.machines, turn.models.shape[1]))
        vectors[0] = np.nan
        choice = np.zeros(turn.byzantine.machines, dtype=np.intp)
        choice[1] = 7
        return choice, vectors


def test_messages_that_cannot_be_used_are_refused_and_counted() -> None:
    drawn = draw(SETUP, np.random.default_rng(0))
    settings = Settings(rule=Mean(), iterations=3)
    start = random_models(SETUP, np.random.default_rng(1))
    found = descend(drawn.problem, start, settings, drawn.byzantine, _Garbage())
    honest = descend(drawn.problem.only(~drawn.byzantine), start, settings)
    assert found.refused == 6
    np.testing.assert_array_equal(found.choice[drawn.byzantine], [NOBODY, NOBODY])
    np.testing.assert_array_equal(found.models, honest.models)


def test_a_group_that_is_empty_or_too_small_keeps_its_model() -> None:
    problem = Means(tuple(np.full((1, 1), float(value)) for value in (0, 0, 0, 0, 10)))
    start = np.array([[1.0], [9.0], [500.0]])
    found = descend(problem, start, Settings(rule=MultiKrum(byzantine=0, keep=1), rate=0.5, iterations=1))
    # One member is fewer than Krum needs; nobody is in the third group.
    assert found.models.tolist() == [[0.0], [9.0], [500.0]]
    assert found.waited == 2


def test_resampling_takes_fresh_points_and_says_when_there_are_too_few() -> None:
    drawn = draw(
        ProblemSetup(groups=2, machines=6, points=8, dimension=2, byzantine=0.0), np.random.default_rng(0)
    )
    start = near_truth(drawn, 0.25, np.random.default_rng(1))
    once = descend(drawn.problem, start, Settings(rule=Mean(), rate=0.1, iterations=1, resample=True))
    assert isinstance(drawn.problem, Moments)
    x, y = drawn.problem.whole.x, drawn.problem.whole.y
    groups = [
        int(np.argmin([naive.loss((a[:4], b[:4]), t) for t in start])) for a, b in zip(x, y, strict=True)
    ]
    steps = [naive.gradient((a[4:], b[4:]), start[g]) for a, b, g in zip(x, y, groups, strict=True)]
    for j in range(2):
        mine = [step for step, g in zip(steps, groups, strict=True) if g == j]
        np.testing.assert_allclose(once.models[j], start[j] - 0.1 * naive.coordinate_mean(mine))
    with pytest.raises(UsageError, match="machine 0 must have at least 10 points"):
        descend(drawn.problem, start, Settings(rule=Mean(), iterations=5, resample=True))


@given(st.lists(st.integers(3, 50), min_size=1, max_size=5), st.integers(1, 3))
def test_parts_are_disjoint_and_whole(counts: list[int], parts: int) -> None:
    each = [spans(np.array(counts), number, parts) for number in range(parts)]
    for machine, count in enumerate(counts):
        taken = [i for first, end in each for i in range(first[machine], end[machine])]
        assert taken == list(range(count))
        sizes = [int(end[machine] - first[machine]) for first, end in each]
        assert max(sizes) - min(sizes) <= 1


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(0.1, 4))
def test_projection_is_the_nearest_point_of_the_ball(values: list[float], radius: float) -> None:
    model = np.array(values)
    found = project(model, radius)
    assert np.linalg.norm(found) <= radius * (1 + 1e-12)
    length = float(np.linalg.norm(model))
    assert np.linalg.norm(model - found) == pytest.approx(max(0.0, length - radius), abs=1e-9)


@tries(max_examples=examples(20))
@given(st.permutations(range(9)), st.sampled_from([Median(), TrimmedShare(0.2), Mean()]))
def test_the_order_of_the_machines_does_not_matter(order: list[int], rule: GroupRule) -> None:
    setup = ProblemSetup(groups=2, machines=9, points=6, dimension=3, byzantine=0.0, fewest=3)
    drawn = draw(setup, np.random.default_rng(2))
    assert isinstance(drawn.problem, Moments)
    whole = drawn.problem.whole
    turned = Regressions(whole.x[order], whole.y[order], whole.counts[order])
    start = random_models(setup, np.random.default_rng(3))
    settings = Settings(rule=rule, rate=0.1, iterations=4, weights="points")
    one, two = descend(whole, start, settings), descend(turned, start, settings)
    np.testing.assert_allclose(one.models, two.models, atol=1e-9)
    assert one.choice[order].tolist() == two.choice.tolist()


def test_a_group_trims_at_least_its_share() -> None:
    trims = [TrimmedShare(0.05).of(members) for members in (2, 20, 21, 40, 42)]
    assert trims == [Mean(), *(TrimmedMean(trim=trim) for trim in (1, 2, 2, 3))]
    assert combine(TrimmedShare(0.4), np.ones((2, 1)), np.ones(2)) == pytest.approx(1.0)
    with pytest.raises(UsageError, match="share, trimmed at each end"):
        TrimmedShare(0.5)


def test_losses_that_are_not_finite_name_the_machine() -> None:
    with pytest.raises(UsageError, match="the loss of machine 1 at model 0 must be finite, found nan"):
        least(np.array([[0.0, 1.0], [np.nan, 1.0]]))
    assert least(np.array([[2.0, 2.0]])).tolist() == [0]
    problem = Means((np.ones((1, 1)),) * 2)
    with pytest.raises(UsageError, match="smaller learning rate"), np.errstate(over="ignore"):
        descend(problem, np.array([[5.0]]), Settings(rule=Mean(), rate=1e9, iterations=60))


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (np.zeros((3, 1)), "start must have 1 to 2 rows"),
        (np.zeros((1, 2)), "start"),
        (np.full((1, 1), np.inf), "finite"),
    ],
)
def test_starts_that_do_not_fit(start: naive.F64, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        descend(Means((np.ones((1, 1)),) * 2), start, Settings(rule=Mean()))


def test_setups_that_make_no_sense() -> None:
    with pytest.raises(UsageError, match="groups must be at most 2, the number of honest machines; found 3"):
        ProblemSetup(groups=3, machines=4, dimension=2, byzantine=0.5)
    with pytest.raises(UsageError, match="fewest must be from 1 to 100"):
        ProblemSetup(groups=1, machines=4, dimension=2, fewest=101)
    with pytest.raises(UsageError, match="different parameters; found 2 groups"):
        draw(ProblemSetup(groups=2, machines=4, dimension=1), np.random.default_rng(0))
    with pytest.raises(UsageError, match="finite"):
        Means((np.array([[np.nan]]),))
    with pytest.raises(UsageError, match="must be zero"):
        Regressions(np.ones((1, 2, 1)), np.ones((1, 2)), np.array([1]))


def test_halves_of_sums_of_mixed_clusters_find_all_groups() -> None:
    """Where sums of 3 of 60 machines in 4 groups are all that is looked at, and 3 machines lie."""
    setup = ProblemSetup(groups=4, machines=60, points=40, dimension=20, byzantine=0.05, noise=0.2)
    drawn = draw(setup, np.random.default_rng(8))
    settings = Settings(rule=TrimmedShare(0.1), rate=0.05, iterations=100)
    start = halves(
        drawn.problem, 4, settings, np.random.default_rng(0), drawn.byzantine, Outlier(), cluster=3
    )
    found = descend(drawn.problem, start, settings, drawn.byzantine, Outlier())
    assert recovery_rate(found.choice, drawn.labels, ~drawn.byzantine, 4) == 1.0


def test_halves_need_two_sums() -> None:
    drawn = draw(ProblemSetup(groups=2, machines=5, points=10, dimension=2), np.random.default_rng(8))
    settings = Settings(rule=TrimmedShare(0.1), rate=0.05)
    nobody = np.zeros(5, dtype=bool)
    with pytest.raises(UsageError, match="no two sums of 3"):
        halves(drawn.problem, 2, settings, np.random.default_rng(0), nobody, None, cluster=3)


def test_the_split_start_needs_no_oracle_and_three_stage_finds_far_groups() -> None:
    setup = ProblemSetup(groups=3, machines=40, points=40, dimension=8, byzantine=0.05, noise=0.2)
    drawn = draw(setup, np.random.default_rng(8))
    settings = Settings(rule=TrimmedShare(0.1), rate=0.05, iterations=100)
    rng = np.random.default_rng(0)
    start = split(drawn.problem, 3, settings, rng, drawn.byzantine, Outlier())
    found = descend(drawn.problem, start, settings, drawn.byzantine, Outlier())
    assert recovery_rate(found.choice, drawn.labels, ~drawn.byzantine, 3) == 1.0
    staged = three_stage(drawn.problem, 3, 0.1, settings, rng, drawn.byzantine, Outlier())
    assert recovery_rate(staged.groups, drawn.labels, ~drawn.byzantine, 3) == 1.0
    assert matched_distance(staged.descent.models, found.models) < 0.05
    oracle = three_stage(drawn.problem, 3, 0.1, settings, rng, drawn.byzantine, Outlier(), oracle=drawn.truth)
    np.testing.assert_array_equal(oracle.centroids, drawn.truth)
    assert oracle.groups[~drawn.byzantine].tolist() == drawn.labels[~drawn.byzantine].tolist()
    # Groups are settled: the descent leaves them, those of liars included.
    assert oracle.descent.choice.tolist() == oracle.groups.tolist()
