"""When a further model of task groups begins, from which one, and which sums are too long to count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from securefl.base.arrays import F32, F64
from securefl.methods.clustering.assignment import Assignment
from securefl.methods.encoding.ring import to_ring
from securefl.protocol.round.server.group_start import is_split_due, model_count, split_models
from securefl.protocol.round.server.group_sums import aggregate_groups, screen_sums
from securefl.protocol.round.server.stacking import ClusterSum
from securefl.protocol.round.shared.draw import Draw
from securefl.protocol.round.shared.plan import RunPlan
from securefl.protocol.round.shared.reports import ClusterKey
from securefl.protocol.round.shared.slots import FIRST_SLOT
from tests.simulation.world import scenario
from tests.unit.round.samples import plan_of

LENGTH = 1024
DRAWN = Draw(bytes(32), Assignment((), ((),)), {}, ())
A, B = 8.0 * np.eye(LENGTH)[0], 8.0 * np.eye(LENGTH)[1]


def a_plan(**more: str) -> RunPlan:
    groups = {
        "groups__count": "3",
        "groups__mode": "hidden",
        "threshold": "4",
        "min_survivors": "4",
        "groups__warmup": "2",
        "size": "4",
        "clustering__atoms": "4",
        "weighting__mode": "ignore",
    }
    return plan_of(scenario(12, **(groups | more)), LENGTH)


def slots(plan: RunPlan, model: int, means: Sequence[F64]) -> tuple[list[ClusterSum], dict[ClusterKey, int]]:
    """The opened slots of one model, two members in each."""
    bits, scale = plan.limits.ring_bits, 2.0**plan.scenario.encoding.scale_bits
    sums = [
        ClusterSum(FIRST_SLOT + model, at, (), (), to_ring(np.rint(2 * mean * scale).astype(np.int64), bits))
        for at, mean in enumerate(means)
    ]
    return sums, {one.key: 2 for one in sums}


def noise(seed: int, count: int) -> list[F64]:
    return list(np.random.default_rng(seed).standard_normal((count, LENGTH)) / 32)


def mixed(seed: int, count: int = 6) -> list[F64]:
    """Means of two members of groups that pull to A and to B."""
    sides = (A, (A + B) / 2, B)
    return [side + away for side, away in zip((*sides, *sides), noise(seed, count), strict=True)]


def after(
    plan: RunPlan, round_: int, opened: Mapping[int, Sequence[F64]], moment: float = 1.0
) -> tuple[F32, F64]:
    """Models that were (0, 0, ...), (1, 1, ...) and (2, 2, ...), and velocities, by model."""
    sums: list[ClusterSum] = []
    totals: dict[ClusterKey, int] = {}
    for model, means in opened.items():
        some, counts = slots(plan, model, means)
        sums, totals = [*sums, *some], totals | counts
    before = np.repeat(np.arange(3, dtype=np.float32), LENGTH)
    made, speed = split_models(plan, round_, before, np.full((1, 3 * LENGTH), moment), sums, DRAWN, totals)
    assert before[LENGTH] == 1.0
    return made.reshape(3, -1), speed.reshape(3, -1)


def unmoved(models: F32) -> list[int]:
    return [model for model in range(3) if (models[model] == model).all()]


def test_one_model_more_every_few_rounds() -> None:
    slow, fast, without = a_plan(), a_plan(groups__pace="1"), a_plan(groups__warmup="0")
    assert [model_count(slow, round_) for round_ in range(8)] == [1, 1, 2, 2, 3, 3, 3, 3]
    assert [model_count(fast, round_) for round_ in range(5)] == [1, 1, 2, 3, 3]
    assert [model_count(without, round_) for round_ in range(2)] == [3, 3]
    assert [round_ for round_ in range(20) if is_split_due(slow, round_)] == [1, 3, 5, 7]
    assert not any(is_split_due(without, round_) for round_ in range(9))


def test_a_model_moves_to_one_side_and_the_next_begins_at_the_other() -> None:
    models, moments = after(a_plan(), 1, {0: mixed(0)})
    assert unmoved(models) == [2]
    np.testing.assert_array_equal(models[0], -models[1])
    # Members of one group gain by either, about as far as an update of their own takes them.
    tilt = models[0].astype(np.float64)
    assert abs(tilt @ (A - B)) / np.linalg.norm(A - B) > 0.99 * np.linalg.norm(tilt)
    assert 0.5 < np.linalg.norm(tilt) / (np.linalg.norm(A - B) / 2) < 1.3
    assert moments.sum(axis=1).tolist() == [0.0, 0.0, LENGTH]


def test_rounds_in_between_part_nothing() -> None:
    models, moments = after(a_plan(), 2, {0: mixed(0)})
    assert unmoved(models) == [0, 1, 2]
    assert moments.all()


def test_the_model_is_parted_whose_members_are_of_two_groups_not_the_one_that_most_learn() -> None:
    alike = [A + 4 * away for away in noise(1, 12)]
    models, _ = after(a_plan(), 3, {0: alike, 1: mixed(2)})
    assert unmoved(models) == [0]


def test_who_claims_to_have_learned_a_model_that_is_not_there_holds_it_not_back() -> None:
    """Nor is it what is parted."""
    models, _ = after(a_plan(), 3, {0: mixed(0), 1: noise(1, 4), 2: mixed(3)})
    assert unmoved(models) == [1]


def test_when_all_are_there_only_a_model_begins_again_of_which_nothing_is_opened() -> None:
    plan, alike = a_plan(), noise(1, 6)
    assert unmoved(after(plan, 5, {0: mixed(0), 1: alike, 2: alike[:1]})[0]) == [0, 1, 2]
    assert unmoved(after(plan, 5, {0: mixed(0), 2: alike})[0]) == [2]
    # Nobody is parted whose members are alike, and nobody for ever.
    assert unmoved(after(plan, 5, {0: noise(2, 6), 2: alike})[0]) == [0, 1, 2]
    assert unmoved(after(plan, 9, {0: mixed(0), 2: alike})[0]) == [0, 1, 2]


@pytest.mark.parametrize("opened", [{}, {0: mixed(0)[:1]}])
def test_without_two_sums_of_a_model_nothing_is_parted(opened: Mapping[int, Sequence[F64]]) -> None:
    assert unmoved(after(a_plan(), 1, opened)[0]) == [0, 1, 2]


def test_a_group_most_of_whose_sums_hold_a_liar_is_learned_from_the_others() -> None:
    """2 of 3 sums of model 1 go the other way, and far: the median is theirs without a screen."""
    honest, lies = [A + away for away in noise(4, 5)], [-5 * A, -5 * A]
    made = {}
    for screen in ("2.0", None):
        plan = a_plan(aggregation__rule="{type='median'}", **({"groups__screen": screen} if screen else {}))
        (zero, first), (one, second) = slots(plan, 0, honest), slots(plan, 1, [*lies, A])
        sums, totals = [*zero, *one], first | second
        result = aggregate_groups(plan, sums, DRAWN, np.zeros(plan.total_parameters), totals)
        assert result.update is not None
        made[screen] = result
        left = screen_sums(plan, sums, DRAWN, totals)
        assert set(result.rejected).isdisjoint(one.key for one in left)
        assert len(left) == (6 if screen else 8)
        assert result.update[LENGTH] == pytest.approx(8.0 if screen else -40.0, rel=0.02)
    assert set(made["2.0"].rejected) == {(FIRST_SLOT + 1, 0), (FIRST_SLOT + 1, 1)}


def test_a_group_that_moves_far_as_a_whole_is_measured_by_its_shortest() -> None:
    plan = a_plan(groups__screen="2.0")
    (near, first), (far, second) = slots(plan, 0, noise(0, 6)), slots(plan, 1, [0.35 * A, 0.4 * A, 9 * A])
    left = screen_sums(plan, [*near, *far], DRAWN, first | second)
    assert [one.key for one in left] == [one.key for one in (*near, *far[:2])]


@pytest.mark.parametrize("screen", [2.0, 3.0])
def test_a_group_all_of_whose_sums_are_far_too_long_is_left_out_as_a_whole(screen: float) -> None:
    plan = a_plan(groups__screen=str(screen))
    usual, most = [A] * 6, screen**2
    for length, left in ((0.99 * most, 8), (1.01 * most, 6)):
        (near, first), (far, second) = slots(plan, 0, usual), slots(plan, 1, [length * A, length * A])
        assert len(screen_sums(plan, [*near, *far], DRAWN, first | second)) == left


def test_without_sums_there_is_nothing_to_screen() -> None:
    assert screen_sums(a_plan(groups__screen="2.0"), [], DRAWN, {}) == []
