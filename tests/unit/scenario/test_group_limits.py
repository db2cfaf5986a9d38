"""What task groups go with, and what the header says of them."""

from __future__ import annotations

from itertools import combinations

import pytest

from securefl.base.errors import ConfigError
from securefl.methods.feasibility.limits import check
from securefl.methods.feasibility.task_groups import judged_together, unheard
from securefl.scenario.load import parse_scenario
from securefl.scenario.resolved import scenario_digest
from tests.looped import looped
from tests.unit.scenario.samples import header_of

OPEN = """
name = "grouped"
parties = 12
[groups]
count = 3
[clustering]
size = 2
[secure_sum]
threshold = 2
min_survivors = 2
[stop]
rounds = 3
"""
HIDDEN = (
    "groups.mode='hidden'",
    "secure_sum.threshold=4",
    "secure_sum.min_survivors=4",
    "clustering.size=4",
    "clustering.atoms=4",
    "weighting.mode='ignore'",
)


def test_feasible_ones_and_their_headers() -> None:
    assert any("3 open groups: public in each round" in line for line in header_of(parse_scenario(OPEN, ())))
    assert any("groups with 2 or more members" in line for line in header_of(parse_scenario(OPEN, HIDDEN)))
    assert any(line.startswith("3 hidden groups (lose ") for line in header_of(parse_scenario(OPEN, HIDDEN)))


def every_draw(sizes: tuple[int, ...], m: int, least: int) -> float:
    """Share of members with fewer than ``least`` of their group in a cluster of m, all draws counted."""
    parties = [group for group, size in enumerate(sizes) for _ in range(size)]
    lost = total = 0
    for at, own in enumerate(parties):
        for mates in combinations(parties[:at] + parties[at + 1 :], m - 1):
            total += 1
            lost += 1 + mates.count(own) < least
    return lost / total


