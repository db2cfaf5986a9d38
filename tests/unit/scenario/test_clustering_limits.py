"""Options of clustering: what fixed clusters are refused with, and what headers say of each option."""

from __future__ import annotations

import pytest

from tests.unit.scenario.samples import checked, headed, refusal

FIXED = ("clustering.fixed=true", "leakage.mode=report")


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        (
            "leakage.mode=veto",
            "clustering.fixed",
            "the operator of the server chooses fixed clusters, and can place a",
        ),
        (
            "clustering.reclusterings=2",
            "clustering.reclusterings",
            "clusters are fixed, so 2 reclusterings would sum the same updates",
        ),
        ("participation.count=9", "participation.count", "break fixed clusters"),
        ("participation.fraction=0.5", "participation.fraction", "break fixed clusters"),
    ],
)
def test_fixed_clusters_are_refused_with(change: str, path: str, says: str) -> None:
    error = refusal(*FIXED, change)
    assert error.path == path
    assert says in str(error)


def test_fixed_clusters_never_grow() -> None:
    assert checked("parties=13").max_cluster_size == 5
    limits = checked("parties=13", *FIXED)
    assert limits.max_cluster_size == max(limits.cluster_sizes) == 4


@pytest.mark.parametrize("server", ["curious", "active"])
def test_one_assignment_leaves_one_chance_to_be_alone(server: str) -> None:
    collusion = ("secure_sum.colluders=4", f"secure_sum.server={server}", "secure_sum.verify=off")
    limits = checked(*FIXED, *collusion)
    assert limits.p_alone_in_run == pytest.approx(limits.p_alone_per_opening)
    assert 0 < limits.p_alone_in_run < checked(*collusion).p_alone_in_run
    assert any(
        "in the whole run, as long as nobody chose the clusters" in note
        for note in headed(*FIXED, *collusion)
    )


def notes(*settings: str) -> str:
    return " | ".join(headed(*settings))


def test_headers_say_what_was_chosen() -> None:
    one = "secure_sum={threshold=1, min_survivors=1, k_anonymity=1}"
    fixed, secure, new = (
        "CLUSTERS ARE FIXED: the operator of the server chooses them",
        "SERVER SEES EVERY UPDATE",
        "trainings a round",
    )
    assert fixed in notes(*FIXED)
    assert "SERVER SEES EVERY UPDATE: clusters of 1 have no secure sum" in notes(
        "clustering.size=1", one, "leakage.mode=report"
    )
    text = notes("clustering={new_work=true, reclusterings=4}")
    assert "4 clusters of 3, 4 trainings per round" in text
    for nothing in (notes(), notes("clustering.new_work=true"), notes("clustering.reclusterings=3")):
        assert not any(words in nothing for words in (fixed, secure, new))
