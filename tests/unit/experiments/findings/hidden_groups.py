"""Phrases in findings about hidden groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.unit.experiments.committed import Phrases, result, short


def clusters() -> Phrases:
    clusters = result("hidden-groups/table-clusters-fashion-mnist-desk")
    equal = {m: clusters.count_found(f"m = {m}, equal, 19 of 96") for m in (4, 6, 8)}
    uneven = {m: clusters.count_found(f"m = {m}, 38, 29, 19, 10, 10 of 96") for m in (4, 6, 8)}
    assert equal[6] == uneven[6] == 20
    return (
        f"With 19 liars m = 4 finds {equal[4]} of 20 groups, m = 6 all, and m = 8 only {equal[8]}:",
        f"m = 4 finds {uneven[4]} of 20, m = 6 all and m = 8 only {uneven[8]}.",
    )


def liars() -> Phrases:
    liars = result("hidden-groups/table-liars-fashion-mnist-desk")
    kinds = ("-10x", "-1x", "labels flipped", "noise")
    assert {liars.count_found(f"10 of 96, {kind}, hidden, screen, median") for kind in kinds} == {20}
    assert {liars.count_found(f"19 of 96, {kind}, hidden, screen, median") for kind in kinds[:2]} == {18}
    assert liars.count_found("19 of 96, -10x, hidden, median") == 4
    assert liars.count_found("10 of 96, labels flipped, hidden, median") == 16
    return ("and 18 of 20 with 19", "leave four of 20 groups")


def members() -> Phrases:
    members = result("hidden-groups/table-members-fashion-mnist-desk")
    uneven = "38, 29, 19, 10, hidden, 10 of 96"
    lost = [[one.loss for one in groups.outcomes if one.loss] for groups in members.cell(uneven).groups]
    assert sorted(lost) == [[], [], ["idle"], ["idle"], ["left", "left"]]
    both = members.count_found("38, 29, 19, 10; Dirichlet(1), hidden, 19 of 96")
    one_lost = [members.count_found(f"Dirichlet(1), hidden, {n}") for n in ("nobody", "10 of 96", "19 of 96")]
    assert one_lost == [20, 19, 20]
    assert members.count_found("equal, i.i.d., hidden, 19 of 96") == 18
    return (
        "With 10 liars that happens in two of five seeds, and in a third two groups are lost"
        f" ({short(members[uneven], 3)} on average over all groups)",
        "but for one of 20 with 10 liars",
        f"*Both, with 19 liars:* {both} of 20 are found",
        "Equal i.i.d. groups lose two of 20 with 19 liars",
    )


def starts() -> Phrases:
    starts = result("hidden-groups/table-starts-fashion-mnist-desk")
    random = [starts.count_found(f"{how}, median, random models") for how in ("hidden, screen", "open")]
    assert random == [7, 6]
    without = {starts.count_found(f"hidden, median, parted every {n}") for n in ("round", "2 rounds")}
    assert without == {16}
    return ("and 13 or 14 of 20 groups are not found", "without it hidden groups lose 4 of 20")


PHRASES: Mapping[str, Callable[[], Phrases]] = {
    "clusters": clusters,
    "liars": liars,
    "members": members,
    "starts": starts,
}

OTHERS: Mapping[str, Phrases] = {
    "liars": ("costs two points on average, -1x is not detected",),
    "members": ("With Dirichlet(0.3)",),
}