def test_the_rule_is_reckoned_with_on_the_sums_of_the_smallest_group() -> None:
    groups = "groups={count=2,tasks='rotations',sizes=[6,14]}"
    plan = ("parties=20", groups, "aggregation={rule={type='median'},byzantine=3,claim='average-case'}")
    limits = check(parse_scenario(OPEN, plan))
    # Three clusters of two, parties 0 to 5: all places of three liars among the 20 parties.
    spoiled = [len({liar // 2 for liar in liars if liar < 6}) for liars in combinations(range(20), 3)]
    assert limits.breakdown == 1
    assert limits.p_rule_holds == pytest.approx(sum(n <= 1 for n in spoiled) / len(spoiled))
    assert any(
        "median: 1 of 3 clusters per group may be Byzantine: with dishonest members" in line
        for line in header_of(parse_scenario(OPEN, plan))
    )
    assert any("if chance assigns them to groups" in line for line in header_of(parse_scenario(OPEN, plan)))


def test_of_hidden_groups_as_many_sums_as_clusters_have_enough_of_its_members() -> None:
    groups = "groups={count=2,mode='hidden',tasks='rotations',sizes=[10,30]}"
    plan = ("parties=40", groups, *HIDDEN[1:], "secure_sum.colluders=0", "stop.rounds=2")
    scenario = parse_scenario(OPEN, plan)
    opened = [sum(party < 10 for party in members) >= 2 for members in combinations(range(40), 4)]
    expected = 10 * sum(opened) / len(opened)
    assert judged_together(scenario, (4,) * 10) == (4,) * int(expected)
    assert any(f" of about {int(expected)} clusters per group" in line for line in header_of(scenario))


@pytest.mark.parametrize(("sizes", "m", "least"), [((4, 4, 4), 4, 2), ((6, 4, 2), 3, 2), ((7, 5), 4, 3)])
def test_how_many_updates_no_slot_opens(sizes: tuple[int, ...], m: int, least: int) -> None:
    more = (
        f"groups={{count={len(sizes)},mode='hidden',tasks='rotations',sizes={list(sizes)}}}",
        f"clustering={{size={m},atoms={m}}}",
        f"secure_sum={{threshold={m},min_survivors={m},k_anonymity={least}}}",
    )
    scenario = parse_scenario(OPEN, (*HIDDEN[-1:], *more))
    expected = every_draw(sizes, m, least)
    assert unheard(scenario) == pytest.approx(expected)
    assert any(f"updates are lost, {expected:.0%} on average" in line for line in header_of(scenario))


def test_of_many_parties_it_is_the_chance_that_no_mate_is_of_the_group() -> None:
    many = parse_scenario(OPEN, (*HIDDEN, "parties=2400", "groups.count=4"))
    assert unheard(many) == pytest.approx((1 - 1 / 4) ** 3, abs=1e-3)


@pytest.mark.parametrize(
    ("rounds", "says"), [(6, "until round 5 has 3 groups"), (5, "GROUPS COMPLETE AFTER THE RUN")]
)
def test_the_header_says_when_all_models_are_there(rounds: int, says: str) -> None:
    notes = header_of(parse_scenario(OPEN, ("groups.warmup=3", f"stop.rounds={rounds}")))
    assert any(says in line for line in notes)


def test_two_groups_part_once_and_have_no_pace() -> None:
    two, three = (
        "\n".join(
            header_of(parse_scenario(OPEN, ("groups.warmup=3", "groups.pace=" + pace, f"groups.count={k}")))
        )
        for k, pace in ((2, "2"), (3, "1"))
    )
    assert "one model for 3 rounds, then a split every 2 rounds, until round 3 has 2 groups" in two
    assert "one model for 3 rounds, then a split every 1 round, until round 4 has 3 groups" in three


@looped(
    "overrides, field, says",
    [
        (("groups.count=13",), "groups.count", "is 13, more than the 12 parties"),
        (("groups.count=5", "groups.tasks='rotations'"), "groups.count", "4 rotations"),
        (("groups.count=1", "groups.mode='hidden'"), "groups.count", "is 1: there are no groups"),
        (
            ("groups.pace=3", "groups.warmup=2", "groups.count=2"),
            "groups.pace",
            "3 rounds between partings, but 2 groups have one",
        ),
        (("groups={pace=3}",), "groups.count", "is 1: there are no groups"),
        (("groups={warmup=3}",), "groups.count", "is 1: there are no groups"),
        (("groups.pace=3",), "groups.pace", "but groups.warmup = 0 has no such rounds"),
        (("groups.count=7",), "clustering.size", "1 in the smallest"),
        (("groups.sizes=[4,4,4]",), "groups.sizes", "needs groups of a known task"),
        (
            ("groups.tasks='rotations'", "groups.sizes=[6,6]"),
            "groups.sizes",
            "the scenario has 3 groups of 12",
        ),
        (("groups.tasks='rotations'", "groups.sizes=[4,4,3]"), "groups.sizes", "11 parties in all"),
        (("groups.tasks='rotations'", "groups.sizes=[6,5,1]"), "clustering.size", "1 in the smallest"),
        (("clustering.reclusterings=2",), "clustering.reclusterings", "be combined with groups"),
        (
            ("clustering.fixed=true", "leakage.mode='report'"),
            "clustering.fixed",
            "fixed clusters cannot be combined with groups",
        ),
        (
            ("clustering.size=4", "clustering.atoms=2"),
            "clustering.atoms",
            "atoms cannot be combined with open groups",
        ),
        (("participation.count=9",), "participation.count", "cannot be combined with groups"),
        (("aggregation.rule={type='krum',byzantine=1}",), "aggregation.rule", "a group of 4 makes 2 of 2"),
        (
            ("aggregation.rule={type='fltrust'}",),
            "aggregation.rule",
            "needs samples at the server, which groups cannot use",
        ),
        (("aggregation.claim='worst-case'",), "aggregation.claim", "may join one group"),
        (("training.dp_sgd={}",), "groups.count", "groups cannot be combined with privacy noise or DP-SGD"),
        (
            ("behaviours=[{kind='alie',parties=['p00'],z=1.0}]",),
            "behaviours.0.kind",
            "cannot be combined with groups",
        ),
        ((*HIDDEN, "secure_sum.server='active'"), "groups.mode", "cannot verify"),
        (
            (*HIDDEN, "secure_sum.threshold=3"),
            "secure_sum.threshold",
            "3 of 4 members could open a single update",
        ),
        ((*HIDDEN, "parties=26"), "parties", "26 parties cannot be split into clusters of exactly 4"),
        (
            (*HIDDEN, "clustering.atoms=1"),
            "clustering.atoms",
            "hidden groups need atoms of the size of a cluster: changing clusters",
        ),
        (
            (*HIDDEN, "weighting.mode='passthrough'"),
            "weighting.mode",
            "weights cannot be combined with hidden groups",
        ),
        (
            (*HIDDEN, "secure_sum.colluders=0", "secure_sum.k_anonymity=1", "leakage.mode='report'"),
            "secure_sum.k_anonymity",
            "alone in its group",
        ),
    ],
)
def test_what_is_refused(overrides: tuple[str, ...], field: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        check(parse_scenario(OPEN, overrides))
    assert refused.value.path == field


def test_no_groups_change_no_digest() -> None:
    plain = parse_scenario(OPEN, ("groups.count=1",))
    spelled = parse_scenario(OPEN, ("groups.count=1", "groups.mode='open'"))
    assert scenario_digest(plain) == scenario_digest(spelled)
    assert scenario_digest(plain) != scenario_digest(parse_scenario(OPEN, ()))


def test_sizes_count_where_they_are_given() -> None:
    turned = "groups.tasks='rotations'"
    digests = {
        scenario_digest(parse_scenario(OPEN, (turned, *more)))
        for more in ((), ("groups.sizes=[4,4,4]",), ("groups.sizes=[6,4,2]",))
    }
    assert len(digests) == 3


ACTIVE = ("secure_sum.server='active'", "secure_sum.verify=off")


def test_an_active_server_may_not_ask_which_model_fits() -> None:
    """The signed choice is a function of the data, for models that the server makes."""
    with pytest.raises(ConfigError, match="party's data from its choices") as refused:
        check(parse_scenario(OPEN, ACTIVE))
    assert refused.value.path == "groups.choice_epsilon"
    sums = (*ACTIVE, "secure_sum.threshold=4", "secure_sum.min_survivors=4")
    check(parse_scenario(OPEN, (*sums, "clustering.size=4", "groups.choice_epsilon=2")))


def test_colluders_who_name_a_partys_group_cannot_fill_its_cluster() -> None:
    """All q may be its mates: besides them k honest members have to be in every opened sum."""
    four = ("clustering.size=4", "secure_sum.threshold=2", "secure_sum.colluders=2")
    with pytest.raises(ConfigError, match="all q = 2 colluders can join the cluster of one party") as refused:
        check(parse_scenario(OPEN, (*four, "secure_sum.min_survivors=3")))
    assert (refused.value.path, refused.value.remedy) == ("secure_sum.min_survivors", "set it to at least 4")
    with pytest.raises(ConfigError, match="2 members can unmask a party") as rebuilt:
        check(parse_scenario(OPEN, (*four, "secure_sum.min_survivors=4")))
    assert (rebuilt.value.path, rebuilt.value.remedy) == ("secure_sum.threshold", "set it to at least 3")
    held = check(parse_scenario(OPEN, (*four, "secure_sum.min_survivors=4", "secure_sum.threshold=3")))
    assert (held.p_alone_per_opening, held.p_alone_in_run) == (0.0, 0.0)
    assert any(
        "a sum holds 2 honest updates" in line
        for line in header_of(
            parse_scenario(OPEN, (*four, "secure_sum.min_survivors=4", "secure_sum.threshold=3"))
        )
    )
    report = (*four, "secure_sum.min_survivors=3", "leakage.mode='report'")
    told = check(parse_scenario(OPEN, report))
    assert (told.p_alone_per_opening, told.p_alone_in_run) == (1.0, 1.0)
    assert any(
        "COLLUDERS CAN NAME A PARTY'S GROUP AND FILL ITS CLUSTER" in line
        for line in header_of(parse_scenario(OPEN, report))
    )
