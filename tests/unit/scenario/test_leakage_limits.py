"""What ``[leakage]`` is refused with, and what headers say of it."""

from __future__ import annotations

import pytest

from securefl.methods.clustering.sizes import leakage_colluders
from securefl.methods.feasibility import leakage as leakage_limits
from securefl.methods.feasibility.leakage import all_exposed_at
from securefl.methods.leakage import leverage, support
from tests.unit.scenario.samples import attempt, checked, complaint, headed, refusal, small

COLLUDERS = "secure_sum={threshold=2, min_survivors=3, colluders=3, colluders_per_cluster=1}"


def test_the_numbers_are_those_of_the_ledger() -> None:
    assert leakage_limits.MOST_SEARCHED == support.IN_A_ROUND
    assert leakage_limits.LEVERAGE_BUDGET == leverage.BUDGET
    assert leakage_limits.MOST_COLLUDERS == leverage.MOST_COLLUDERS


@pytest.mark.parametrize(
    ("parties", "size", "expected"), [(60, 3, 4), (100, 5, 6), (100, 10, 11), (12, 3, 4), (12, 7, None)]
)
def test_r_star(parties: int, size: int, expected: int | None) -> None:
    made = small(f"parties={parties}", f"clustering.size={size}")
    assert all_exposed_at(made) == expected
    assert all_exposed_at(small("clustering={new_work=true, reclusterings=2}")) is None


def test_reclusterings_that_are_never_opened_are_refused() -> None:
    assert str(refusal("parties=60", "clustering.reclusterings=10")) == (
        "clustering.reclusterings: 4 random reclusterings of 60 parties into 20 clusters usually reveal "
        "every update, so parties would not open all 10 sums (at most 3, new_work = true, or leakage.mode "
        '= "report" for experiments)'
    )
    for escape in ("clustering.reclusterings=3", "clustering.new_work=true", "leakage.mode=report"):
        checked("parties=60", "clustering.reclusterings=10", escape)


@pytest.mark.parametrize(
    ("overrides", "path", "says"),
    [
        (
            ("leakage.colluders=1",),
            "leakage.colluders",
            "1 colluders, but secure_sum.colluders_per_cluster is 0",
        ),
        (
            (COLLUDERS, "leakage.colluders=0"),
            "leakage.colluders",
            "is 1 and secure_sum.colluders is 3 (set a number between these two)",
        ),
        (
            (COLLUDERS, "leakage.colluders=4"),
            "leakage.colluders",
            "is 1 and secure_sum.colluders is 3 (set a number between these two)",
        ),
        ((COLLUDERS, "leakage.colluders=2"), "secure_sum.min_survivors", "besides 2 colluders"),
        (("leakage.leverage=0.4",), "leakage.leverage", "already gives 1 / 2 (set it to at least 0.5"),
        (
            (
                "parties=300",
                "clustering={size=8, reclusterings=2}",
                "secure_sum={threshold=6, min_survivors=6, k_anonymity=6}",
            ),
            "clustering.reclusterings",
            "reveal no sum of 5",
        ),
        (
            (
                "clustering={size=6, reclusterings=2}",
                "leakage.leverage=0.9",
                "secure_sum={threshold=5, min_survivors=5, colluders=3, colluders_per_cluster=3}",
            ),
            "leakage.leverage",
            "cannot be computed for 3 colluders and several reclusterings",
        ),
        (
            (
                "parties=300",
                "clustering={size=6, reclusterings=2}",
                "secure_sum={threshold=5, min_survivors=5, k_anonymity=5}",
            ),
            "clustering.reclusterings",
            "reveal no sum of 4",
        ),
        (
            (
                "parties=200",
                "clustering={size=6, reclusterings=2}",
                "leakage.leverage=0.9",
                "secure_sum={threshold=5, min_survivors=5, colluders=2, colluders_per_cluster=2}",
            ),
            "leakage.leverage",
            "200 parties and 2 colluders",
        ),
    ],
)
def test_limits_that_no_round_keeps_are_refused(overrides: tuple[str, ...], path: str, says: str) -> None:
    error = refusal(*overrides)
    assert error.path == path
    assert says in str(error)
    assert "refused" not in str(attempt(*overrides, "leakage.mode=report"))


def test_several_sums_of_one_update_hold_all_colluders_unless_set() -> None:
    """f bounds those of a cluster only: two of 60 find some 56 of 58 updates at R = 3 with f = 0."""
    declared = ("parties=60", "secure_sum.colluders=2")
    again = (*declared, "clustering.reclusterings=3")
    assert [leakage_colluders(small(*one)) for one in (declared, again)] == [0, 2]
    assert refusal(*again).path == "secure_sum.min_survivors"
    for escape in ("clustering.new_work=true", "leakage.colluders=0", "leakage.mode=report"):
        checked(*again, escape)
    atoms = "clustering={size=4, atoms=2, reclusterings=3}"
    assert leakage_colluders(small(*declared, atoms)) == 0


@pytest.mark.parametrize("value", ["0", "1.5", "-1", "nan"])
def test_a_leverage_is_a_share(value: str) -> None:
    error = complaint(f"leakage.leverage={value}")
    assert error is not None
    assert error.path == "leakage.leverage"


def test_headers_say_what_parties_keep_to() -> None:
    def said(*overrides: str) -> list[str]:
        return [note for note in headed(*overrides) if note.startswith(("LEAKAGE", "reclusterings stay"))]

    assert said() == []
    assert said("clustering.reclusterings=2", COLLUDERS, "leakage={leverage=0.75, colluders=1}") == [
        "reclusterings stay closed that would determine a sum of fewer than 3 parties (k = 2)",
    ]
    assert said("clustering.reclusterings=2", "clustering.new_work=true") == []
    assert said("leakage.mode=report") == [
        "LEAKAGE IS ONLY REPORTED: parties open sums that exceed the leakage limits"
    ]


def test_a_header_says_when_a_repeated_model_gives_everything_away() -> None:
    """12 parties in 4 clusters: R* = 4 sums of the same updates, one or two a round."""
    active = "secure_sum={server='active', verify='off', threshold=2, min_survivors=2}"
    for more, rounds in (("stop.rounds=9",), 4), (("stop.rounds=9", "clustering.reclusterings=2"), 2):
        (line,) = (one for one in headed(active, *more) if one.startswith("REPEATED MODEL EXPOSES: "))
        assert f"{rounds} rounds on one model determine updates that stay the same" in line
        assert "a change of one bit evades that" in line
        assert "REPEATED MODEL" not in " ".join(headed(active, *more, "leakage.mode=report"))
    assert not [one for one in headed("stop.rounds=9") if one.startswith("REPEATED MODEL")]
    assert not [one for one in headed(active, "stop.rounds=3") if one.startswith("REPEATED MODEL")]
